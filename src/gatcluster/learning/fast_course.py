"""Where the `fast` recipe stands, as data: its round, the partition in force, and the stage under way."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gatcluster.learning.batches import Indices
from gatcluster.learning.budget import StageBudget
from gatcluster.learning.callbacks import StopWhenSettled
from gatcluster.learning.history import Record
from gatcluster.learning.neighbours import Partition
from gatcluster.learning.restored import checked_count, checked_indices, checked_rows, checked_share
from gatcluster.learning.state import State

# What a cut takes, in looks at all images: one to embed them, about another to find neighbours and cut their graph.
_LOOKS_OF_A_CUT = 2
_LEAST_WARM_UP_SHARE = 0.3  # of the budget: a cut of an embedding that knows nothing is worth no time


class Cut(NamedTuple):
    """What a round learns."""

    close: NDArray[np.int64]  # (N, n), the nearest neighbours of each image
    partition: Partition


class FastCourse:
    """Which stages of the recipe are over, and what the last of them found.

    What is known of the training is held against a state that is restored.

    Args:
        n_images: N.
        n_clusters: k.
        rounds: of the recipe.
        warm_up_share: of the budget, in the recipe.
    """

    def __init__(self, n_images: int, n_clusters: int, rounds: int, warm_up_share: float) -> None:
        self._n_images, self._n_clusters, self._rounds = n_images, n_clusters, rounds
        self.end_of_warm_up = warm_up_share  # as a share of the whole budget
        self.warmed_up = False
        self.round = 0
        self.over = False
        self.cut: Cut | None = None  # of this round, once it is made
        self.parts_before: NDArray[np.int64] | None = None  # (N,), of the last cut
        self.is_last_round = False
        self.end_of_round = 1.0  # as a share of the whole budget

    def plan_warm_up(self, cost_of_a_look: float) -> None:
        """Let the warm-up end early enough for a cut, and for learning it for as long as the cut takes.

        Args:
            cost_of_a_look: at all images, as a share of the whole budget; none where epochs are counted.
        """
        latest = max(_LEAST_WARM_UP_SHARE, 1 - 2 * _LOOKS_OF_A_CUT * cost_of_a_look)
        self.end_of_warm_up = min(self.end_of_warm_up, latest)

    def end_warm_up(self) -> None:
        """The first round begins."""
        self.warmed_up = True

    def begin_round(self, cut: Cut, spent: float, cost_of_cut: float) -> None:
        """Let a round learn this cut. What is left of the budget is divided evenly among the rounds that are left.

        Each cut must leave at least as much time to learn it as it takes: else there are fewer rounds.

        Args:
            cut: what to learn.
            spent: the share of the whole budget that is used up.
            cost_of_cut: the share that went into the cut; none where epochs are counted.
        """
        self.cut, self.parts_before = cut, cut.partition.parts
        rounds_left = self._rounds - self.round
        while rounds_left > 1 and (1 - spent) / rounds_left <= 2 * cost_of_cut:
            rounds_left -= 1
        self.is_last_round = rounds_left == 1
        self.end_of_round = 1.0 if self.is_last_round else spent + (1 - spent) / rounds_left

    def end_round(self) -> None:
        """The next round, if there is one, cuts the graph anew."""
        self.round += 1
        self.cut = None
        self.over = self.is_last_round

    def state(self) -> State:
        """Whole numbers in four bytes: there are many of them."""
        return {
            "end_of_warm_up": self.end_of_warm_up,
            "warmed_up": self.warmed_up,
            "round": self.round,
            "over": self.over,
            "is_last_round": self.is_last_round,
            "end_of_round": self.end_of_round,
            "parts_before": None if self.parts_before is None else self.parts_before.astype(np.int32),
            "cut": None
            if self.cut is None
            else {"close": self.cut.close.astype(np.int32), "confidence": self.cut.partition.confidence},
        }

    def restore(self, state: State) -> None:
        """Go on with the same partition."""
        self.end_of_warm_up = checked_share(state["end_of_warm_up"])
        self.warmed_up, self.over = bool(state["warmed_up"]), bool(state["over"])
        self.round = self._checked_round(state["round"])
        self.is_last_round, self.end_of_round = bool(state["is_last_round"]), checked_share(state["end_of_round"])
        before, cut = state["parts_before"], state["cut"]
        if before is not None:
            self.parts_before = checked_indices(before, (self._n_images,), self._n_clusters)
        if cut is not None:
            self.cut = self._checked_cut(cut)

    def _checked_round(self, kept: int) -> int:
        # Beyond the last round no round would be the last one, and the training would never end.
        return checked_count(kept, most=self._rounds if self.over else self._rounds - 1)

    def _checked_cut(self, kept: State) -> Cut:
        parts, confidence = self.parts_before, kept["confidence"]
        if parts is None:
            raise ValueError("there are neighbours, but no parts")
        close = checked_indices(kept["close"], (len(parts), None), len(parts))
        if not close.shape[1]:
            raise ValueError("there are no neighbours")
        if confidence.shape != parts.shape or confidence.dtype != np.float32:
            raise ValueError(f"there is no confidence for each of {len(parts)} images")
        return Cut(close, Partition(parts, confidence))


class Step(NamedTuple):
    """What one batch says before the optimisers take their step."""

    loss: Tensor  # to descend
    parts_of_loss: dict[str, Tensor]  # to record
    label_features: Tensor | None = None  # (n, k) of the batch, where the stage has clusters


class FastStage:
    """A stage of training under way: how many steps it took, and those since its last record.

    Args:
        budget: the stage's.
        n_images: N, to hold against a state that is restored.
        n_clusters: k, likewise.
        patience: epochs on end without a change after which it is over; None: only when its budget is spent.
    """

    def __init__(self, budget: StageBudget, n_images: int, n_clusters: int, patience: int | None) -> None:
        self.budget = budget
        self._settled = StopWhenSettled(math.inf if patience is None else patience)
        self._n_images, self._n_clusters = n_images, n_clusters
        self.taken = 0  # steps
        self.records = 0
        self.rate = 0.0  # of the last step
        self.open_record()

    def open_record(self) -> None:
        """Steps from here on belong to a new record."""
        self.began = time.monotonic()
        self.steps = 0  # since the last record
        self._batches: list[Indices] = []
        self._losses: dict[str, list[Tensor]] = {}
        self._features: list[Tensor] = []

    def skip(self) -> None:
        """Note a step that was left out."""
        self.taken += 1
        self.steps += 1

    def add(self, batch: Indices, step: Step) -> None:
        """Note a step, without its graph."""
        self.taken += 1
        self.steps += 1
        self._batches.append(batch)
        for name, loss in step.parts_of_loss.items():
            self._losses.setdefault(name, []).append(loss.detach())  # not fetched from a GPU at every step
        if step.label_features is not None:
            self._features.append(step.label_features.detach().float().cpu())

    def close_record(self, record: Record) -> None:
        """The steps so far are recorded."""
        self._settled.on_record(record)
        self.records += 1
        self.open_record()

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to spend, or to learn; not before the first record."""
        return self.records > 0 and (self.budget.spent >= 1 or self._settled.wants_stop())

    def batch(self) -> Indices:
        """The images of these steps, without those that were left out."""
        return np.concatenate([np.empty(0, np.int64), *self._batches])

    def mean_losses(self) -> dict[str, float]:
        """Over these steps."""
        return {name: float(losses.mean()) for name, losses in self._stacked_losses().items()}

    def _stacked_losses(self) -> dict[str, Tensor]:
        """Each kind as (steps,), on the CPU: those of a restored state are there already."""
        return {name: torch.stack([loss.cpu() for loss in losses]) for name, losses in self._losses.items()}

    def label_features(self) -> Tensor | None:
        """Of these steps' images, transformed: (n, k); None in the warm-up."""
        # A state from a stranger may have left them out for its part of the steps.
        is_complete = self._features and len(self._features) == len(self._batches)
        return torch.cat(self._features) if is_complete else None

    def state(self) -> State:
        """All of it."""
        return {
            "budget": self.budget.state(),
            "settled": self._settled.state(),
            "taken": self.taken,
            "records": self.records,
            "rate": self.rate,
            "seconds": time.monotonic() - self.began,
            "steps": self.steps,
            "batches": [batch.astype(np.int32) for batch in self._batches],
            "losses": self._stacked_losses(),
            "features": self._features,
        }

    def restore(self, state: State) -> None:
        """Go on within the stage."""
        self.budget.restore(state["budget"])
        self._settled.restore(state["settled"])
        self.taken, self.records = checked_count(state["taken"]), checked_count(state["records"])
        self.rate = float(state["rate"])
        self.began = time.monotonic() - float(state["seconds"])
        self.steps = checked_count(state["steps"])
        self._batches = [checked_indices(batch, (None,), self._n_images) for batch in state["batches"]]
        self._losses = {name: self._checked_losses(losses) for name, losses in state["losses"].items()}
        self._features = self._checked_features(state["features"])

    def _checked_losses(self, kept: Tensor) -> list[Tensor]:
        """One for every batch."""
        if not self._batches:
            raise ValueError("there are losses, but no batches")
        return list(checked_rows(kept, (len(self._batches),)))

    def _checked_features(self, kept: list[Tensor]) -> list[Tensor]:
        """Those of every batch, or none: in the warm-up there are no clusters."""
        if not kept:
            return []
        k = self._n_clusters
        return [checked_rows(rows, (len(batch), k)) for rows, batch in zip(kept, self._batches, strict=True)]
