"""An outer iteration of Algorithm 1 as data: a batch, its targets, and how far step 2 is with them."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gatcluster.learning.batches import Indices, RandomBatches
from gatcluster.learning.losses import Losses
from gatcluster.learning.restored import checked_count, checked_indices, checked_rows
from gatcluster.learning.state import State


class Targets(NamedTuple):
    """The pseudo-targets T_b of a batch: l̂, l̂ᵃ, and the cluster ids that the relations r_ij are read from."""

    balanced: Tensor  # (M, k)
    sharpened: Tensor  # (M, k)
    assignments: Tensor  # (M,), negative: related to itself only
    fell_back: bool = False  # every relation is identity, because k-means found a near-empty cluster


class OuterIteration:
    """A batch on its way through step 2.

    Args:
        batch: (M,), the images' indices.
        label_features: (M, k), of step 1.
        targets: of step 1.
        sub_batches: the order in which step 2 goes through the batch.
        device: where the losses are.
    """

    def __init__(
        self,
        batch: Indices,
        label_features: Tensor,
        targets: Targets,
        sub_batches: RandomBatches,
        device: torch.device,
    ) -> None:
        self.batch = batch
        self.label_features = label_features
        self.targets = targets
        self.sub_batches = sub_batches
        self.steps = 0
        self._sound = 0  # of them, without those that were left out
        self.began = time.monotonic()
        self._sums = torch.zeros(len(Losses._fields), device=device)

    def add(self, losses: Losses | None) -> None:
        """Note the losses of a step; None for one that was left out."""
        if losses is not None:
            self._sums += torch.stack(losses)
            self._sound += 1
        self.steps += 1

    def mean_losses(self) -> dict[str, float]:
        """Over the steps so far; nothing if all were left out."""
        if not self._sound:
            return {}
        return dict(zip(Losses._fields, (self._sums / self._sound).tolist(), strict=True))


class Course:
    """Where Algorithm 1 stands: outer iterations that are over, and the one under way, if any.

    Args:
        n_images: N.
        n_clusters: k.
        batch_size: M.
        sub_batch: m₂.
        random: draws the orders of sub-batches.
        device: where the losses are.
    """

    def __init__(
        self,
        n_images: int,
        n_clusters: int,
        batch_size: int,
        sub_batch: int,
        random: np.random.Generator,
        device: torch.device,
    ) -> None:
        self.finished = 0
        self.current: OuterIteration | None = None
        self._n_images, self._n_clusters = n_images, n_clusters
        self._batch_size, self._sub_batch = batch_size, sub_batch
        self._random = random
        self._device = device

    def begin(self, batch: Indices, label_features: Tensor, targets: Targets) -> OuterIteration:
        """Step 1 is over, step 2 begins."""
        sub_batches = RandomBatches(self._batch_size, self._sub_batch, self._random)
        self.current = OuterIteration(batch, label_features, targets, sub_batches, self._device)
        return self.current

    def end(self) -> None:
        """Step 2 is over."""
        self.current = None
        self.finished += 1

    def state(self) -> State:
        """All of the iteration under way."""
        state: State = {"finished": self.finished, "current": None}
        if (now := self.current) is not None:
            state["current"] = {
                "batch": now.batch,
                "label_features": now.label_features,
                "targets": now.targets._asdict(),
                "sub_batches": now.sub_batches.state(),
                "steps": now.steps,
                "sound": now._sound,
                "sums": now._sums,
                "seconds": time.monotonic() - now.began,
            }
        return state

    def restore(self, state: State) -> None:
        """Go on within step 2, with the targets in force."""
        self.finished = checked_count(state["finished"])
        if (kept := state["current"]) is not None:
            batch = checked_indices(kept["batch"], (self._batch_size,), self._n_images)
            label_features = checked_rows(kept["label_features"], (self._batch_size, self._n_clusters))
            now = self.begin(batch, label_features, self._checked_targets(**kept["targets"]))
            now.sub_batches.restore(kept["sub_batches"])
            now.steps = checked_count(kept["steps"])
            now._sound = checked_count(kept["sound"], most=now.steps)
            now._sums += kept["sums"].to(self._device)
            now.began -= float(kept["seconds"])

    def _checked_targets(self, balanced: Any, sharpened: Any, assignments: Any, fell_back: Any) -> Targets:
        shape = (self._batch_size, self._n_clusters)
        if not isinstance(assignments, Tensor) or assignments.shape != shape[:1]:
            raise ValueError(f"there are no cluster ids of {self._batch_size} images")
        return Targets(checked_rows(balanced, shape), checked_rows(sharpened, shape), assignments, bool(fell_back))
