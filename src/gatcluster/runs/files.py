"""Writing files so that a reader finds the old one or the new one, whole, and never half of one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final

from gatcluster.errors import InputError

_TO_QUOTE: Final = re.compile(r'[,;|"\t\r\n]|^\s|\s$')


@contextmanager
def named_write_errors(path: Path) -> Iterator[None]:
    """A full disk, a folder that may not be written to, and the like, as errors that a user can read.

    Args:
        path: what is being written, for the message.
    """
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write to {path}: {error.strerror or error}") from None


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file by way of a temporary one beside it; when this returns, it is on the disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        with temporary.open("xb") as file:  # new: nothing is written through a link that somebody put there
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the disk: without it a renamed file may be gone after a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, tree: Any) -> None:
    """Write plain data as JSON. Of names that are not valid Unicode, the odd bytes become JSON's own escapes."""
    write_bytes(path, (json.dumps(tree, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as CSV, with Unix line ends.

    Text is quoted where any country's spreadsheet would otherwise cut it in two: what comes after the cut might be
    taken for a formula.
    """
    return "".join(",".join(_cell(value) for value in row) + "\n" for row in chain([header], rows))


def _cell(value: Any) -> str:
    text = str(value)
    if text and not _TO_QUOTE.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table as CSV. Names that are not valid Unicode keep their bytes."""
    write_bytes(path, csv_text(header, rows).encode("utf-8", "surrogateescape"))
