from __future__ import annotations

import dataclasses
import io
import re

import pytest
from rich.console import Console

from gatcluster.learning.callbacks import Progress
from gatcluster.learning.history import Record
from gatcluster.report.progress import LiveProgress, PlainProgress, duration, losses_line, sizes_line, time_left


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def record(stage: str = "clustering", epoch: int = 3, sizes: tuple[int, ...] = (10, 5, 0)) -> Record:
    return Record(
        stage=stage,
        epoch=epoch,
        iteration=7,
        losses={"relation": 0.12345, "total": -1.5},
        learning_rate=0.001,
        seconds=12.0,
        images_per_second=100.0,
        cluster_sizes=list(sizes),
        mean_confidence=0.876 if sizes else None,
    )


# Words.


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0:00"),
        (0.4, "0:00"),
        (9, "0:09"),
        (59.4, "0:59"),
        (59.6, "1:00"),
        (61, "1:01"),
        (3599.7, "1:00:00"),
        (3600, "1:00:00"),
        (36 * 3600 + 61, "36:01:01"),
    ],
)
def test_durations_read_like_a_clock(seconds, shown):
    assert duration(seconds) == shown


def test_the_time_left_is_not_invented_before_there_is_something_to_judge_from():
    assert time_left(Progress("warm-up", 0.0, 0.1, None)) == "estimating time left"
    assert time_left(Progress("warm-up", 0.5, 75, 75)) == "1:15 left"


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        ([10, 5, 0], "clusters █▄   10 5 0"),
        ([0, 0], "clusters     0 0"),
        ([1], "clusters █  1"),
        ([3, 3, 3], "clusters ███  3 3 3"),
        ([1000, 1, 0], "clusters █▁   1000 1 0"),
    ],
)
def test_cluster_sizes_are_bars_and_numbers(sizes, shown):
    assert sizes_line(sizes) == shown


def test_of_many_clusters_all_bars_are_shown_but_not_all_numbers():
    line = sizes_line([7] * 100)
    assert line.count("█") == 100
    assert line.count("7") == 20
    assert line.endswith(" ...")
    assert not sizes_line([7] * 20).endswith("...")


def test_losses_and_confidence_are_on_one_line_with_stage_and_epoch():
    assert losses_line(record()) == "clustering, epoch 3:  relation 0.123  total -1.500  confidence 0.88"
    assert losses_line(record("warm-up", sizes=())) == "warm-up, epoch 3:  relation 0.123  total -1.500"


# Plain lines, for log files.


def plain() -> tuple[PlainProgress, io.StringIO, Clock]:
    stream, clock = io.StringIO(), Clock()
    return PlainProgress(stream, clock), stream, clock


def test_a_plain_line_says_how_far_training_is_and_what_it_found():
    progress, stream, _ = plain()
    with progress:
        progress.on_progress(Progress("clustering", 0.42, 60, 83))
        progress.on_record(record())
    assert stream.getvalue() == (
        " 42%  clustering, epoch 3:  relation 0.123  total -1.500  confidence 0.88  1:23 left  clusters █▄   10 5 0\n"
    )


def test_a_plain_line_before_any_progress_and_without_clusters_is_written_too():
    progress, stream, _ = plain()
    progress.on_record(record("warm-up", sizes=()))
    assert stream.getvalue() == "warm-up, epoch 3:  relation 0.123  total -1.500\n"


def test_plain_lines_come_now_and_then_and_not_for_every_iteration():
    progress, stream, clock = plain()
    for second in range(61):
        clock.now = 1000 + second / 2
        progress.on_progress(Progress("clustering", second / 100, second, 100 - second))
        progress.on_record(record(epoch=second))
    epochs = [int(epoch) for epoch in re.findall(r"epoch (\d+)", stream.getvalue())]
    assert epochs == [0, 20, 40, 60]  # every ten seconds


