"""Parquet files with a column of images: as bytes, as Hugging Face writes them, or as paths."""

from __future__ import annotations

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

_SUFFIXES = (".parquet", ".pq")


@dataclass(frozen=True)
class ParquetImages:
    """Images in the rows of Parquet files."""

    files: Sequence[Path]
    column: str
    groups: Sequence[tuple[int, int]]  # file and row group, in the order of the rows
    starts: Sequence[int]  # the first row of each group
    names: Sequence[str]

    def open(self, index: int) -> IO[bytes]:
        """One image."""
        load_plug_ins()  # a worker process, too, must know all of this installation's formats
        number = bisect_right(self.starts, index) - 1
        file, group = self.groups[number]
        path = self.files[file]
        cells = _row_group(path, path.stat().st_mtime_ns, group, self.column)
        return opened_cell(cells[index - self.starts[number]].as_py(), path.parent)

    def fingerprint(self) -> str:
        """Of the files, and of the column that is read."""
        return files_fingerprint(self.files, "parquet", self.column)


def parquet_images(path: Path) -> ParquetImages | ImageFiles:
    """The images of a Parquet file, or of all Parquet files below a folder, named by file and row.

    Where the column holds paths, the images are these files, relative to the first Parquet file, under these names.
    """
    files = parquet_files(path)
    opened = [_opened(file) for file in files]
    column = image_column(opened[0].schema_arrow, files[0])
    groups: list[tuple[int, int]] = []
    lengths: list[int] = []
    for number, (file, table) in enumerate(zip(files, opened, strict=True)):
        if column not in table.schema_arrow.names:
            raise InputError(f"{file} has no column '{column}', but {files[0]} has: give one of them")
        for group in range(table.num_row_groups):
            groups.append((number, group))
            lengths.append(table.metadata.row_group(group).num_rows)
    if not sum(lengths):
        raise InputError(f"{path} has no rows")
    if holds_paths(opened[0].schema_arrow, column):
        return named_files(files[0], _paths(opened, column))
    return ParquetImages(files, column, groups, [0, *accumulate(lengths)][:-1], _names(path, files, opened))


def parquet_labels(path: Path) -> list[tuple[str, str | None]]:
    """The label of each row, from the column that is named for it."""
    files = parquet_files(path)
    opened = [_opened(file) for file in files]
    columns = opened[0].schema_arrow.names
    column = find_column(columns, LABEL_COLUMNS, f"{path} carries no labels", "label")
    images = image_column(opened[0].schema_arrow, files[0])
    of_files = holds_paths(opened[0].schema_arrow, images)
    names = _paths(opened, images) if of_files else _names(path, files, opened)
    return named_labels(names, _cells(opened, column))


def parquet_files(path: Path) -> list[Path]:
    """The file itself, or the Parquet files below a folder, sorted; hidden ones are left out."""
    if path.is_file():
        return [path]
    found = sorted(
        file
        for file in path.rglob("*")
        if file.suffix.lower() in _SUFFIXES
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )
    if not found:
        raise InputError(f"no Parquet files in {path}")
    return found


def _cells(opened: Sequence[Any], column: str) -> list[Any]:
    """All values of a column that holds no images."""
    return [cell for table in opened for cell in table.read([column]).column(column).to_pylist()]


def _paths(opened: Sequence[Any], column: str) -> list[str]:
    return [path or "" for path in _cells(opened, column)]


def _names(path: Path, files: Sequence[Path], opened: Sequence[Any]) -> list[str]:
    return [
        name
        for file, table in zip(files, opened, strict=True)
        for name in numbered_names(
            file.name if path.is_file() else file.relative_to(path).as_posix(), table.metadata.num_rows
        )
    ]


def _opened(file: Path) -> Any:
    pyarrow = import_pyarrow("pyarrow")
    try:
        return import_pyarrow("pyarrow.parquet").ParquetFile(file, memory_map=True)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"cannot read {file} as a Parquet file: {' '.join(str(error).split())}") from None


@lru_cache(maxsize=2)
def _row_group(path: Path, changed: int, group: int, column: str) -> Any:
    """One column of a row group: images are mostly asked for one after the other."""
    return _opened(path).read_row_group(group, columns=[column]).column(column)
