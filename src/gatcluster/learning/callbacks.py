"""What may look on while a network learns, and stop it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gatcluster.learning.history import Record
from gatcluster.learning.state import State


@dataclass(frozen=True)
class Progress:
    """How far training is; sent after every sub-batch."""

    stage: str
    done: float  # share of the whole training, 0 to 1
    seconds: float  # since training began
    seconds_left: float | None  # None until there is something to judge from


class Callback:
    """Override what you need. Callbacks are called in the order in which they were given."""

    def on_resume(self, history: Sequence[Record]) -> None:
        """Before an interrupted training goes on; this is what happened in it so far."""

    def on_progress(self, progress: Progress) -> None:
        """After every sub-batch."""

    def on_record(self, record: Record) -> None:
        """After every outer iteration."""

    def wants_stop(self) -> bool:
        """Asked after every outer iteration; training ends early, and normally, once any callback says yes."""
        return False

    def state(self) -> State:
        """What a resumed training needs of it: plain data; nothing by default."""
        return {}

    def restore(self, state: State) -> None:
        """Go on from what ``state`` said when the training was interrupted."""


class StopWhenSettled(Callback):
    """Stop once assignments stand still: for ``patience`` epochs on end, fewer than ``tolerance`` of them changed."""

    def __init__(self, patience: float, tolerance: float = 0.001) -> None:
        self.patience = patience
        self.tolerance = tolerance
        self._epoch = 0
        self._changes: list[float] = []  # of the epoch under way
        self._settled_epochs = 0

    def on_record(self, record: Record) -> None:
        """Count the epochs that ended with few changes."""
        if record.epoch != self._epoch:
            self._close_epoch()
            self._epoch = record.epoch
        if record.changed is not None:
            self._changes.append(record.changed)

    def wants_stop(self) -> bool:
        """Whether the assignments have settled."""
        return self._settled_epochs >= self.patience

    def state(self) -> State:
        """The counts."""
        return {"epoch": self._epoch, "changes": self._changes, "settled_epochs": self._settled_epochs}

    def restore(self, state: State) -> None:
        """Go on counting."""
        self._epoch = int(state["epoch"])
        self._changes = [float(change) for change in state["changes"]]
        self._settled_epochs = int(state["settled_epochs"])

    def _close_epoch(self) -> None:
        if self._changes:
            settled = sum(self._changes) / len(self._changes) < self.tolerance
            self._settled_epochs = self._settled_epochs + 1 if settled else 0
        self._changes = []
