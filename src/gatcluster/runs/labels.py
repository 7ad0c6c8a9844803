"""``evaluated-labels.csv``: the labels that ``evaluate`` scored a run against. Only the report reads them again."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from gatcluster.runs.files import write_csv
from gatcluster.runs.layout import LABELS
from gatcluster.runs.untrusted import lines_of, refused
from gatcluster.spreadsheets import PATH, TEXT, harmless, original


def write_labels(run: Path, names: Sequence[str], labels: Sequence[str | None]) -> None:
    """Write the label of each image, in the order of ``clusters.csv``; images without one are left out."""
    rows = [
        (harmless(name, PATH), place, harmless(label, TEXT))
        for place, (name, label) in enumerate(zip(names, labels, strict=True))
        if label is not None
    ]
    write_csv(run / LABELS, ("path", "row", "label"), rows)


def read_labels(run: Path, n_images: int) -> list[str | None] | None:
    """The label of each of a run's images, None where it has none; None if the run was not evaluated."""
    path = run / LABELS
    if not path.exists():
        return None
    labels: list[str | None] = [None] * n_images
    with refused(f"cannot read {path}"):
        reader = csv.DictReader(lines_of(path))
        if not {"row", "label"} <= set(reader.fieldnames or ()):
            raise ValueError("it has no columns row and label")
        for row in reader:
            place, label = int(row["row"]), row["label"]
            if not 0 <= place < n_images or label is None:
                raise ValueError("it has labels of images that the run does not have, or rows without a label")
            labels[place] = original(label, TEXT)
    return labels
