"""Where the `fast` recipe stands, as data: its round, the partition in force, and the stage under way."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gatcluster.learning.batches import Indices
from gatcluster.learning.budget import StageBudget
from gatcluster.learning.neighbours import Partition
from gatcluster.learning.state import State


class Cut(NamedTuple):
    """What a round learns."""

    close: NDArray[np.int64]  # (N, n), the nearest neighbours of each image
    partition: Partition


class FastCourse:
    """Which stages of the recipe are over, and what the last of them found."""

    def __init__(self) -> None:
        self.warmed_up = False
        self.round = 0
        self.over = False
        self.cut: Cut | None = None  # of this round, once it is made
        self.parts_before: NDArray[np.int64] | None = None  # (N,), of the last cut
        self.cost_of_cut = 0.0  # share of the whole budget that the last cut took; nothing where epochs are counted

    def end_warm_up(self) -> None:
        """The first round begins."""
        self.warmed_up = True

    def end_round(self, is_last: bool) -> None:
        """The next round, if there is one, cuts the graph anew."""
        self.round += 1
        self.cut = None
        self.over = is_last

    def make(self, cut: Cut, cost: float) -> Cut:
        """Let the round learn this cut, which took so much of the budget."""
        self.cut, self.parts_before, self.cost_of_cut = cut, cut.partition.parts, cost
        return cut

    def state(self) -> State:
        """Whole numbers in four bytes: there are many of them."""
        return {
            "warmed_up": self.warmed_up,
            "round": self.round,
            "over": self.over,
            "cost_of_cut": self.cost_of_cut,
            "parts_before": None if self.parts_before is None else self.parts_before.astype(np.int32),
            "cut": None
            if self.cut is None
            else {"close": self.cut.close.astype(np.int32), "confidence": self.cut.partition.confidence},
        }

    def restore(self, state: State) -> None:
        """Go on with the same partition."""
        self.warmed_up, self.round = bool(state["warmed_up"]), int(state["round"])
        self.over = bool(state["over"])
        self.cost_of_cut = float(state["cost_of_cut"])
        before, cut = state["parts_before"], state["cut"]
        self.parts_before = None if before is None else before.astype(np.int64)
        if cut is not None:
            assert self.parts_before is not None
            self.cut = Cut(cut["close"].astype(np.int64), Partition(self.parts_before, cut["confidence"]))


class Step(NamedTuple):
    """What one batch says before the optimisers take their step."""

    loss: Tensor  # to descend
    parts_of_loss: dict[str, Tensor]  # to record
    label_features: Tensor | None = None  # (n, k) of the batch, where the stage has clusters


class FastStage:
    """A stage of training under way: how many steps it took, and those since its last record."""

    def __init__(self, budget: StageBudget) -> None:
        self.budget = budget
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
            self._losses.setdefault(name, []).append(loss.detach())
        if step.label_features is not None:
            self._features.append(step.label_features.detach().float().cpu())

    def close_record(self) -> None:
        """The steps so far are recorded."""
        self.records += 1
        self.open_record()

    def batch(self) -> Indices:
        """The images of these steps, without those that were left out."""
        return np.concatenate([np.empty(0, np.int64), *self._batches])

    def mean_losses(self) -> dict[str, float]:
        """Over these steps."""
        return {name: float(torch.stack(losses).mean()) for name, losses in self._losses.items()}

    def label_features(self) -> Tensor | None:
        """Of these steps' images, transformed: (n, k); None in the warm-up."""
        return torch.cat(self._features) if self._features else None

    def state(self) -> State:
        """All of it."""
        return {
            "budget": self.budget.state(),
            "taken": self.taken,
            "records": self.records,
            "rate": self.rate,
            "seconds": time.monotonic() - self.began,
            "steps": self.steps,
            "batches": [batch.astype(np.int32) for batch in self._batches],
            "losses": {name: torch.stack(losses) for name, losses in self._losses.items()},
            "features": self._features,
        }

    def restore(self, state: State) -> None:
        """Go on within the stage."""
        self.budget.restore(state["budget"])
        self.taken, self.records = int(state["taken"]), int(state["records"])
        self.rate = float(state["rate"])
        self.began = time.monotonic() - float(state["seconds"])
        self.steps = int(state["steps"])
        self._batches = [batch.astype(np.int64) for batch in state["batches"]]
        self._losses = {name: list(losses) for name, losses in state["losses"].items()}
        self._features = list(state["features"])
