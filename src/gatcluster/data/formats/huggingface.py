"""Hugging Face datasets on disk: what ``save_to_disk`` writes, and the Arrow files that the library caches."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

from gatcluster.data.columns import LABEL_COLUMNS, find_column
from gatcluster.data.files import ImageFiles, files_fingerprint, load_plug_ins
from gatcluster.data.formats.listing import named_files
from gatcluster.data.formats.tables import holds_paths, image_column, import_pyarrow, named_labels, opened_cell
from gatcluster.data.names import numbered_names
from gatcluster.errors import InputError


@dataclass(frozen=True)
class ArrowImages:
    """Images in the rows of Arrow files, which stay on disk."""

    files: Sequence[Path]
    column: str
    starts: Sequence[int]  # the first row of each file
    names: Sequence[str]

    def open(self, index: int) -> IO[bytes]:
        """One image."""
        load_plug_ins()  # a worker process, too, must know all of this installation's formats
        number = bisect_right(self.starts, index) - 1
        path = self.files[number]
        cells = _table(path, path.stat().st_mtime_ns).column(self.column)
        return opened_cell(cells[index - self.starts[number]].as_py(), path.parent)

    def fingerprint(self) -> str:
        """Of the files, and of the column that is read."""
        return files_fingerprint(self.files, "huggingface", self.column)


def huggingface_images(path: Path) -> ArrowImages | ImageFiles:
    """The images of all splits of a dataset, named by file and row; or, if it holds paths, the files of these names."""
    files, tables = _files_and_tables(path)
    column = image_column(tables[0].schema, files[0])
    for file, table in zip(files, tables, strict=True):
        if column not in table.schema.names:
            raise InputError(f"{file} has no column '{column}', but {files[0]} has: give one of them")
    names = _names(path, files, tables)
    if not names:
        raise InputError(f"{path} has no rows")
    if holds_paths(tables[0].schema, column):
        return named_files(files[0], _paths(tables, column))
    return ArrowImages(files, column, [0, *accumulate(len(table) for table in tables)][:-1], names)


def huggingface_labels(path: Path) -> list[tuple[str, str | None]]:
    """The label of each row, from the column that is named for it."""
    files, tables = _files_and_tables(path)
    column = find_column(tables[0].schema.names, LABEL_COLUMNS, f"{path} carries no labels", "label")
    images = image_column(tables[0].schema, files[0])
    of_files = holds_paths(tables[0].schema, images)
    names = _paths(tables, images) if of_files else _names(path, files, tables)
    return named_labels(names, _cells(tables, column))


def is_huggingface_folder(path: Path) -> bool:
    """Whether a folder is a dataset, or a dictionary of them, as the library writes it."""
    if (path / "dataset_dict.json").is_file():
        return True
    described = (path / "state.json").is_file() or (path / "dataset_info.json").is_file()
    return described and any(path.glob("*.arrow"))


def arrow_files(path: Path) -> list[Path]:
    """The Arrow files of a dataset in their order: those of each split, as the dataset itself lists them."""
    if path.is_file():
        return [path]
    splits = _described(path / "dataset_dict.json", "splits")
    if splits is not None:
        return [file for split in splits for file in arrow_files(path / str(split))]
    listed = _described(path / "state.json", "_data_files")
    if listed is not None:
        files = [path / str(entry["filename"]) for entry in listed]
    else:  # a cache folder, with what the user computed from the dataset beside it
        files = sorted(file for file in path.glob("*.arrow") if not file.name.startswith(("cache-", "tmp", ".")))
    if not files:
        raise InputError(f"no Arrow files in {path}")
    return files


def _described(file: Path, key: str) -> list[Any] | None:
    """A list in one of the dataset's JSON files, or None if there is no such file."""
    if not file.is_file():
        return None
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))[key]
        if not isinstance(entries, list) or (key == "_data_files" and not all("filename" in e for e in entries)):
            raise ValueError(f"no proper '{key}' in it")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file} is damaged: {error}") from None
    return entries


def _files_and_tables(path: Path) -> tuple[list[Path], list[Any]]:
    files = arrow_files(path)
    for file in files:
        if not file.is_file():
            raise InputError(f"the dataset in {path} is not whole: {file} is missing")
    return files, [_table(file, file.stat().st_mtime_ns) for file in files]


def _cells(tables: Sequence[Any], column: str) -> list[Any]:
    """All values of a column that holds no images."""
    return [cell for table in tables for cell in table.column(column).to_pylist()]


def _paths(tables: Sequence[Any], column: str) -> list[str]:
    return [path or "" for path in _cells(tables, column)]


def _names(path: Path, files: Sequence[Path], tables: Sequence[Any]) -> list[str]:
    return [
        name
        for file, table in zip(files, tables, strict=True)
        for name in numbered_names(file.name if path.is_file() else file.relative_to(path).as_posix(), len(table))
    ]


@lru_cache(maxsize=256)
def _table(file: Path, changed: int) -> Any:
    """A file as a memory-mapped table: streams are what the library writes, the file format what others may."""
    pyarrow = import_pyarrow("pyarrow")
    ipc = import_pyarrow("pyarrow.ipc")
    try:
        mapped = pyarrow.memory_map(str(file))
        try:
            return ipc.open_stream(mapped).read_all()
        except pyarrow.ArrowInvalid:
            mapped.seek(0)
            return ipc.open_file(mapped).read_all()
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"cannot read {file} as an Arrow file: {' '.join(str(error).split())}") from None
