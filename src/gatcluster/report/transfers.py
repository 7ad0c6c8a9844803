"""How far a transfer is: a bar with the time left on a terminal, or plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from gatcluster.report.progress import duration

_SECONDS_BETWEEN_LINES = 10.0


class LiveTransfers:
    """A bar for each piece of work, on a terminal; use it as a context manager, and call it with news."""

    def __init__(self, console: Console) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(compact=True),
            console=console,
            expand=True,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> LiveTransfers:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def __call__(self, work: str, done: int, total: int) -> None:
        """Move a bar."""
        if work not in self._tasks:  # a transfer that is resumed begins in the middle, which is no sign of its speed
            self._tasks[work] = self._bars.add_task(work, total=total, completed=done)
        self._bars.update(self._tasks[work], completed=done)


class PlainTransfers:
    """A line of text now and then, for log files and notebooks."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._work = ""
        self._begun = self._last = 0.0  # when the work began, and when a line was last written
        self._held = 0  # bytes that were there when it began

    def __enter__(self) -> PlainTransfers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def __call__(self, work: str, done: int, total: int) -> None:
        """Write a line if this is new, finished, or the last line is some time ago."""
        now = self._clock()
        is_new = work != self._work
        if is_new:
            self._work, self._begun, self._held = work, now, done
        elif done < total and now - self._last < _SECONDS_BETWEEN_LINES:
            return
        self._last = now
        line = f"{work}: {decimal(done)} of {decimal(total)}"
        if self._held < done < total:
            line += f", {duration((now - self._begun) * (total - done) / (done - self._held))} left"
        print(line, file=self._stream or sys.stderr, flush=True)
