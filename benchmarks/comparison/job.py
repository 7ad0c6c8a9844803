"""What is to be measured, as the measuring process is told it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from comparison.results import Line

BEGUN: Final = "begun"  # what a measuring process says of its clock
STOPPED: Final = "stopped"


@dataclass(frozen=True)
class Job:
    """One measurement."""

    benchmark: str
    set: str
    method: str
    seed: int
    minutes: float | None  # the plan of a recipe, the limit of a peer
    epochs: int | None = None
    n_images: int | None = None  # of a random subset
    data: str | None = None
    keeps_to_time: bool = False  # a recipe plans for the minutes itself, and is only stopped far beyond them

    @property
    def limit(self) -> float | None:
        """Seconds after which it is stopped."""
        if self.minutes is None:
            return None
        return self.minutes * 60 * 2 + 120 if self.keeps_to_time else self.minutes * 60

    def describe(self) -> str:
        """In a few words."""
        length = f"{self.minutes:g} min" if self.minutes is not None else f"{self.epochs or 'default'} epochs"
        return f"{self.set}, {self.method}, seed {self.seed}, {length}"

    def line(self) -> Line:
        """What a result says of the job."""
        left_out = ("data", "keeps_to_time")
        return {name: value for name, value in asdict(self).items() if name not in left_out}
