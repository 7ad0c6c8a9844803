from __future__ import annotations

import io
import re

from rich.console import Console

from gatcluster.report.transfers import LiveTransfers, PlainTransfers


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def plain_lines(*news: tuple[float, str, int, int]) -> list[str]:
    """Lines that are written for news: the second it comes, the work, bytes done and in total."""
    stream, clock = io.StringIO(), Clock()
    with PlainTransfers(stream, clock) as transfers:
        for second, work, done, total in news:
            clock.now = 1000 + second
            transfers(work, done, total)
    return stream.getvalue().splitlines()


def test_lines_come_at_first_now_and_then_and_at_the_end():
    news = [(second, "downloading a", second * 1_000_000, 30_000_000) for second in range(31)]
    assert plain_lines(*news) == [
        "downloading a: 0 bytes of 30.0 MB",
        "downloading a: 10.0 MB of 30.0 MB, 0:20 left",
        "downloading a: 20.0 MB of 30.0 MB, 0:10 left",
        "downloading a: 30.0 MB of 30.0 MB",
    ]


def test_the_time_left_of_a_resumed_transfer_counts_only_what_came_now():
    lines = plain_lines((0, "downloading a", 90_000_000, 100_000_000), (10, "downloading a", 91_000_000, 100_000_000))
    assert lines == [
        "downloading a: 90.0 MB of 100.0 MB",
        "downloading a: 91.0 MB of 100.0 MB, 1:30 left",
    ]


def test_other_work_is_announced_at_once():
    lines = plain_lines((0, "downloading a", 0, 10), (1, "downloading b", 0, 10), (1, "unpacking b", 5, 10))
    assert [line.split(":")[0] for line in lines] == ["downloading a", "downloading b", "unpacking b"]


def test_plain_lines_go_to_standard_error(capsys):
    PlainTransfers()("downloading a", 0, 10)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "downloading a" in captured.err


def test_the_live_display_shows_work_amount_and_is_closed_after_a_failure():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120, color_system=None)
    try:
        with LiveTransfers(console) as transfers:
            transfers("downloading a", 50_000_000, 100_000_000)
            transfers("downloading a", 75_000_000, 100_000_000)
            transfers("unpacking a", 1_000_000, 2_000_000)
            transfers._bars.refresh()
            raise RuntimeError
    except RuntimeError:
        pass
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    for text in ("downloading a", "75.0/100.0 MB", "unpacking a", "1.0/2.0 MB"):
        assert text in shown
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")  # the cursor is back
