"""``skipped.csv``: the files that could not be read, and why."""

from __future__ import annotations

import csv
from pathlib import Path

from gatcluster.data.images import Skipped
from gatcluster.errors import InputError
from gatcluster.runs.layout import SKIPPED


def read_skipped(run: Path) -> list[Skipped]:
    """The files that a run left out; none if it has no such list."""
    path = run / SKIPPED
    if not path.is_file():
        return []
    try:
        with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
            return [Skipped(row["path"], row["reason"]) for row in csv.DictReader(file)]
    except (OSError, KeyError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {error}") from None
