"""Labels that a run's own source carries. Only ``evaluate`` reads them: nothing on the way to a fit comes here."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from gatcluster.choices import Format
from gatcluster.data.detect import located_format
from gatcluster.data.formats.array_files import array_labels
from gatcluster.data.formats.cifar import cifar10_labels, cifar100_coarse_labels, cifar100_labels
from gatcluster.data.formats.huggingface import huggingface_labels
from gatcluster.data.formats.idx import idx_labels
from gatcluster.data.formats.listing import csv_labels
from gatcluster.data.formats.parquet import parquet_labels
from gatcluster.data.formats.stl10 import stl10_all_labels, stl10_labels
from gatcluster.data.formats.webdataset import tar_labels
from gatcluster.errors import InputError
from gatcluster.evaluation.labels import labels_from_folders

# Name and label of each image, in the order of the source; None where an image has no label.
_CARRIED: Final[dict[Format, Callable[[Path], list[tuple[str, str | None]]]]] = {
    "csv": csv_labels,
    "numpy": array_labels,
    "cifar10": cifar10_labels,
    "cifar100": cifar100_labels,
    "cifar100-20": cifar100_coarse_labels,
    "stl10": stl10_labels,
    "stl10-unlabelled": stl10_all_labels,
    "idx": idx_labels,
    "parquet": parquet_labels,
    "huggingface": huggingface_labels,
    "webdataset": tar_labels,
}
_FILES: Final[frozenset[Format]] = frozenset({"folder", "glob", "list", "csv"})


def check_lies_in_folders(format: Format | None) -> None:
    """Refuse folders as labels where the parts of a name are no folders, but the shard in which an image is."""
    if format is not None and format not in _FILES:
        raise InputError(f"images of format '{format}' lie in no class folders: give --labels source, or a CSV file")


def labels_from_source(source: str | None, format: str | None, names: Sequence[str]) -> list[str | None]:
    """The label of each image of a run from where the images came from; None where it has none.

    Args:
        source: what the run was fitted on.
        format: its format; for formats of image files, the label is the folder in which an image lies.
        names: the images, as in ``clusters.csv``.
    """
    if source is None or format is None:
        raise InputError("the run does not know where its images came from: give labels as a CSV file")
    path, known_format = located_format(Path(source), format)
    if known_format not in _CARRIED:
        return list(labels_from_folders(names))
    try:
        carried = _CARRIED[known_format](path)
    except OSError as error:
        raise InputError(f"cannot read labels from {error.filename or path}: {error.strerror or error}") from None
    return _matched(carried, names, path)


def _matched(carried: Sequence[tuple[str, str | None]], names: Sequence[str], path: Path) -> list[str | None]:
    """Labels in the order of ``names``. A name that comes twice has its labels in the order of the source."""
    by_name: dict[str, deque[str | None]] = defaultdict(deque)
    for name, label in carried:
        by_name[name].append(label)
    missing = [name for name in names if name not in by_name]
    if missing:
        raise InputError(
            f"{path} changed since the run: it has no label for {len(missing)} of {len(names)} images, "
            f"the first of them {missing[0]}"
        )
    return [queue.popleft() if len(queue := by_name[name]) > 1 else queue[0] for name in names]
