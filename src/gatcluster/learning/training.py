"""A network in training: what both recipes share, whatever they learn from."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from gatcluster.config import Settings
from gatcluster.data.augment import transform
from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError
from gatcluster.learning.batches import Indices
from gatcluster.learning.budget import EpochBudget, TimeBudget
from gatcluster.learning.callbacks import Callback, Progress
from gatcluster.learning.guard import Guard
from gatcluster.learning.history import Record
from gatcluster.learning.losses import entropy_loss
from gatcluster.learning.revival import EmptyClusters, revive_output
from gatcluster.learning.snapshots import SnapshotKeeper
from gatcluster.learning.state import ModuleState, OptimizerState, Parts, RandomState, State, StateKeeper
from gatcluster.learning.watch import Onlooker, Watch
from gatcluster.model.network import build_network

logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it would print the precision, which settings tell

_SEEN_SHARE = 0.9  # of the images, before a cluster without any counts as empty


class Training:
    """A network in training, with its images, its random state and its history.

    Args:
        images: what to learn from.
        settings: complete settings.
        callbacks: what looks on.
        keeper: keeps the state of the training, and may hold that of an earlier one that is to go on.
    """

    def __init__(
        self,
        images: ImageSet,
        settings: Settings,
        callbacks: Sequence[Callback] = (),
        keeper: StateKeeper | None = None,
    ) -> None:
        if settings.training.batch_size > len(images):
            raise InputError(f"the batch size is {settings.training.batch_size}, but there are {len(images)} images")
        # Within a memory budget, pages of the file of decoded images are given back as soon as they are read.
        self.images = images if settings.memory is None else replace(images, held_bytes=0)
        self.settings = settings
        self.callbacks = callbacks
        self.history: list[Record] = []

        self.fabric = Fabric(accelerator=settings.device, devices=1, precision=settings.precision)
        self.network = build_network(settings).to(self.fabric.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        training = settings.training
        self.budget: EpochBudget | TimeBudget = (
            TimeBudget(training.minutes * 60) if training.minutes is not None else EpochBudget(training.epochs or 0)
        )
        self.random = np.random.default_rng(settings.seed)  # orders, and the starts of k-means
        self.transformation_random = torch.Generator(self.fabric.device).manual_seed(settings.seed)
        self.clusters = np.full(len(images), -1)  # of each image when last seen; -1: not seen yet
        self._start = time.monotonic()
        self._epochs = 0.0
        self._relation_fallbacks = 0
        self._actions: list[str] = []  # since the last record
        self.snapshots = SnapshotKeeper(self.images, settings)

        self._keeper = keeper
        kept = keeper.kept() if keeper is not None else None
        self.resumed = kept is not None
        self.parts = Parts(kept)
        self.parts.add("training", self)
        self.parts.add("budget", self.budget)
        self.random_streams = self.parts.add("random", RandomState(self.random, self.transformation_random))
        self.parts.add("snapshots", self.snapshots)
        self._watch = self.parts.add("watch", Watch(len(images), settings.n_clusters))
        self._empty = self.parts.add("empty clusters", EmptyClusters())
        self._guard: Guard | Onlooker | None = None
        for number, callback in enumerate(callbacks):
            kind = type(callback)
            earlier = sum(type(other) is kind for other in callbacks[:number])
            self.parts.add(f"{kind.__qualname__} {earlier}", callback)
            if self.resumed:
                callback.on_resume(self.history)

    @property
    def stopped(self) -> bool:
        """Whether a callback wants training to end."""
        return any(callback.wants_stop() for callback in self.callbacks)

    def transformed(self, indices: Indices, size: tuple[int, int] | None = None) -> Tensor:
        """The images of ``indices``, each randomly transformed, on the device: (n, C, H, W), or of ``size``."""
        images = self.images.batch(indices).to(self.fabric.device)
        transformed = transform(images, self.settings.images, self.transformation_random, size)
        return transformed.contiguous(memory_format=torch.channels_last)

    def take_in(self, module: nn.Module, *optimizers: torch.optim.Optimizer) -> None:
        """Make the states of what learns parts of the training's, and guard its steps."""
        self.parts.add("network", ModuleState(module))
        self.parts.add("optimizer", OptimizerState(*optimizers))
        scaled = self.settings.precision == "16-mixed"
        self._guard = Guard(module, optimizers, scaled) if self.settings.watch else Onlooker(module, scaled)
        self.parts.add("guard", self._guard)

    def allows_step(self, loss: Tensor) -> bool:
        """Whether the optimisers may take their step, now that the gradients of ``loss`` are there."""
        return self._guard is None or self._guard.allows_step(loss)

    def note_action(self, action: str) -> None:
        """Let the next record say what was done about something that went wrong."""
        self._actions.append(action)

    def end_step(self, stage: str) -> None:
        """After every step of the optimisers: tell the callbacks, and let the state be kept."""
        self.report_progress(stage)
        if self._keeper is not None:
            self._keeper.after_step(self.parts.state)

    def end_stage(self) -> None:
        """After a stage, which may have changed the network without steps: remember this state, and let it be kept."""
        if self._guard is not None:
            self._guard.end_iteration()
        if self._keeper is not None:
            self._keeper.after_stage(self.parts.state)

    def state(self) -> State:
        """What the training itself remembers; its parts have states of their own."""
        return {
            "history": [record.as_json() for record in self.history],
            "clusters": self.clusters.astype(np.int32),
            "epochs": self._epochs,
            "relation_fallbacks": self._relation_fallbacks,
            "seconds": time.monotonic() - self._start,
            "precision": self.fabric.strategy.precision.state_dict(),
            "actions": self._actions,
        }

    def restore(self, state: State) -> None:
        """Go on from there."""
        self.history[:] = [Record(**record) for record in state["history"]]
        clusters = state["clusters"]
        if (
            clusters.shape != self.clusters.shape
            or not ((clusters >= -1) & (clusters < self.settings.n_clusters)).all()
        ):
            raise ValueError("its clusters are not those of these images")
        self.clusters[:] = clusters
        self._epochs = float(state["epochs"])
        self._relation_fallbacks = int(state["relation_fallbacks"])
        self._start = time.monotonic() - float(state["seconds"])
        self.fabric.strategy.precision.load_state_dict(state["precision"])
        self._actions = [str(action) for action in state["actions"]]

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
        self._revive_clusters(clustering.get("cluster_sizes", []))
        guard = self._guard
        if guard is not None and guard.went_back:
            self.note_action(f"went back to the last good state {guard.went_back} times")
        epoch = math.ceil(self._epochs - 1e-6)
        record = Record(
            stage=stage,
            epoch=min(epoch, self.settings.training.epochs or epoch),  # a stage's last step may go a little over
            iteration=len(self.history) + 1,
            losses=losses,
            learning_rate=learning_rate,
            seconds=now - self._start,
            images_per_second=n_trained / max(now - began, 1e-9),
            gradient_norm=None if guard is None else guard.largest_gradient,
            skipped_steps=0 if guard is None else guard.skipped,
            actions=self._actions,
            **clustering,
        )
        record = replace(record, findings=self._watch.look(record))
        self._actions = []
        if guard is not None:
            guard.end_iteration()
        self.history.append(record)
        for callback in self.callbacks:
            callback.on_record(record)
        if clustering:
            self.snapshots.look(self.network, stage, self.budget.spent)

    def _revive_clusters(self, sizes: list[int]) -> None:
        """Revive clusters that stay empty; in recipe `fast` this is done where the graph is cut."""
        if not self.settings.watch or self.settings.recipe != "paper" or sum(sizes) < _SEEN_SHARE * len(self.images):
            return
        for cluster in self._empty.to_revive(sizes, self.budget.spent):
            largest = int(np.argmax(sizes))
            revive_output(self.network, cluster, largest, seed=self.settings.seed + len(self.history))
            self.note_action(f"revived cluster {cluster}, which was empty, with half of cluster {largest}")

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
