"""Writing files so that a reader finds the old one or the new one, whole, and never half of one."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file by way of a temporary one beside it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, tree: Any) -> None:
    """Write plain data as JSON. Of names that are not valid Unicode, the odd bytes become JSON's own escapes."""
    write_bytes(path, (json.dumps(tree, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as CSV, with Unix line ends."""
    return "".join(_csv_line(row) for row in chain([header], rows))


def _csv_line(row: Sequence[Any]) -> str:
    buffer = io.StringIO()
    # Only characters of the line end are quoted: to have a carriage return in a name quoted too, write both, then cut.
    csv.writer(buffer, lineterminator="\r\n").writerow(row)
    return buffer.getvalue().removesuffix("\r\n") + "\n"


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table as CSV. Names that are not valid Unicode keep their bytes."""
    write_bytes(path, csv_text(header, rows).encode("utf-8", "surrogateescape"))
