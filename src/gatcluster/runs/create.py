"""Making the folder of a new run, and going on with one, so that nothing is lost and nothing half-written stays."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gatcluster.errors import InputError
from gatcluster.runs.checkpoints import has_checkpoint, remove_checkpoints
from gatcluster.runs.files import named_write_errors
from gatcluster.runs.folder import RunFolder
from gatcluster.runs.layout import (
    CONFIG,
    HISTORY,
    LOCK,
    MOVING,
    PREVIOUS,
    RESUME,
    check_free,
    is_run_entry,
    is_temporary,
)
from gatcluster.runs.lock import check_not_in_use, locked


@contextmanager
def new_run(path: Path, overwrite: bool) -> Iterator[RunFolder]:
    """A folder for a new run; if what happens inside fails, everything written to it is taken away again.

    An existing folder must be empty. With ``overwrite`` it may hold an earlier run, which is set aside until the new
    one is whole, and comes back if that fails. A run with a plan stays, though, if its training was interrupted, or
    failed with a checkpoint: :func:`reopened_run` goes on with it.
    """
    with named_write_errors(path):
        check_not_in_use(path)
        check_free(path, overwrite)
        made = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
    try:
        with locked(path):
            with named_write_errors(path):
                check_free(path, overwrite)  # again: now nobody else can change it
                _set_aside(path)
                (path / HISTORY).touch()
            try:
                yield RunFolder(path)
            except BaseException as error:
                if not _can_go_on(path, error):
                    _bring_back(path)
                elif isinstance(error, InputError):
                    raise InputError(f"{error}; `gatcluster fit --resume {path}` goes on with the run") from None
                raise
            _tidy(path)
    except BaseException:
        with suppress(OSError):  # what is not empty stays, and must not hide the error
            for folder in made:
                folder.rmdir()
        raise


@contextmanager
def reopened_run(path: Path) -> Iterator[RunFolder]:
    """The folder of a run that is not finished; whatever happens inside, it can be gone on with."""
    check_not_in_use(path)
    if not (path / RESUME).is_file():
        if (path / CONFIG).is_file():
            raise InputError(f"{path} is a finished run: there is nothing to resume")
        raise InputError(f"{path} is not a run that can be resumed: it has no {RESUME}")
    with locked(path):
        yield RunFolder(path)
        _tidy(path)


def _can_go_on(path: Path, error: BaseException) -> bool:
    """Whether it is better to keep what was written than to take it away."""
    if not (path / RESUME).is_file():
        return False
    return has_checkpoint(path) or (isinstance(error, KeyboardInterrupt) and _training_began(path))


def _training_began(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return json.loads((path / RESUME).read_text(encoding="utf-8"))["settings"] is not None
    return False


def _tidy(path: Path) -> None:
    """Remove what a whole run does not need. The plan goes first: without it, nothing is taken for unfinished."""
    (path / RESUME).unlink(missing_ok=True)
    remove_checkpoints(path)
    shutil.rmtree(path / PREVIOUS, ignore_errors=True)
    _remove([entry for entry in path.iterdir() if is_temporary(entry.name)])


# A run is set aside, and brought back, by way of a folder of another name: what lies in that one belongs, together
# with what lies in the run folder, to the earlier run. A kill in between loses nothing.


def _set_aside(path: Path) -> None:
    """Move a run, whole or unfinished, to a folder within its folder; remove what is left of a broken one."""
    _finish_bringing_back(path)
    is_whole = (path / CONFIG).exists() and not (path / RESUME).exists()
    if (path / PREVIOUS).is_dir() and not is_whole:
        _bring_back(path)  # an earlier attempt to replace a run was killed, or given up
    shutil.rmtree(path / PREVIOUS, ignore_errors=True)
    if not ((path / CONFIG).exists() or (path / RESUME).exists()):
        _remove_entries(path)
        return
    (path / MOVING).mkdir()
    for entry in _run_entries(path):
        entry.replace(path / MOVING / entry.name)
    (path / MOVING).replace(path / PREVIOUS)


def _bring_back(path: Path) -> None:
    """Remove what a new run has written, and put the run that was set aside, if any, where it was."""
    _remove_entries(path)
    if (path / PREVIOUS).is_dir():
        (path / PREVIOUS).replace(path / MOVING)
    _finish_bringing_back(path)


def _finish_bringing_back(path: Path) -> None:
    if (path / MOVING).is_dir():
        for entry in (path / MOVING).iterdir():
            entry.replace(path / entry.name)
        (path / MOVING).rmdir()


def _remove_entries(path: Path) -> None:
    _remove(_run_entries(path))


def _remove(entries: list[Path]) -> None:
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)


def _run_entries(path: Path) -> list[Path]:
    """What belongs to the run itself."""
    own = (PREVIOUS, MOVING, LOCK)
    return [entry for entry in path.iterdir() if is_run_entry(entry.name) and entry.name not in own]
