"""A folder to write data into: made if missing, checked for space, and left without empty traces after a failure."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.filesize import decimal

from gatcluster.errors import InputError

OnBytes = Callable[[str, int, int], None]
"""What is told how far some work is: what is being done, bytes done, bytes in total."""


def unheard(work: str, done: int, total: int) -> None:
    """For work whose progress nobody asks for."""


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Work inside a folder, which is made if missing.

    What the file system refuses becomes an :class:`InputError`. After a failure, the folders that were made for it
    are gone again, unless something lies in them.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    if not _nearest(folder).is_dir():
        raise InputError(f"cannot write to {folder}: {_nearest(folder)} is not a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException as error:
        for path in made:
            with suppress(OSError):
                path.rmdir()
        if isinstance(error, OSError):
            raise InputError(f"cannot write to {folder}: {error.strerror or error}") from None
        raise


def check_space(folder: Path, needed: int) -> None:
    """Refuse to begin what the disk cannot hold."""
    free = shutil.disk_usage(_nearest(folder)).free
    if free < needed:
        raise InputError(f"not enough space for {folder}: {decimal(needed)} needed, {decimal(free)} free")


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest above it that exists."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
