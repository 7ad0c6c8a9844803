"""Labels for scoring: from class folders or from a CSV file. Only ``evaluate`` reads them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path, PurePath

from gatcluster.errors import InputError
from gatcluster.spreadsheets import PATH, original


def labels_from_folders(names: Sequence[str]) -> list[str]:
    """The name of the folder that each image lies in.

    >>> labels_from_folders(["cats/1.jpg", "train/dogs/2.jpg"])
    ['cats', 'dogs']
    """
    labels = [PurePath(name).parent.name for name in names]
    for name, label in zip(names, labels, strict=True):
        if not label:
            raise InputError(f"{name} lies in no class folder: give labels as a CSV file with columns path and label")
    return labels


def labels_from_csv(path: Path, names: Sequence[str], source: str | None = None) -> list[str]:
    """The label of each image from a CSV file with columns ``path`` and ``label``.

    Args:
        path: the file; rows for other images are ignored. Its paths may be those of a ``clusters.csv``.
        names: the images, as in ``clusters.csv``.
        source: the folder they were read from; paths below it match too.
    """
    if not path.is_file():
        raise InputError(f"no such label file: {path}")
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            reader = csv.DictReader(file)
            missing = {"path", "label"} - set(reader.fieldnames or ())
            if missing:
                raise InputError(
                    f"{path} has no column '{sorted(missing)[0]}': it needs a header line with path and label"
                )
            rows = [(row["path"] or "", row["label"]) for row in reader]
            known = {**{original(name, PATH): label for name, label in rows}, **dict(rows)}
    except (csv.Error, OSError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    labels = [known.get(name) or (known.get(str(Path(source) / name)) if source else None) for name in names]
    unknown = [name for name, label in zip(names, labels, strict=True) if not label]
    if unknown:
        raise InputError(
            f"{path} does not match the run: no label for {len(unknown)} of {len(names)} images, "
            f"the first of them {unknown[0]}"
        )
    return [label for label in labels if label]
