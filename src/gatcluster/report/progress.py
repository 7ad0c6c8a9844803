"""Progress on a terminal: a live bar with the time left, the losses and the cluster sizes; or plain lines elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, TaskProgressColumn, TextColumn
from rich.progress import Progress as RichBar
from rich.text import Text

from gatcluster.learning.callbacks import Callback, Progress
from gatcluster.learning.history import Record
from gatcluster.learning.watch import sentence

_BLOCKS = " ▁▂▃▄▅▆▇█"
_SECONDS_BETWEEN_LINES = 10.0
_MOST_SIZES_SHOWN = 20


def duration(seconds: float) -> str:
    """Seconds as a clock shows them.

    >>> duration(75), duration(3675)
    ('1:15', '1:01:15')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def time_left(progress: Progress) -> str:
    """The time left, in words."""
    return "estimating time left" if progress.seconds_left is None else f"{duration(progress.seconds_left)} left"


def losses_line(record: Record) -> str:
    """Losses and confidence of a record on one line."""
    parts = [f"{name} {value:.3f}" for name, value in record.losses.items()]
    if record.mean_confidence is not None:
        parts.append(f"confidence {record.mean_confidence:.2f}")
    return f"{record.stage}, epoch {record.epoch}:  " + "  ".join(parts)


def sizes_line(sizes: Sequence[int]) -> str:
    """Cluster sizes as small bars and as numbers.

    >>> sizes_line([10, 5, 0])
    'clusters █▄   10 5 0'
    """
    largest = max(max(sizes), 1)
    bars = "".join(_BLOCKS[math.ceil(size / largest * (len(_BLOCKS) - 1))] for size in sizes)  # only empty is blank
    numbers = " ".join(str(size) for size in sizes[:_MOST_SIZES_SHOWN])
    return f"clusters {bars}  {numbers}" + (" ..." if len(sizes) > _MOST_SIZES_SHOWN else "")


def new_findings(record: Record, told: set[str]) -> list[str]:
    """What the watch found for the first time, in words; ``told`` is brought up to date."""
    new = [name for name in record.findings if name not in told]
    told.update(new)
    return [f"{sentence(name)} (seen in epoch {record.epoch})" for name in new]


class LiveProgress(Callback):
    """A live display on a terminal; use it as a context manager."""

    def __init__(self, console: Console) -> None:
        self._bar = RichBar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            expand=True,
        )
        self._task = self._bar.add_task("reading", total=1.0, left="")
        self._losses, self._sizes = Text("", style="dim"), Text("", style="cyan")
        self._told: set[str] = set()  # findings, each once
        self._live = Live(Group(self._bar), console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def on_images(self, done: int, total: int) -> None:
        """Images read so far."""
        self._bar.update(self._task, description="reading", completed=done / total, left=f"{done} of {total} images")

    def on_report(self, done: int, total: int) -> None:
        """Thumbnails of the report written so far."""
        self._bar.update(self._task, description="report", completed=done / total, left=f"{done} of {total} images")

    def on_notice(self, message: str) -> None:
        """Something that the user should know; it stays above the display."""
        self._live.console.print(f"warning: {message}", markup=False, soft_wrap=True)

    def on_resume(self, history: Sequence[Record]) -> None:
        """What was found before the interruption was told then."""
        self._told.update(name for record in history for name in record.findings)

    def on_progress(self, progress: Progress) -> None:
        """Move the bar."""
        self._bar.update(self._task, description=progress.stage, completed=progress.done, left=time_left(progress))

    def on_record(self, record: Record) -> None:
        """Renew the lines below the bar."""
        for finding in new_findings(record, self._told):
            self.on_notice(finding)
        self._losses.plain = losses_line(record)
        if record.cluster_sizes:
            self._sizes.plain = sizes_line(record.cluster_sizes)
        self._live.update(Group(self._bar, self._losses, self._sizes))


class PlainProgress(Callback):
    """A line of text now and then, for log files and notebooks."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._last: float | None = None  # when a line was last written
        self._stage = ""
        self._progress: Progress | None = None
        self._told: set[str] = set()  # findings, each once

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def on_images(self, done: int, total: int) -> None:
        """Images read so far."""
        if self._is_due() or done == total:
            self._write(f"reading images: {done} of {total}")

    def on_report(self, done: int, total: int) -> None:
        """Thumbnails of the report written so far."""
        if self._is_due() or done == total:
            self._write(f"writing the report: {done} of {total} images")

    def on_notice(self, message: str) -> None:
        """Something that the user should know."""
        self._write(f"warning: {message}")

    def on_resume(self, history: Sequence[Record]) -> None:
        """What was found before the interruption was told then."""
        self._told.update(name for record in history for name in record.findings)

    def on_progress(self, progress: Progress) -> None:
        """Remember how far training is, for the next line."""
        self._progress = progress

    def on_record(self, record: Record) -> None:
        """Write a line if a new stage began or the last line is some time ago."""
        for finding in new_findings(record, self._told):
            self.on_notice(finding)
        if record.stage == self._stage and not self._is_due():
            return
        self._stage = record.stage
        parts = [losses_line(record)]
        if self._progress is not None:
            parts = [f"{self._progress.done:4.0%}", *parts, time_left(self._progress)]
        if record.cluster_sizes:
            parts.append(sizes_line(record.cluster_sizes))
        self._write("  ".join(parts))

    def _is_due(self) -> bool:
        return self._last is None or self._clock() - self._last >= _SECONDS_BETWEEN_LINES

    def _write(self, line: str) -> None:
        self._last = self._clock()
        print(line, file=self._stream or sys.stderr, flush=True)
