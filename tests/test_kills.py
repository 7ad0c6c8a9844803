"""Runs that are killed at any moment and resumed end as if nothing had happened, byte for byte."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gatcluster import cli

# Starts commands by forking a process that has imported everything: a second less for each of them.
_SERVER = """import json, os, sys
import gatcluster.workflow, gatcluster.cli
for line in sys.stdin:
    folder, arguments = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        log = os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1), os.dup2(log, 2)
        sys.argv = ["gatcluster", *arguments]
        try:
            gatcluster.cli.main()
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(sys.exc_info()[1].code)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Process:
    """A command that runs."""

    def __init__(self, server: subprocess.Popen[str], folder: Path, *arguments: object) -> None:
        self._server, self._folder = server, folder
        server.stdin.write(json.dumps([str(folder), [str(argument) for argument in arguments]]) + "\n")
        server.stdin.flush()
        self.pid = int(server.stdout.readline())
        self.began = time.monotonic()
        self._code: int | None = None

    def is_over(self) -> bool:
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rsplit(") ", 1)[1].startswith("Z")
        except OSError:
            return True

    def signal(self, number: int) -> None:
        if not self.is_over():
            os.kill(self.pid, number)

    def wait(self) -> int:
        if self._code is None:
            self._code = int(self._server.stdout.readline())
        return self._code

    @property
    def log(self) -> str:
        return (self._folder / "log.txt").read_text()


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    yield process
    process.stdin.close()
    process.wait()
    process.stdout.close()


Start = Callable[..., Process]


@pytest.fixture
def start(server, tmp_path) -> Start:
    """Starts a command in the test's folder."""
    return lambda *arguments: Process(server, tmp_path, *arguments)


def write_photos(folder: Path, n: int) -> Path:
    noise = np.random.default_rng(0)
    y, x = np.indices((12, 12))
    shapes = [y % 4 < 2, np.hypot(y - 5.5, x - 5.5) < 3.5, x % 4 < 2]
    folder.mkdir()
    for number in range(n):
        pixels = noise.integers(0, 40, (12, 12)) + 180 * shapes[number % 3]
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:04}.png")
    return folder


FAST = ("--epochs", 2, "--no-report")
PAPER = (*FAST, "--recipe", "paper", "--batch-size", 64)


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos") / "photos", 192)


@pytest.fixture(scope="module")
def unbroken(photos, server, tmp_path_factory) -> dict[str, tuple[dict[str, bytes], float]]:
    """For both recipes what a run without interruption gives, and how many seconds it takes."""
    folder = tmp_path_factory.mktemp("unbroken")
    results = {}
    for recipe, options in {"fast": FAST, "paper": PAPER}.items():
        process = Process(server, folder, "fit", photos, "-k", 3, "-o", recipe, *options)
        assert process.wait() == 0, process.log
        results[recipe] = outcome(folder / recipe), time.monotonic() - process.began
    return results


def outcome(run: Path) -> dict[str, bytes]:
    return {name: (run / name).read_bytes() for name in ("clusters.csv", "model.safetensors")}


def finish(start: Start, run: Path) -> None:
    process = start("fit", "--resume", run)
    assert process.wait() == 0, process.log
    assert not {"resume.json", "checkpoints", ".lock", ".previous-run"} & {path.name for path in run.iterdir()}


def wait_until(process: Process, happened: Callable[[], bool]) -> bool:
    """Look as often as possible; whether it happened before the process was over."""
    while not process.is_over():
        if happened():
            return True
    return False


@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_killed_at_random_moments_and_resumed_it_is_the_same_run(start, tmp_path, photos, unbroken, recipe):
    expected, seconds = unbroken[recipe]
    moments = random.Random(0 if recipe == "fast" else 1)
    run, options = tmp_path / "run", FAST if recipe == "fast" else PAPER
    process = start("fit", photos, "-k", 3, "-o", run, *options, "--checkpoint-minutes", 0.001)
    for _ in range(2):
        time.sleep(moments.uniform(0.1, 0.7) * seconds)
        process.signal(signal.SIGKILL)
        process.wait()
        if not (run / "resume.json").exists():  # it was quick, or not yet begun
            break
        process = start("fit", "--resume", run)
    process.signal(signal.SIGKILL)
    process.wait()
    if not run.exists():
        assert start("fit", photos, "-k", 3, "-o", run, *options).wait() == 0
    elif (run / "resume.json").exists():
        finish(start, run)
    assert outcome(run) == expected


