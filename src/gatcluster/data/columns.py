"""Which column of a table holds the images, and which the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gatcluster.errors import InputError

IMAGE_COLUMNS: Final = ("path", "image", "img", "file", "filename", "file_name", "filepath", "image_path", "images")
LABEL_COLUMNS: Final = ("label", "labels", "class", "category", "target", "fine_label", "coarse_label")


def find_column(columns: Sequence[str], wanted: Sequence[str], complaint: str, advice: str) -> str:
    """The column whose name, in whatever case, comes first among those that are wanted.

    >>> find_column(["Label", "Image"], IMAGE_COLUMNS, "photos.csv has no images", "path")
    'Image'
    """
    by_lower = {column.strip().lower(): column for column in reversed(columns) if column}
    for name in wanted:
        if name in by_lower:
            return by_lower[name]
    listed = ", ".join(column for column in columns if column) or "none"
    raise InputError(f"{complaint}: name one of its columns ({listed}) '{advice}'")
