"""Facts to print: about this installation, or about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from gatcluster.config import PRESETS
from gatcluster.model.backbones import BACKBONES, map_side
from gatcluster.runs.folder import library_versions, load_run
from gatcluster.workflow import cluster_figures


def installation() -> dict[str, Any]:
    """Versions, devices and presets."""
    return {
        "versions": library_versions(),
        "devices": {
            "cpu": f"{torch.get_num_threads()} threads",
            "cuda": f"{torch.cuda.device_count()} devices" if torch.cuda.is_available() else "not available",
            "mps": "available" if torch.backends.mps.is_available() else "not available",
        },
        "presets": {
            name: f"{preset.size}x{preset.size} {'grey' if preset.grey else 'colour'}, "
            f"attention map {map_side(BACKBONES[name], preset.size)}x{map_side(BACKBONES[name], preset.size)}, "
            f"M {preset.batch_size}, k {preset.n_clusters} in the paper"
            for name, preset in PRESETS.items()
        },
    }


def run_facts(path: Path) -> dict[str, Any]:
    """A run's settings and results."""
    run = load_run(path)
    config, settings, history = run.config(), run.settings(), run.history()
    sizes, confidence = cluster_figures(run.label_features())
    facts: dict[str, Any] = {
        "run": str(path),
        "source": config["source"],
        "settings": settings.model_dump(mode="json"),
        "results": {
            "images": config["n_images"],
            "cluster sizes": sizes,
            "cluster confidence": [None if sure is None else round(sure, 3) for sure in confidence],
            "iterations": len(history),
            "epochs": history[-1].epoch if history else 0,
            "training seconds": history[-1].seconds if history else 0.0,
        },
        "versions": config["versions"],
    }
    metrics = run.metrics()
    if metrics is not None:
        facts["metrics"] = metrics
    return facts
