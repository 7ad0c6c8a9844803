"""Result lines as a benchmark would write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def made_up() -> Callable[..., dict[str, Any]]:
    """Makes the line of a measurement that was done; anything may be given otherwise."""

    def line(set: str, method: str, seed: int, accuracy: float, **other: Any) -> dict[str, Any]:
        recipe = method in ("fast", "paper")
        return {
            "benchmark": "quality",
            "set": set,
            "method": method,
            "seed": seed,
            "minutes": 2.0,
            "epochs": None,
            "n_images": None,
            "status": "done",
            "accuracy": accuracy,
            "nmi_geometric": accuracy,
            "ari": accuracy,
            "seconds": 60.0,
            "seconds_reading": 1.0,
            "peak_bytes": 500_000_000,
            "images": 1797,
            "cluster_sizes": [180] * 10,
            "empty_clusters": 0,
            "label_free": {"information": accuracy, "confidence": accuracy, "invariance": accuracy} if recipe else {},
            "details": {"augment": "glyph", "geometry": 1.0, "grey": True, "size": [8, 8]} if recipe else {},
            "date": "2026-01-02T03:04:05+00:00",
            "commit": "0123456789",
            "command": "python benchmarks/quality.py --data DIR",
            "hardware": {"cpu": "a processor", "cores": 2, "memory_bytes": 8 * 2**30},
            "load": 0.2,
            "versions": {"python": "3.12.1", "torch": "2.9", "scikit-learn": "1.7", "umap-learn": "0.5.9"},
            **other,
        }

    return line
