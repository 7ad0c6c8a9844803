"""One process at a time works on a run folder.

The lock is the operating system's, on a file ``.lock`` in the folder. It ends with its process, however that ends, so
that a crash leaves nothing to be cleaned up by hand.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gatcluster.errors import InputError
from gatcluster.runs.layout import LOCK


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Hold the right to write to a run folder, which must be there.

    Raises:
        InputError: another process has it.
    """
    path = run / LOCK
    descriptor = _try_lock(path)
    if descriptor is None:
        raise _in_use(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def check_not_in_use(run: Path) -> None:
    """Refuse a folder on which a process is at work; nothing is written."""
    path = run / LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:  # no lock, or none that we may ask for: then the folder cannot be written to, either
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _in_use(path) from None
    except OSError:  # a file system without locks: who wants one will hear of it
        pass
    finally:
        os.close(descriptor)


def _try_lock(path: Path) -> int | None:
    """The descriptor of the locked file, or None if another process holds it."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            raise InputError(f"cannot lock {path}: {error.strerror or error}") from None
        with suppress(FileNotFoundError):
            if os.fstat(descriptor).st_ino == path.stat().st_ino:
                with suppress(OSError):  # a full disk: then nobody learns who has it
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()}\n".encode())
                return descriptor
        os.close(descriptor)  # its last owner removed it between our two calls: try again


def _in_use(path: Path) -> InputError:
    owner = ""
    with suppress(OSError, ValueError):
        owner = f" (number {int(path.read_text())})"
    return InputError(f"another process{owner} is at work on {path.parent}: wait for it, or give another folder")
