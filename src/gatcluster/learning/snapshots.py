"""The label features of a fixed sample of images at several moments of training, for the paper's figure 3."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gatcluster.config import Settings
from gatcluster.data.images import ImageSet
from gatcluster.learning.state import State
from gatcluster.model.inference import infer
from gatcluster.model.network import GATNetwork

MOST_IMAGES = 2000
_PIXELS = 2**21  # of a sample: to look at it must cost little beside training, whatever the image size
_MOMENTS = 10  # while clusters are learned


class Snapshots(NamedTuple):
    """What the network said of a sample of the images, from the first moment of training to the last."""

    images: NDArray[np.int64]  # (n,), indices in rising order
    stages: list[str]  # S of them
    progress: list[float]  # (S,), shares of the whole training, 0 to 1
    features: NDArray[np.float16]  # (S, n, k)


class SnapshotKeeper:
    """Takes snapshots at even distances while clusters are learned; draws nothing from the run's random numbers."""

    def __init__(self, images: ImageSet, settings: Settings) -> None:
        self._images = images
        self._settings = settings
        height, width = settings.images.size
        count = min(len(images), MOST_IMAGES, max(settings.n_clusters, _PIXELS // (height * width)))
        self._sample = np.sort(np.random.default_rng(settings.seed).permutation(len(images))[:count])
        warm_up = settings.fast.warm_up_share if settings.fast else 0.0
        self._distance = (1 - warm_up) / _MOMENTS
        self._next = 0.0
        self._taken: list[tuple[str, float, NDArray[np.float16]]] = []

    def look(self, network: GATNetwork, stage: str, done: float) -> None:
        """Take a snapshot if one is due; ``done`` is the share of the whole training."""
        if done >= self._next:
            features = infer(network, network.label_features, self._images, self._settings, self._sample)
            self._taken.append((stage, done, features.numpy().astype(np.float16)))
            self._next = done + self._distance

    def finished(self, label_features: NDArray[np.float32]) -> Snapshots:
        """All snapshots; the last is of the finished network's label features (N, k)."""
        last = ("finished", 1.0, label_features[self._sample].astype(np.float16))
        stages, progress, features = zip(*self._taken, last, strict=True)
        return Snapshots(self._sample, list(stages), list(progress), np.stack(features))

    def state(self) -> State:
        """What was taken so far, and when the next is due."""
        taken = [{"stage": stage, "done": done, "features": features} for stage, done, features in self._taken]
        return {"taken": taken, "next": self._next}

    def restore(self, state: State) -> None:
        """Go on taking."""
        self._taken = [(one["stage"], float(one["done"]), one["features"]) for one in state["taken"]]
        self._next = float(state["next"])