def test_killed_while_a_checkpoint_is_being_written(start, tmp_path, photos, unbroken):
    run = tmp_path / "run"
    process = start("fit", photos, "-k", 3, "-o", run, *FAST, "--checkpoint-minutes", 0)
    for _ in range(2):
        assert wait_until(process, lambda: any((run / "checkpoints").glob("checkpoint-*")))
        assert wait_until(process, lambda: any((run / "checkpoints").glob(".*.tmp")))
        process.signal(signal.SIGKILL)
        process.wait()
        process = start("fit", "--resume", run, "--checkpoint-minutes", 0)
    assert process.wait() == 0, process.log
    assert outcome(run) == unbroken["fast"][0]


def test_killed_while_the_cache_is_being_written(start, tmp_path, photos, unbroken):
    run, cache = tmp_path / "run", tmp_path / "cache"
    process = start("fit", photos, "-k", 3, "-o", run, *PAPER, "--cache", cache)
    assert wait_until(process, lambda: any(cache.glob("*.part")))
    process.signal(signal.SIGKILL)
    process.wait()
    assert json.loads((run / "resume.json").read_text())["settings"] is None  # not all images were read
    finish(start, run)
    assert outcome(run) == unbroken["paper"][0]
    assert not any(cache.glob("*.part"))


def test_killed_before_the_first_checkpoint_it_begins_again(start, tmp_path, photos, unbroken):
    run = tmp_path / "run"
    process = start("fit", photos, "-k", 3, "-o", run, *PAPER, "--checkpoint-minutes", 60)
    assert wait_until(process, lambda: (run / "history.jsonl").exists() and (run / "history.jsonl").stat().st_size > 0)
    process.signal(signal.SIGKILL)
    process.wait()
    assert not (run / "checkpoints").exists()
    finish(start, run)
    assert outcome(run) == unbroken["paper"][0]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_finishes_the_step_keeps_the_state_and_says_how_to_go_on(
    start, tmp_path, photos, unbroken, number, code
):
    run = tmp_path / "run"
    process = start("fit", photos, "-k", 3, "-o", run, *PAPER)
    assert wait_until(process, lambda: (run / "history.jsonl").exists() and (run / "history.jsonl").stat().st_size > 0)
    process.signal(number)
    assert process.wait() == code
    assert process.log.splitlines()[-1] == f"error: interrupted: `gatcluster fit --resume {run}` goes on from here"
    assert "Traceback" not in process.log
    assert len(list((run / "checkpoints").iterdir())) == 1
    finish(start, run)
    assert outcome(run) == unbroken["paper"][0]


def test_a_second_process_on_the_same_run_is_refused_and_the_first_goes_on(
    start, tmp_path, photos, unbroken, monkeypatch, capsys
):
    run = tmp_path / "run"
    process = start("fit", photos, "-k", 3, "-o", run, *PAPER)
    assert wait_until(process, lambda: (run / "resume.json").exists())
    process.signal(signal.SIGSTOP)  # it holds what it holds while we try
    for arguments in (
        ("--resume", run),
        (photos, "-k", 3, "-o", run, "--overwrite"),
        (photos, "-k", 3, "-o", run),
    ):
        monkeypatch.setattr(sys, "argv", ["gatcluster", "fit", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"another process (number {process.pid}) is at work on {run}" in line
    process.signal(signal.SIGCONT)
    assert process.wait() == 0, process.log
    assert outcome(run) == unbroken["paper"][0]


def test_a_damaged_checkpoint_is_told_and_the_older_one_gone_on_from(start, tmp_path, photos, unbroken):
    run = tmp_path / "run"
    process = start("fit", photos, "-k", 3, "-o", run, *PAPER, "--checkpoint-minutes", 0)
    assert wait_until(process, lambda: len(list((run / "checkpoints").glob("checkpoint-*"))) == 2)
    process.signal(signal.SIGKILL)
    process.wait()
    newest = sorted((run / "checkpoints").glob("checkpoint-*"))[-1]
    newest.write_bytes(newest.read_bytes()[:-1] + b"!")
    process = start("fit", "--resume", run)
    assert process.wait() == 0
    assert "is damaged (its checksum is wrong): an older one is taken" in process.log
    assert outcome(run) == unbroken["paper"][0]


def test_images_that_changed_are_refused_and_the_run_can_still_be_resumed(start, tmp_path, unbroken):
    photos, run = write_photos(tmp_path / "photos", 192), tmp_path / "run"
    process = start("fit", photos, "-k", 3, "-o", run, *PAPER)
    assert wait_until(process, lambda: (run / "history.jsonl").exists() and (run / "history.jsonl").stat().st_size > 0)
    process.signal(signal.SIGINT)
    assert process.wait() == 130
    changed = photos / "0007.png"
    before = changed.read_bytes()
    Image.fromarray(np.zeros((12, 12), np.uint8)).save(changed)
    process = start("fit", "--resume", run)
    assert process.wait() == 2
    assert f"error: {photos} has images with other pixels than the run was begun with" in process.log
    changed.write_bytes(before)
    finish(start, run)
    assert outcome(run) == unbroken["paper"][0]