def test_a_new_stage_is_announced_at_once():
    progress, stream, _ = plain()
    for stage in ("warm-up", "warm-up", "clustering", "clustering"):
        progress.on_record(record(stage))
    assert re.findall(r"^[\w-]+", stream.getvalue(), re.MULTILINE) == ["warm-up", "clustering"]


def test_reading_images_is_reported_at_first_now_and_then_and_at_the_end():
    progress, stream, clock = plain()
    for done in range(1, 101):
        clock.now = 1000 + done / 4
        progress.on_images(done, 100)
    lines = stream.getvalue().splitlines()
    assert lines == [f"reading images: {done} of 100" for done in (1, 41, 81, 100)]


def test_plain_lines_go_to_standard_error_so_that_standard_output_stays_clean(capsys):
    PlainProgress().on_record(record())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "epoch 3" in captured.err


def test_plain_lines_are_flushed_so_that_a_log_can_be_followed():
    flushed: list[str] = []

    class Stream(io.StringIO):
        def flush(self) -> None:
            flushed.append(self.getvalue())

    PlainProgress(Stream(), Clock()).on_images(5, 5)
    assert flushed[-1] == "reading images: 5 of 5\n"


# The live display.


def live_display(*events) -> str:
    """What a terminal gets to see, without the control codes."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120, height=20, color_system=None)
    with LiveProgress(console) as progress:
        for event in events:
            event(progress)
        progress._live.refresh()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())


def test_the_live_display_shows_reading():
    assert "reading" in live_display()
    shown = live_display(lambda progress: progress.on_images(30, 120))
    assert "30 of 120 images" in shown
    assert "25%" in shown


def test_the_live_display_shows_stage_share_and_time_left():
    shown = live_display(lambda progress: progress.on_progress(Progress("warm-up", 0.42, 60, 83)))
    for text in ("warm-up", "42%", "1:23 left"):
        assert text in shown


def test_the_live_display_shows_losses_and_cluster_sizes():
    shown = live_display(lambda progress: progress.on_record(record()))
    assert "clustering, epoch 3:  relation 0.123  total -1.500  confidence 0.88" in shown
    assert "clusters █▄   10 5 0" in shown


def test_the_live_display_keeps_the_last_cluster_sizes_when_a_record_has_none():
    shown = live_display(
        lambda progress: progress.on_record(record()), lambda progress: progress.on_record(record("refining", sizes=()))
    )
    last = shown[shown.rindex("refining") :]
    assert "10 5 0" in last


def test_the_live_display_is_closed_when_training_fails():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120)
    progress = LiveProgress(console)
    with pytest.raises(RuntimeError, match="training failed"), progress:
        raise RuntimeError("training failed")
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")  # the cursor is back
    progress.on_record(record())  # late news does no harm


def test_wide_rows_of_clusters_do_not_break_a_narrow_terminal():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=40, color_system=None)
    with LiveProgress(console) as progress:
        progress.on_record(record(sizes=tuple(range(1, 200))))
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", stream.getvalue()).splitlines()
    assert max(len(line) for line in lines) <= 40


# What the watch finds.


@pytest.mark.parametrize("live", [True, False])
def test_a_finding_is_told_once_in_words_also_after_a_resume(live):
    stream = io.StringIO()
    found = dataclasses.replace(record(), findings=["giant-cluster"])
    console = Console(file=stream, force_terminal=True, width=200)
    with LiveProgress(console) if live else PlainProgress(stream) as progress:
        for _ in range(3):
            progress.on_record(found)
        progress.on_notice("a checkpoint is damaged")
    assert stream.getvalue().count("giant-cluster: one cluster holds more than nine tenths") == 1
    assert stream.getvalue().count("warning: a checkpoint is damaged") == 1
    stream = io.StringIO()
    with LiveProgress(Console(file=stream)) if live else PlainProgress(stream) as progress:
        progress.on_resume([found])
        progress.on_record(found)
    assert "giant-cluster" not in stream.getvalue()
