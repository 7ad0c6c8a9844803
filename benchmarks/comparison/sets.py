"""The data sets, what is demanded on them, and their labels, which only scoring reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.datasets import load_digits

from gatcluster.data.detect import located_format
from gatcluster.data.images import ImageSet
from gatcluster.data.sources import read_images
from gatcluster.errors import InputError
from gatcluster.evaluation.source_labels import labels_from_source

_WHITE = 16  # in scikit-learn's digits


@dataclass(frozen=True)
class BenchmarkSet:
    """A data set with its time budget and the demands on `fast`."""

    title: str
    folder: str | None  # below the data folder; None: scikit-learn carries it
    minutes: float
    n_seeds: int
    must: float  # mean ACC of `fast`
    aim: float
    n_clusters: int = 10
    n_images: int | None = None  # a random subset of this size; None: all images, training and test
    aim_minutes: float | None = None  # in which the aim may be reached, if not in ``minutes``
    in_colour: bool = False


SETS: Final[dict[str, BenchmarkSet]] = {
    "digits": BenchmarkSet("digits", None, minutes=2, n_seeds=3, must=0.93, aim=0.98),
    "usps": BenchmarkSet("USPS", "usps", minutes=5, n_seeds=3, must=0.85, aim=0.97),
    "mnist": BenchmarkSet("MNIST", "mnist", minutes=10, n_seeds=3, must=0.93, aim=0.985),
    "fashion-mnist": BenchmarkSet("Fashion-MNIST", "fashion-mnist", minutes=10, n_seeds=3, must=0.62, aim=0.70),
    "cifar10": BenchmarkSet(
        "CIFAR-10", "cifar-10-batches-bin", minutes=30, n_seeds=2, must=0.32, aim=0.61, aim_minutes=120, in_colour=True
    ),
    "imagenette128": BenchmarkSet(
        "imagenette128", "imagenette128", minutes=20, n_seeds=2, must=0.30, aim=0.60, in_colour=True
    ),
}


def find_source(chosen: BenchmarkSet, data: Path | None) -> Any:
    """What a user would hand to `fit`: a path, or for the digits an array (N, 8, 8)."""
    if chosen.folder is None:
        return (load_digits().images * (255 / _WHITE)).round().astype(np.uint8)
    if data is None:
        raise InputError(
            f"{chosen.title} does not come with scikit-learn: give the folder of the data sets, --data DIR"
        )
    path = data / chosen.folder
    if not path.exists():
        raise InputError(
            f"there is no {chosen.title} at {path}: give the folder that holds {chosen.folder}, --data DIR"
        )
    return path


def subset(source: Any, n_images: int | None, seed: int) -> tuple[Any, np.ndarray | None]:
    """The source itself, or an array of ``n_images`` of its images drawn by the seed, and which ones they are."""
    if n_images is None:
        return source, None
    images = read_images(source)
    chosen = np.sort(np.random.default_rng(seed).permutation(len(images))[:n_images])
    return np.asarray(images.pixels[chosen]), chosen


def true_labels(source: Any, images: ImageSet) -> list[Any]:
    """The label of each image of a whole source. For scoring, once the clusters are known."""
    if not isinstance(source, Path):
        return list(load_digits().target)
    path, found = located_format(source, None)
    return list(labels_from_source(str(path), found, images.names))
