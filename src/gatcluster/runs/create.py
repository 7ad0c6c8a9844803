"""Making the folder of a new run, so that nothing is lost and nothing half-written stays."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gatcluster.errors import InputError
from gatcluster.runs.folder import RunFolder
from gatcluster.runs.layout import CONFIG, HISTORY, PREVIOUS, check_free, is_run_entry


@contextmanager
def new_run(path: Path, overwrite: bool) -> Iterator[RunFolder]:
    """A folder for a new run; if what happens inside fails, everything written to it is taken away again.

    An existing folder must be empty. With ``overwrite`` it may hold an earlier run, which is set aside until the new
    one is whole, and comes back if that fails.
    """
    try:
        check_free(path, overwrite)
        made = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        _set_aside(path)
        (path / HISTORY).touch()
    except OSError as error:
        raise InputError(f"cannot write to {path}: {error.strerror or error}") from None
    try:
        yield RunFolder(path)
    except BaseException:
        _bring_back(path)
        with suppress(OSError):  # what others put there stays, and must not hide the error
            for folder in made:
                folder.rmdir()
        raise
    shutil.rmtree(path / PREVIOUS, ignore_errors=True)


def _set_aside(path: Path) -> None:
    """Move a whole run to a folder within its folder; remove what is left of a broken one."""
    if not (path / CONFIG).exists():
        _bring_back(path)  # an earlier attempt to replace a run was killed
    shutil.rmtree(path / PREVIOUS, ignore_errors=True)
    if not (path / CONFIG).exists():
        return
    (path / PREVIOUS).mkdir()
    for entry in _run_entries(path):
        entry.replace(path / PREVIOUS / entry.name)


def _bring_back(path: Path) -> None:
    """Remove what a new run has written, and put the run that was set aside, if any, where it was."""
    for entry in _run_entries(path):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
    if (path / PREVIOUS).is_dir():
        for entry in (path / PREVIOUS).iterdir():
            entry.replace(path / entry.name)
        (path / PREVIOUS).rmdir()


def _run_entries(path: Path) -> list[Path]:
    return [entry for entry in path.iterdir() if is_run_entry(entry.name) and entry.name != PREVIOUS]
