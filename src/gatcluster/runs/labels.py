"""``evaluated-labels.csv``: the labels that ``evaluate`` scored a run against. Only the report reads them again."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from gatcluster.errors import InputError
from gatcluster.runs.files import write_csv
from gatcluster.runs.layout import LABELS


def write_labels(run: Path, names: Sequence[str], labels: Sequence[str | None]) -> None:
    """Write the label of each image, in the order of ``clusters.csv``; images without one are left out."""
    rows = [
        (name, place, label) for place, (name, label) in enumerate(zip(names, labels, strict=True)) if label is not None
    ]
    write_csv(run / LABELS, ("path", "row", "label"), rows)


def read_labels(run: Path, n_images: int) -> list[str | None] | None:
    """The label of each of a run's images, None where it has none; None if the run was not evaluated."""
    path = run / LABELS
    if not path.is_file():
        return None
    labels: list[str | None] = [None] * n_images
    try:
        with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
            for row in csv.DictReader(file):
                labels[int(row["row"])] = row["label"]
    except (OSError, KeyError, ValueError, TypeError, IndexError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    return labels
