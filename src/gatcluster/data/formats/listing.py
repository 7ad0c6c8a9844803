"""Image files that are listed: a list of paths, a glob pattern, a text file with a path on each line, a CSV file."""

from __future__ import annotations

import csv
import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from gatcluster.data.columns import IMAGE_COLUMNS, LABEL_COLUMNS, find_column
from gatcluster.data.files import ImageFiles, is_image_name
from gatcluster.errors import InputError

_DELIMITERS: Final = ",;\t"


def listed_images(paths: Sequence[str | os.PathLike[str]]) -> ImageFiles:
    """The files of a list, in its order. A path that comes twice is two images."""
    files = [Path(path) for path in paths]
    for path in files:
        if not path.exists():
            raise InputError(f"no such file: {path}")
        if not path.is_file():
            raise InputError(f"not a file: {path}; give a folder by itself, or a list of image files")
    return ImageFiles(files, [str(path) for path in files])


def is_pattern(path: Path) -> bool:
    """Whether a path that does not exist is meant as a glob pattern."""
    return glob.has_magic(str(path)) and not path.exists()


def glob_images(pattern: Path) -> ImageFiles:
    """Image files that match a pattern such as ``photos/*.jpg`` (``**`` is any depth), sorted; each path once."""
    matches = sorted(set(glob.glob(str(pattern), recursive=True)))  # noqa: PTH207 - a Path's glob takes no absolute one
    names = [name for name in matches if is_image_name(name) and Path(name).is_file()]
    if not names:
        found = f"{len(matches)} matches, but none of them is an image file" if matches else "nothing matches"
        raise InputError(f"no images for the pattern {pattern}: {found}")
    return ImageFiles([Path(name) for name in names], names)


def text_list_images(path: Path) -> ImageFiles:
    """The files that a text file names, one on each line, in its order; empty lines do not count."""
    try:
        text = path.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    if "\0" in text:
        raise InputError(f"{path} is no list of paths: it is no text file")
    lines = text.split("\n")
    return named_files(path, [line.rstrip("\r") for line in lines if line.strip()])


def csv_images(path: Path) -> ImageFiles:
    """The files that a CSV file names in its path column, in its order."""
    return named_files(path, [row[0] for row in _csv_rows(path, with_labels=False)])


def csv_labels(path: Path) -> list[tuple[str, str | None]]:
    """Name and label of each row of a CSV file; a row without a label has None."""
    return list(_csv_rows(path, with_labels=True))


def named_files(listing: Path, names: list[str]) -> ImageFiles:
    """Files named in a listing: relative to its folder, or, if they are not there, to the current one."""
    if not names:
        raise InputError(f"{listing} lists no images")
    paths: list[Path] = []
    for name in names:
        beside = listing.parent / name
        paths.append(beside if beside.exists() or not Path(name).exists() else Path(name))
    return ImageFiles(paths, names)


def _csv_rows(path: Path, with_labels: bool) -> Iterator[tuple[str, str | None]]:
    """Path and label of each row; labels are only looked at if asked for."""
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            header = file.readline()
            file.seek(0)
            reader: csv.DictReader[Any] = csv.DictReader(file, delimiter=max(_DELIMITERS, key=header.count))
            columns = list(reader.fieldnames or ())
            names = find_column(columns, IMAGE_COLUMNS, f"{path} has no column of image paths", "path")
            labels = find_column(columns, LABEL_COLUMNS, f"{path} has no labels", "label") if with_labels else None
            for row in reader:
                if row[names]:
                    yield row[names], (row[labels] or None) if labels else None
    except (csv.Error, OSError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
