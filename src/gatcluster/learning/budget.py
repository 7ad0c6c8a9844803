"""How long training may last, in epochs or in time; all schedules are functions of the share spent."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from gatcluster.learning.restored import checked_share
from gatcluster.learning.state import State

# Epochs are added up in fractions: what is this close to the end is the end.
_ROUNDING = 1e-9


class Budget(Protocol):
    """Something that is used up by training."""

    def spend(self, epochs: float) -> None:
        """Note that so much of the data was trained on."""

    @property
    def spent(self) -> float:
        """The share that is used up, from 0 to 1."""


class EpochBudget:
    """So many epochs: the same run every time, however quick the machine."""

    def __init__(self, epochs: float) -> None:
        self.epochs = epochs
        self._done = 0.0

    def spend(self, epochs: float) -> None:
        """Note that so much of the data was trained on."""
        self._done += epochs

    @property
    def spent(self) -> float:
        """The share of the epochs that are over."""
        return _share(self._done, self.epochs)

    def state(self) -> State:
        """What is used up."""
        return {"done": self._done}

    def restore(self, state: State) -> None:
        """Go on with the rest."""
        self._done = float(state["done"])


class TimeBudget:
    """So many seconds from now; everything that takes time counts, not only training."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._start = clock()
        self._kept_back = 0.0

    def spend(self, epochs: float) -> None:
        """Nothing to note: time passes by itself."""

    def keep_back(self, seconds: float) -> None:
        """Leave at least so many of the seconds to what follows training, but never more than half of them all."""
        self._kept_back = max(self._kept_back, min(seconds, self.seconds / 2))

    def share_of(self, seconds: float) -> float:
        """The share of the time for training that so many seconds are; 1 at most."""
        return _share(seconds, self.seconds - self._kept_back)

    @property
    def spent(self) -> float:
        """The share of the time for training that has passed."""
        return _share(self._clock() - self._start, self.seconds - self._kept_back)

    def state(self) -> State:
        """The seconds that are used up, and those kept back."""
        return {"seconds": self._clock() - self._start, "kept_back": self._kept_back}

    def restore(self, state: State) -> None:
        """Go on with the rest: the time in which nothing ran does not count."""
        self._start = self._clock() - float(state["seconds"])
        self._kept_back = float(state["kept_back"])


class StageBudget:
    """A stage's part of a budget: all until ``end``, a share of the whole, from wherever it stands now."""

    def __init__(self, whole: Budget, end: float) -> None:
        self._whole = whole
        self._begin = whole.spent
        self._end = end

    def spend(self, epochs: float) -> None:
        """Note that so much of the data was trained on."""
        self._whole.spend(epochs)

    @property
    def spent(self) -> float:
        """The share of the stage that is used up."""
        return _share(self._whole.spent - self._begin, self._end - self._begin)

    def state(self) -> State:
        """Where in the whole the stage began."""
        return {"begin": self._begin}

    def restore(self, state: State) -> None:
        """Go on with the rest of the stage."""
        self._begin = checked_share(state["begin"])


def _share(part: float, whole: float) -> float:
    return 1.0 if part >= whole - _ROUNDING * max(1.0, whole) else part / whole
