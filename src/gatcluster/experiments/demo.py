"""The demo's images: 1,797 real handwritten digits, 8x8 pixels, that scikit-learn carries."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from gatcluster.evaluation.metrics import Metrics, evaluate_clusters
from gatcluster.experiments.baselines import kmeans_on_pixels
from gatcluster.prepare import prepare
from gatcluster.report.progress import LiveProgress, PlainProgress
from gatcluster.runs.create import new_run
from gatcluster.runs.files import write_csv
from gatcluster.runs.layout import DEMO_IMAGES, DEMO_LABELS
from gatcluster.workflow import Summary, evaluate_run, fit_images

_WHITE = 16  # in scikit-learn's digits


def write_digits(folder: Path) -> list[str]:
    """Write the digits as PNG files, one for each; returns their labels in the order of the file names."""
    digits = load_digits()
    folder.mkdir(parents=True)
    for number, pixels in enumerate(digits.images):
        Image.fromarray((pixels * (255 / _WHITE)).round().astype(np.uint8)).save(folder / f"{number:04}.png")
    return [str(label) for label in digits.target]


def run_demo(
    output: Path,
    seed: int,
    epochs: int | None,
    minutes: float | None,
    overwrite: bool,
    progress: LiveProgress | PlainProgress,
    with_report: bool = True,
) -> tuple[Summary, dict[str, Metrics]]:
    """Cluster the digits as a user would cluster a folder, and score the clusters beside those of plain k-means."""
    began = time.monotonic()
    with TemporaryDirectory() as scratch:
        digits = Path(scratch) / DEMO_IMAGES
        labels = write_digits(digits)
        images, settings = prepare(
            digits, n_clusters=10, seed=seed, epochs=epochs, minutes=minutes, on_progress=progress.on_images
        )
        with new_run(output, overwrite) as run:  # not earlier: what cannot be used must not cost an earlier run
            folder = shutil.copytree(digits, run.path / DEMO_IMAGES)
            write_csv(run.path / DEMO_LABELS, ("path", "label"), zip(images.names, labels, strict=True))
            summary = fit_images(images, settings, run, str(folder.resolve()), progress, began, None, with_report)
            scores = {
                "gatcluster": evaluate_run(run.path, str(run.path / DEMO_LABELS)),
                "k-means on pixels": evaluate_clusters(labels, kmeans_on_pixels(images, 10, seed)),
            }
    return summary, scores
