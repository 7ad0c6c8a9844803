from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from gatcluster.config import ImageSettings, make_settings
from gatcluster.data.images import Skipped
from gatcluster.learning.fit import FitResult
from gatcluster.learning.history import Record
from gatcluster.model.network import build_network
from gatcluster.runs.create import new_run

NAMES = ["a.png", "sub/b, c.png", 'quo"te.png', "line\nbreak.png", "carriage\rreturn.png", os.fsdecode(b"caf\xe9.png")]
K = 3


def _fit_result(seed: int = 0) -> FitResult:
    """What a fit returns, without its training: random weights, random label features."""
    images = ImageSettings(size=(8, 8), channels=1, grey=True, augment="glyph", value_range=(-1.5, 3.25))
    settings = make_settings(n_clusters=K, n_images=len(NAMES), images=images, seed=seed, epochs=2, learning_rate=0.02)
    network = build_network(settings)
    with torch.no_grad():
        for tensor in network.state_dict().values():  # running statistics too: fresh ones would prove nothing
            tensor.copy_(torch.rand(tensor.shape, generator=torch.Generator().manual_seed(7)) * 10)
    features = np.random.default_rng(seed).dirichlet(np.ones(K), len(NAMES)).astype(np.float32)
    history = [
        Record("warm-up", 1, 1, {"contrast": 2.5}, 0.001, 0.25, 100.0),
        Record("clustering", 2, 2, {"relation": 0.1, "total": 1 / 3}, 0.002, 0.5, 99.5, [4, 2, 0], 0.9, 1.1, 0.25, 1),
    ]
    return FitResult(settings, network.eval(), features, history)


@pytest.fixture(scope="session")
def names() -> list[str]:
    return NAMES


@pytest.fixture(scope="session")
def fit_result() -> Callable[..., FitResult]:
    """Makes what a fit returns; give it a seed."""
    return _fit_result


@pytest.fixture(scope="session")
def written(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "written"
    with new_run(path, overwrite=False) as run:
        run.write(_fit_result(), NAMES, "/photos", [Skipped("bad, one.jpg", "not an image")])
    return path


@pytest.fixture
def run_path(written, tmp_path) -> Path:
    """A written run of one's own, to damage."""
    return Path(shutil.copytree(written, tmp_path / "run"))
