"""From images and settings to a trained network and every image's label features."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from gatcluster.config import Settings
from gatcluster.data.images import ImageSet
from gatcluster.devices import check_device, machine_memory
from gatcluster.errors import ConvergenceWarning, InputError
from gatcluster.learning.callbacks import Callback, StopWhenSettled
from gatcluster.learning.ending import keep_back_the_end
from gatcluster.learning.fast import learn_fast
from gatcluster.learning.history import Record
from gatcluster.learning.snapshots import Snapshots
from gatcluster.learning.state import StateKeeper
from gatcluster.learning.trainer import Trainer
from gatcluster.learning.watch import check_finite
from gatcluster.model.inference import label_features
from gatcluster.model.network import GATNetwork, network_shapes

_COPIES_IN_TRAINING = 4  # weights, gradients, and two momenta


@dataclass(frozen=True)
class FitResult:
    """A trained network and what it says of the images it learned from."""

    settings: Settings
    network: GATNetwork  # on the CPU
    label_features: NDArray[np.float32]  # (N, k)
    history: list[Record]
    snapshots: Snapshots | None = None


def fit(
    images: ImageSet, settings: Settings, callbacks: Sequence[Callback] = (), keeper: StateKeeper | None = None
) -> FitResult:
    """Learn clusters from images alone, by the recipe of ``settings``.

    Args:
        images: what to learn from.
        settings: complete settings.
        callbacks: what looks on.
        keeper: keeps the state of the training; what it kept of an earlier one goes on from there.
    """
    check_fittable(settings)
    patience = settings.training.patience
    if patience is not None and settings.recipe == "paper":  # in `fast` it ends a round: the next cut may change much
        callbacks = [*callbacks, StopWhenSettled(patience)]
    trainer = Trainer(images, settings, callbacks, keeper)
    if not trainer.resumed:
        trainer.snapshots.look(trainer.network, "start", 0.0)
    if settings.recipe == "paper":
        learn_as_published(trainer)
    else:
        learn_fast(trainer)
    features = label_features(trainer.network, trainer.images, settings)
    check_finite(torch.from_numpy(features), "label features")
    _warn_of_unused_clusters(features)
    _warn_of_skipped_steps(trainer.history)
    snapshots = trainer.snapshots.finished(features)
    return FitResult(settings, trainer.network.eval().cpu(), features, trainer.history, snapshots)


def check_fittable(settings: Settings) -> None:
    """Refuse, before anything is written, what cannot be: device, images too small, a network too large."""
    check_device(settings.device, settings.precision)
    n_bytes = sum(tensor.nbytes for tensor in network_shapes(settings).values())
    if n_bytes * _COPIES_IN_TRAINING > machine_memory():
        raise InputError(
            f"a network for {settings.n_clusters} clusters takes {n_bytes / 1e9:.1f} GB, and "
            f"{_COPIES_IN_TRAINING} times that to train: this machine has "
            f"{machine_memory() / 1e9:.1f} GB. Give a smaller k, or another preset"
        )


def learn_as_published(trainer: Trainer) -> None:
    """The paper's recipe: Algorithm 1 from random weights, relations from k-means, a constant learning rate."""
    rate = trainer.settings.training.learning_rate
    if not trainer.resumed:
        keep_back_the_end(trainer, with_statistics=False)
    trainer.algorithm_1(trainer.paper_targets, trainer.budget, learning_rate=lambda spent: rate)


def _warn_of_unused_clusters(features: NDArray[np.float32]) -> None:
    k = features.shape[1]
    used = len(np.unique(features.argmax(axis=1)))
    if used < k:
        warnings.warn(
            f"only {used} of the {k} clusters asked for hold any image. "
            "Train longer, ask for fewer clusters, or try another seed.",
            ConvergenceWarning,
            stacklevel=3,
        )


def _warn_of_skipped_steps(history: Sequence[Record]) -> None:
    skipped = sum(record.skipped_steps for record in history)
    if skipped:
        warnings.warn(
            f"{skipped} steps were left out, because a loss or a gradient was not a finite number. "
            "Lower the learning rate, or use precision 32-true.",
            ConvergenceWarning,
            stacklevel=3,
        )
