"""Algorithm 1 of the paper: two steps for every batch, from pixels to clusters.

Read it from :meth:`Trainer.algorithm_1` down. Step 1 computes the label features of a batch of M images and from them
the pseudo-targets; step 2 learns these targets from transformed images in sub-batches of m₂. Memory is bounded by the
sub-batches m₁ and m₂: of a batch, only its label features (M, k) and targets are held.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import Tensor

from gatcluster.config import Settings
from gatcluster.data.augment import transform
from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError
from gatcluster.learning.budget import Budget, EpochBudget, TimeBudget
from gatcluster.learning.callbacks import Callback, Progress
from gatcluster.learning.history import Record
from gatcluster.learning.losses import Losses, entropy_loss, total_loss
from gatcluster.learning.targets import (
    balanced_targets,
    cluster_label_features,
    relation_targets,
    sharpened_targets,
)
from gatcluster.model.inference import infer
from gatcluster.model.network import build_network

Indices = NDArray[np.int64]

# Kept back from a time budget for what follows training: every image's cluster, and writing the run.
_SHARE_FOR_THE_END = 0.03


class Targets(NamedTuple):
    """The pseudo-targets T_b of a batch: l̂, l̂ᵃ, and the cluster ids that the relations r_ij are read from."""

    balanced: Tensor  # (M, k)
    sharpened: Tensor  # (M, k)
    assignments: Tensor  # (M,), negative: related to itself only
    fell_back: bool = False  # every relation is identity, because k-means found a near-empty cluster


# Makes the targets of a batch from the images' indices (M,) and their label features (M, k).
TargetMaker = Callable[[Indices, Tensor], Targets]


def random_batches(n_images: int, batch_size: int, random: np.random.Generator) -> Iterator[Indices]:
    """Batches without end: in every epoch ⌊N/M⌋ of them, all different, from a new order of the images."""
    while True:
        order = random.permutation(n_images)
        for start in range(0, n_images - batch_size + 1, batch_size):
            yield order[start : start + batch_size]


class Trainer:
    """A network in training, with its images, its random state and its history.

    Args:
        images: what to learn from.
        settings: complete settings.
        callbacks: what looks on.
    """

    def __init__(self, images: ImageSet, settings: Settings, callbacks: Sequence[Callback] = ()) -> None:
        if settings.training.batch_size > len(images):
            raise InputError(f"the batch size is {settings.training.batch_size}, but there are {len(images)} images")
        self.images = images
        self.settings = settings
        self.callbacks = callbacks
        self.history: list[Record] = []

        self.fabric = Fabric(accelerator=settings.device, devices=1, precision=settings.precision)
        self.network = build_network(settings).to(self.fabric.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        training = settings.training
        self.budget: Budget = (
            TimeBudget(training.minutes * 60 * (1 - _SHARE_FOR_THE_END))
            if training.minutes is not None
            else EpochBudget(training.epochs or 0)
        )
        self.random = np.random.default_rng(settings.seed)  # orders, and the starts of k-means
        self.transformation_random = torch.Generator(self.fabric.device).manual_seed(settings.seed)
        self.clusters = np.full(len(images), -1)  # of each image when last seen; -1: not seen yet
        self._start = time.monotonic()
        self._epochs = 0.0
        self._relation_fallbacks = 0

    def algorithm_1(
        self,
        make_targets: TargetMaker,
        budget: Budget,
        learning_rate: Callable[[float], float],
    ) -> None:
        """Algorithm 1, until the budget is spent or a callback stops it.

        Args:
            make_targets: how pseudo-targets are found; :meth:`paper_targets` is the paper's way.
            budget: the part of ``self.budget`` to use.
            learning_rate: of the share of that budget that is spent.
        """
        settings = self.settings.training
        optimizer = torch.optim.Adam(self.network.parameters(), lr=settings.learning_rate)
        model, optimizer = self.fabric.setup(self.network, optimizer)
        model.train()
        batches = random_batches(len(self.images), settings.batch_size, self.random)
        batches_per_epoch = len(self.images) // settings.batch_size

        steps_per_epoch = batches_per_epoch * settings.passes * (settings.batch_size // settings.sub_batch)

        while True:  # at least once, however small the budget
            batch = next(batches)
            began = time.monotonic()
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(budget.spent)

            # Step 1: label features and pseudo-targets of the whole batch.
            label_features = infer(self.network, self.network.label_features, self.images, self.settings, batch)
            targets = make_targets(batch, label_features)

            # Step 2: learn the targets from transformed images, a sub-batch at a time.
            sums, steps = torch.zeros(len(Losses._fields), device=self.fabric.device), 0
            for sub_batch in self._sub_batches(len(batch)):
                sums += torch.stack(self._learn(model, optimizer, batch, sub_batch, targets))
                steps += 1
                budget.spend(1 / steps_per_epoch)
                self.report_progress("clustering")
                if budget.spent >= 1:
                    break

            self.finish_iteration(
                "clustering",
                began,
                n_trained=steps * settings.sub_batch,
                epochs=steps / steps_per_epoch,
                losses=dict(zip(Losses._fields, (sums / steps).tolist(), strict=True)),
                learning_rate=optimizer.param_groups[0]["lr"],
                **self.clustering_figures(batch, label_features, targets.fell_back),
            )
            if budget.spent >= 1 or self.stopped:
                return

    def paper_targets(self, batch: Indices, label_features: Tensor) -> Targets:
        """The paper's pseudo-targets: l̂ and l̂ᵃ from the label features, relations from k-means on them."""
        clusters, fell_back = cluster_label_features(label_features, seed=int(self.random.integers(2**31)))
        return Targets(balanced_targets(label_features), sharpened_targets(label_features), clusters, fell_back)

    @property
    def stopped(self) -> bool:
        """Whether a callback wants training to end."""
        return any(callback.wants_stop() for callback in self.callbacks)

    def transformed(self, indices: Indices) -> Tensor:
        """The images of ``indices``, each randomly transformed, (n, C, H, W) on the device."""
        images = self.images.batch(indices).to(self.fabric.device)
        form = self.settings.images
        transformed = transform(images, form.augment, form.grey, self.transformation_random, form.geometry)
        return transformed.contiguous(memory_format=torch.channels_last)

    def report_progress(self, stage: str) -> None:
        """Tell the callbacks how far training is."""
        done, seconds = self.budget.spent, time.monotonic() - self._start
        left = seconds * (1 - done) / done if done > 0 else None
        for callback in self.callbacks:
            callback.on_progress(Progress(stage, done, seconds, left))

    def finish_iteration(
        self,
        stage: str,
        began: float,
        n_trained: int,
        epochs: float,
        losses: dict[str, float],
        learning_rate: float,
        **clustering: Any,
    ) -> None:
        """Add an outer iteration to the history and tell the callbacks.

        Args:
            stage: its name.
            began: when it began, by ``time.monotonic``.
            n_trained: images it trained on.
            epochs: the share of all images that makes, which counts the epochs.
            losses: their means.
            learning_rate: in force.
            clustering: the fields of a record that only a stage with clusters has.
        """
        now = time.monotonic()
        self._epochs += epochs
        epoch = math.ceil(self._epochs - 1e-6)
        record = Record(
            stage=stage,
            epoch=min(epoch, self.settings.training.epochs or epoch),  # a stage's last step may go a little over
            iteration=len(self.history) + 1,
            losses=losses,
            learning_rate=learning_rate,
            seconds=now - self._start,
            images_per_second=n_trained / max(now - began, 1e-9),
            **clustering,
        )
        self.history.append(record)
        for callback in self.callbacks:
            callback.on_record(record)

    def _sub_batches(self, batch_size: int) -> Iterator[Indices]:
        """⌊M/m₂⌋ random sub-batches, as positions in the batch; as often as there are passes."""
        m2 = self.settings.training.sub_batch
        for _ in range(self.settings.training.passes):
            order = self.random.permutation(batch_size)
            for start in range(0, batch_size - m2 + 1, m2):
                yield order[start : start + m2]

    def _learn(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        batch: Indices,
        sub_batch: Indices,
        targets: Targets,
    ) -> Losses:
        """One step of Adam on Eq. "L_total"; returns the losses, without their graph."""
        positions = torch.from_numpy(sub_batch)
        device = self.fabric.device
        output = model(self.transformed(batch[sub_batch]))
        losses = total_loss(
            output.label_features,
            output.attention_label_features,
            targets.balanced[positions].to(device),
            targets.sharpened[positions].to(device),
            relation_targets(targets.assignments[positions]).to(device),
            self.settings.loss_weights,
        )
        optimizer.zero_grad(set_to_none=True)
        self.fabric.backward(losses.total)
        optimizer.step()
        return Losses(*(loss.detach() for loss in losses))

    def clustering_figures(self, batch: Indices, label_features: Tensor, fell_back: bool = False) -> dict[str, Any]:
        """What a record says of clusters; also remembers where each image of the batch was.

        Args:
            batch: (M,), the images' indices.
            label_features: (M, k), on the CPU.
            fell_back: whether the relations of this batch fell back to identity.
        """
        confidence, clusters = label_features.max(dim=1)
        before, now = self.clusters[batch], clusters.numpy()
        seen = before >= 0
        self.clusters[batch] = now
        self._relation_fallbacks += fell_back
        return {
            "cluster_sizes": np.bincount(
                self.clusters[self.clusters >= 0], minlength=self.settings.n_clusters
            ).tolist(),
            "mean_confidence": float(confidence.mean()),
            "entropy": -float(entropy_loss(label_features)),
            "changed": float((before != now)[seen].mean()) if seen.any() else None,
            "relation_fallbacks": self._relation_fallbacks,
        }
