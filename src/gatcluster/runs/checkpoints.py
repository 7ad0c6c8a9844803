"""Checkpoints of a run: the two newest states of its training, in files that are whole or not there at all.

A checkpoint's name holds its number and the SHA-256 of its content. It is written under another name, brought to the
disk, and then renamed; the one before the last goes only after that. A damaged one does not count: it goes as soon as
an older one is taken in its place.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from gatcluster.errors import InputError
from gatcluster.learning.state import State
from gatcluster.runs.files import sync_folder, write_bytes
from gatcluster.runs.interruption import Interruption
from gatcluster.runs.layout import CHECKPOINTS
from gatcluster.runs.state_file import from_bytes, to_bytes
from gatcluster.runs.untrusted import size_of

_KEPT: Final = 2
_NAME: Final = re.compile(r"checkpoint-(\d+)-([0-9a-f]{64})\.safetensors")


class _File(NamedTuple):
    """A checkpoint on disk."""

    path: Path
    number: int
    checksum: str  # that its content should have


class Checkpoints:
    """Keeps the state of a training in the folder of its run.

    Args:
        run: the run folder.
        identity: what the training was begun with: plain data. A checkpoint with another identity is refused.
        minutes: between two checkpoints; there is one at the end of every stage, too.
        interruption: who may want the training to end.
        tell: called with what the user should know.
        clock: tells the time, in seconds.
    """

    def __init__(
        self,
        run: Path,
        identity: dict[str, Any],
        minutes: float,
        interruption: Interruption | None = None,
        tell: Callable[[str], None] = lambda message: warnings.warn(message, stacklevel=3),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._identity = identity
        self._seconds = minutes * 60
        self._interruption = interruption or Interruption()
        self._tell = tell
        self._clock = clock
        self._last = clock()
        self._number = max((file.number for file in _files(run)), default=0)
        for left_over in (run / CHECKPOINTS).glob(".*.tmp"):  # of a process that was killed while it wrote
            left_over.unlink(missing_ok=True)

    def kept(self) -> State | None:
        """The newest state that is whole; None where there is none, and the training begins at its beginning."""
        files = _files(self._run)
        damaged: list[_File] = []
        for file in files:
            try:
                content = _checked_content(file)
            except (OSError, ValueError) as error:
                older = "an older one is taken" if file is not files[-1] else "the training begins again"
                self._tell(f"checkpoint {file.path.name[:24]}... of {self._run} is damaged ({error}): {older}")
                damaged.append(file)
                continue
            if content.get("identity") != self._identity:
                raise InputError(
                    f"the checkpoint in {self._run} was made with other settings, data or program than the run was "
                    "begun with: fit again with --overwrite"
                )
            _remove(damaged)
            return dict(content["state"])
        return None

    def after_step(self, state: Callable[[], State]) -> None:
        """Write a checkpoint if one is due, or if the training is to end."""
        if self._interruption.is_wanted or self._clock() - self._last >= self._seconds:
            self.after_stage(state)
        else:
            self._interruption.work_to_keep = True

    def after_stage(self, state: Callable[[], State]) -> None:
        """Write a checkpoint, and end if that is wanted."""
        self._write(state())
        if self._interruption.is_wanted:
            self._interruption.obey()

    def _write(self, state: State) -> None:
        self._interruption.work_to_keep = True  # not before it is written
        content = to_bytes({"identity": self._identity, "state": state})
        name = f"checkpoint-{self._number + 1:06}-{hashlib.sha256(content).hexdigest()}.safetensors"
        folder = self._run / CHECKPOINTS
        try:
            if not folder.is_dir():
                folder.mkdir()
                sync_folder(self._run)
            write_bytes(folder / name, content)
            for file in _files(self._run)[_KEPT:]:
                file.path.unlink()
        except OSError as error:
            raise InputError(
                f"cannot write a checkpoint to {folder}: {error.strerror or error}; earlier ones are kept"
            ) from None
        self._number += 1
        self._last = self._clock()
        self._interruption.work_to_keep = False


def has_checkpoint(run: Path) -> bool:
    """Whether there is anything to go on from, whole or not."""
    return bool(_files(run))


def remove_checkpoints(run: Path) -> None:
    """Remove all of them."""
    shutil.rmtree(run / CHECKPOINTS, ignore_errors=True)


def _files(run: Path) -> list[_File]:
    """All checkpoints, the newest first."""
    folder = run / CHECKPOINTS
    if folder.is_symlink():  # in a run from a stranger it might lead anywhere
        raise InputError(f"{folder} is a link, and no run makes one: remove it")
    found = [(path, _NAME.fullmatch(path.name)) for path in folder.iterdir()] if folder.is_dir() else []
    files = [_File(path, int(match[1]), match[2]) for path, match in found if match is not None]
    return sorted(files, key=lambda file: file.number, reverse=True)


def _remove(damaged: list[_File]) -> None:
    """Remove files that are newer than the one in use: among the newest, they would drive that one out."""
    for file in damaged:
        with contextlib.suppress(OSError):  # where nothing can be removed nothing can be written: that will be told
            file.path.unlink(missing_ok=True)


def _checked_content(file: _File) -> State:
    size_of(file.path)  # a file that fits into memory, and no pipe
    content = file.path.read_bytes()
    if hashlib.sha256(content).hexdigest() != file.checksum:
        raise ValueError("its checksum is wrong")
    tree = from_bytes(content)
    if not isinstance(tree.get("state"), dict):
        raise ValueError("it holds no state")
    return tree
