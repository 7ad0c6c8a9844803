"""``skipped.csv``: the files that could not be read, and why."""

from __future__ import annotations

import csv
from pathlib import Path

from gatcluster.data.images import Skipped
from gatcluster.runs.layout import SKIPPED
from gatcluster.runs.untrusted import lines_of, refused
from gatcluster.spreadsheets import PATH, TEXT, original


def read_skipped(run: Path) -> list[Skipped]:
    """The files that a run left out; none if it has no such list."""
    path = run / SKIPPED
    if not path.exists():
        return []
    skipped: list[Skipped] = []
    with refused(f"cannot read {path}"):
        reader = csv.DictReader(lines_of(path))
        if not {"path", "reason"} <= set(reader.fieldnames or ()):
            raise ValueError("it has no columns path and reason")
        for row in reader:
            name, reason = row["path"], row["reason"]
            if name is None or reason is None:
                raise ValueError(f"row {len(skipped) + 1} has no path or no reason")
            skipped.append(Skipped(original(name, PATH), original(reason, TEXT)))
    return skipped
