"""What Parquet files and Hugging Face datasets have in common: images in a column of an Arrow table."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from gatcluster.data.columns import IMAGE_COLUMNS, find_column
from gatcluster.data.files import open_regular
from gatcluster.errors import InputError


def import_pyarrow(module: str) -> ModuleType:
    """A module of pyarrow, or an error that says how to install it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(
            'Parquet files and Hugging Face datasets need pyarrow: pip install "gatcluster[parquet]"'
        ) from None


def image_column(schema: Any, path: Path) -> str:
    """The column with the images: bytes, a struct with bytes in it (as Hugging Face writes), or paths as text."""
    types = import_pyarrow("pyarrow").types

    def holds_bytes(kind: Any) -> bool:
        if types.is_struct(kind):
            return any(kind.field(i).name == "bytes" for i in range(kind.num_fields))
        return bool(types.is_binary(kind) or types.is_large_binary(kind))

    encoded = [field.name for field in schema if holds_bytes(field.type)]
    if len(encoded) == 1:
        return str(encoded[0])
    textual = [f.name for f in schema if types.is_string(f.type) or types.is_large_string(f.type)]
    complaint = f"cannot tell which column of {path} holds the images"
    columns = encoded or textual
    if not columns:
        listed = ", ".join(f"{field.name} {field.type}" for field in schema)
        raise InputError(f"no column of {path} holds images, as bytes or paths; its columns are: {listed}")
    return find_column(columns, IMAGE_COLUMNS, complaint, "image")


def holds_paths(schema: Any, column: str) -> bool:
    """Whether a column of images is text, and so names files."""
    types = import_pyarrow("pyarrow").types
    kind = schema.field(column).type
    return bool(types.is_string(kind) or types.is_large_string(kind))


def opened_cell(cell: Any, folder: Path) -> IO[bytes]:
    """The encoded image in a cell: bytes, or a struct of bytes and, where these are missing, a path."""
    if isinstance(cell, dict):
        cell = cell["bytes"] if cell.get("bytes") is not None else cell.get("path")
    if cell is None:
        raise OSError("the row holds no image")
    return io.BytesIO(cell) if isinstance(cell, bytes) else open_regular(folder / cell)


def named_labels(names: Sequence[str], labels: Sequence[Any]) -> list[tuple[str, str | None]]:
    """Names with their labels as text; None stays."""
    return [(name, None if label is None else str(label)) for name, label in zip(names, labels, strict=True)]
