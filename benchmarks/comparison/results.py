"""Result lines: one JSON object for each measurement, appended as soon as it is there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final, NamedTuple

from scipy.stats import spearmanr

Line = dict[str, Any]

DONE: Final = "done"
OVER: Final = "over the time"
FAILED: Final = "failed"


class Key(NamedTuple):
    """What makes two measurements the same one; the commit is not part of it."""

    benchmark: str
    set: str
    method: str
    seed: int
    minutes: float | None
    epochs: int | None
    n_images: int | None


def key_of(line: Line) -> Key:
    """The key of a result line."""
    return Key(*(line.get(name) for name in Key._fields))


def read(path: Path) -> list[Line]:
    """All lines of a file, in order; one that was torn by an interruption is left out."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text().splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return lines


def append(path: Path, line: Line) -> None:
    """Add a line; after a torn one, on a line of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        file.write(("\n" if torn else "") + json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


def latest(lines: Iterable[Line]) -> list[Line]:
    """The last line of each key: a measurement that was repeated counts once. In the order of the first ones."""
    return list({key_of(line): line for line in lines}.values())


@dataclass(frozen=True)
class Spread:
    """A figure over the seeds."""

    mean: float
    deviation: float | None  # standard deviation (of a sample); None for a single seed
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + ("" if self.deviation is None else f" ± {self.deviation:.3f}")


def spread(values: Sequence[float]) -> Spread:
    """Mean, standard deviation, least and greatest value.

    >>> str(spread([0.5, 0.7]))
    '0.600 ± 0.141'
    """
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None, min(values), max(values))


@dataclass(frozen=True)
class Group:
    """The measurements of one method on one set under one budget, over its seeds."""

    set: str
    method: str
    lines: tuple[Line, ...]

    @property
    def done(self) -> list[Line]:
        """Those that ended in time with clusters."""
        return [line for line in self.lines if line["status"] == DONE]

    def spread(self, name: str) -> Spread | None:
        """Of a figure, over the seeds that were done."""
        values = [line[name] for line in self.done if line.get(name) is not None]
        return spread(values) if values else None


Budget = tuple[float | None, int | None, int | None]  # minutes, epochs, images of a subset


def grouped(lines: Iterable[Line]) -> dict[tuple[str, Budget], dict[str, Group]]:
    """By set and budget, then by method."""
    found: dict[tuple[str, Budget], dict[str, list[Line]]] = {}
    for line in latest(lines):
        key = key_of(line)
        found.setdefault((key.set, (key.minutes, key.epochs, key.n_images)), {}).setdefault(key.method, []).append(line)
    return {
        where: {method: Group(where[0], method, tuple(own)) for method, own in methods.items()}
        for where, methods in found.items()
    }


def rank_correlation(lines: Sequence[Line], score: str) -> tuple[float | None, int]:
    """Spearman's correlation of a label-free score with ACC over runs, and over how many; None if it has no meaning."""
    pairs = [
        (line["label_free"][score], line["accuracy"])
        for line in lines
        if line["status"] == DONE and score in line.get("label_free", {})
    ]
    if len({one for one, _ in pairs}) < 3 or len({other for _, other in pairs}) < 3:
        return None, len(pairs)
    return float(spearmanr(*zip(*pairs, strict=True)).statistic), len(pairs)
