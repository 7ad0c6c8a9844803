"""The watch: looks at every outer iteration for signs that a training goes wrong, and says so in plain words.

It only looks. What is done about it, where that is safe, stands in ``guard.py`` and ``revival.py``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from gatcluster.errors import InputError
from gatcluster.learning.history import Record
from gatcluster.learning.state import State

_SEEN_SHARE: Final = 0.9  # of the images must have been seen before sizes of clusters mean anything
_TINY_SHARE: Final = 0.05  # of an even split
_GIANT_SHARE: Final = 0.9  # of all images
_UNSURE_SHARE: Final = 0.05  # of the way from 1/k to 1
_STILL_SHARE: Final = 0.001  # of assignments that change
_EXPLOSION: Final = 100.0  # times the usual gradient
_USUAL: Final = 5, 25  # iterations at least, and at most, from which is told what is usual
_NO_MEASURE: Final = 1e-12
_WARNED_OF: Final = ("empty-cluster", "not-finite")


@dataclass(frozen=True)
class Condition:
    """Something that the watch finds.

    ``lasts`` says for how many outer iterations, and from how many epochs before, it must hold on end: what passes by
    itself in the first moments of a training is no finding.
    """

    meaning: str
    advice: str
    lasts: tuple[int, int] = (1, 0)


CONDITIONS: Final[Mapping[str, Condition]] = {
    "empty-cluster": Condition(
        "a cluster holds no image",
        "ask for fewer clusters, train longer, or try another seed",
        lasts=(3, 0),
    ),
    "tiny-cluster": Condition(
        "a cluster holds less than a twentieth of an even share of the images",
        "look at its images: if they do not belong together, ask for fewer clusters",
        lasts=(3, 0),
    ),
    "giant-cluster": Condition(
        "one cluster holds more than nine tenths of the images",
        "unless the images are that much alike: train longer, try another seed, or recipe fast",
        lasts=(3, 0),
    ),
    "unsure": Condition(
        "the network is hardly surer of its clusters than chance",
        "train longer, or with more images; it may also be that the images do not fall into that many groups",
        lasts=(5, 1),
    ),
    "no-relations": Condition(
        "k-means finds no groups among the label features, so that every image is related to itself only",
        "train longer, try another seed or a larger batch, or recipe fast",
        lasts=(5, 1),
    ),
    "standstill": Condition(
        "hardly an image changes its cluster any more",
        "training could have ended: --patience 3 ends it then",
        lasts=(5, 3),
    ),
    "not-finite": Condition(
        "a loss or a gradient was not a finite number; the watch leaves such steps out",
        "if it comes again and again, lower the learning rate, or use precision 32-true; leave the watch on",
    ),
    "exploding-gradient": Condition(
        "a gradient was a hundred times as large as usual",
        "if the losses do not come down again, lower the learning rate",
    ),
}


def sentence(name: str) -> str:
    """What a finding means and what to try, on one line.

    >>> sentence("standstill")
    'standstill: hardly an image changes its cluster any more; training could have ended: --patience 3 ends it then'
    """
    condition = CONDITIONS[name]
    return f"{name}: {condition.meaning}; {condition.advice}"


def counted(history: Sequence[Record]) -> dict[str, int]:
    """In how many outer iterations each finding was made; those that were never made are left out."""
    counts = {name: sum(name in record.findings for record in history) for name in CONDITIONS}
    return {name: count for name, count in counts.items() if count}


def lasting(history: Sequence[Record]) -> list[str]:
    """One line for each finding that is still there in the last iteration, with how often it was made.

    Without those of which a fit warns by itself, from its final clusters and from the whole history.
    """
    last = history[-1].findings if history else []
    counts = counted(history)
    return [
        f"{sentence(name)} (in {counts[name]} of {len(history)} iterations)" for name in last if name not in _WARNED_OF
    ]


def check_finite(values: Tensor, what: str) -> None:
    """Refuse to go on from numbers that no step can mend: every weight they came from would stay not finite.

    Args:
        values: what the network says of images.
        what: their name, for the message.
    """
    if not all(math.isfinite(float(end)) for end in values.detach().aminmax()):  # no memory for a mask
        raise InputError(
            f"not-finite: the {what} of the images are no longer finite numbers, and training cannot mend that; "
            "begin again with a lower learning rate, and leave the watch on (do not give --no-watch)"
        )


class Onlooker:
    """Stands where the guard stands when the watch is off: measures gradients, and lets every step pass.

    Args:
        module: whose gradients they are.
        scaled: whether gradients are scaled (precision 16-mixed): then their size says nothing.
    """

    skipped = went_back = 0  # it never does either

    def __init__(self, module: nn.Module, scaled: bool) -> None:
        self._weights = [weight for weight in module.parameters() if weight.requires_grad]
        self._scaled = scaled
        self.largest_gradient: float | None = None

    def allows_step(self, loss: Tensor) -> bool:
        """Always; notes the size of the gradient, and one that is not finite above all."""
        if not self._scaled:
            norm = float(get_total_norm([weight.grad for weight in self._weights if weight.grad is not None]))
            before = self.largest_gradient
            if before is None or math.isnan(norm) or norm > before:
                self.largest_gradient = norm
        return True

    def end_iteration(self) -> None:
        """Measure anew."""
        self.largest_gradient = None

    def state(self) -> State:
        """What it measured in the iteration under way."""
        return {"largest_gradient": self.largest_gradient}

    def restore(self, state: State) -> None:
        """Go on measuring."""
        largest = state["largest_gradient"]
        self.largest_gradient = None if largest is None else float(largest)


class Watch:
    """Names what is wrong with a training, from one record after the other.

    Args:
        n_images: N.
        n_clusters: k.
    """

    def __init__(self, n_images: int, n_clusters: int) -> None:
        self._n_images = n_images
        self._k = n_clusters
        self._streaks: dict[str, tuple[int, int]] = {}  # for so many iterations on end, the first in this epoch
        self._gradients: list[float] = []  # of the last iterations of the stage
        self._stage = ""
        self._fallbacks = 0

    def look(self, record: Record) -> list[str]:
        """The names of what an outer iteration shows."""
        if record.stage != self._stage:
            self._stage, self._gradients = record.stage, []
        signs = self._signs(record)
        if record.gradient_norm and math.isfinite(record.gradient_norm):
            self._gradients = [*self._gradients, record.gradient_norm][-_USUAL[1] :]
        self._fallbacks = record.relation_fallbacks
        findings = []
        for name, condition in CONDITIONS.items():
            if not signs.get(name, False):
                self._streaks.pop(name, None)
                continue
            count, since = self._streaks.get(name, (0, record.epoch))
            self._streaks[name] = count + 1, since
            iterations, epochs = condition.lasts
            if count + 1 >= iterations and record.epoch - since >= epochs:
                findings.append(name)
        return findings

    def _signs(self, record: Record) -> dict[str, bool]:
        """Which conditions hold in this iteration, however briefly."""
        signs = {
            "not-finite": record.skipped_steps > 0 or not _is_finite(record),
            "exploding-gradient": self._explodes(record.gradient_norm),
        }
        sizes, seen = record.cluster_sizes, sum(record.cluster_sizes)
        if seen >= _SEEN_SHARE * self._n_images:
            signs["empty-cluster"] = min(sizes) == 0
            signs["tiny-cluster"] = any(0 < size < _TINY_SHARE * seen / self._k for size in sizes)
            signs["giant-cluster"] = max(sizes) > _GIANT_SHARE * seen
        if record.mean_confidence is not None:
            chance = 1 / self._k
            signs["unsure"] = record.mean_confidence - chance < _UNSURE_SHARE * (1 - chance)
            signs["no-relations"] = record.relation_fallbacks > self._fallbacks
        if record.changed is not None:
            signs["standstill"] = record.changed < _STILL_SHARE
        return signs

    def _explodes(self, gradient: float | None) -> bool:
        if gradient is None or not math.isfinite(gradient) or len(self._gradients) < _USUAL[0]:
            return False  # one that is not finite has a name of its own
        return gradient > _EXPLOSION * max(statistics.median(self._gradients), _NO_MEASURE)

    def state(self) -> State:
        """What it remembers."""
        return {
            "streaks": {name: list(streak) for name, streak in self._streaks.items()},
            "gradients": self._gradients,
            "stage": self._stage,
            "fallbacks": self._fallbacks,
        }

    def restore(self, state: State) -> None:
        """Go on looking."""
        self._streaks = {name: (int(count), int(since)) for name, (count, since) in state["streaks"].items()}
        self._gradients = [float(gradient) for gradient in state["gradients"]]
        self._stage, self._fallbacks = str(state["stage"]), int(state["fallbacks"])


def _is_finite(record: Record) -> bool:
    """Whether its losses and gradients are finite; without the watch, steps on others are taken."""
    return all(map(math.isfinite, record.losses.values())) and math.isfinite(record.gradient_norm or 0.0)
