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
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gatcluster import cli
from gatcluster.devices import computes_in_bf16

# Starts commands by forking a process that has imported everything: a second less for each of them. A command may be
# told of a function, the number of a call of it, and what happens when that returns: "die" is a kill that no guess of
# a moment could place there, "hang" is a step that takes for ever and tells that it does by a file that grows.
_SERVER = """import importlib, itertools, json, os, signal, sys, time
import gatcluster.workflow, gatcluster.cli

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def hang():
    while True:
        with open("hangs.txt", "a") as file:
            file.write(".")
        time.sleep(0.01)

def meddle(module, function, number, then):
    module = importlib.import_module(module)
    original, calls = getattr(module, function), itertools.count(1)
    def meddled(*given, **named):
        result = original(*given, **named)
        if next(calls) == number:
            {"die": die, "hang": hang}[then]()
        return result
    setattr(module, function, meddled)

for line in sys.stdin:
    folder, arguments, meddling = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        log = os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1), os.dup2(log, 2)
        sys.argv = ["gatcluster", *arguments]
        try:
            if meddling:
                meddle(*meddling)
            gatcluster.cli.main()
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(getattr(sys.exc_info()[1], "code", 70))
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
_TRAINER = "gatcluster.learning.trainer"


class Process:
    """A command that runs."""

    def __init__(
        self,
        server: subprocess.Popen[str],
        folder: Path,
        *arguments: object,
        meddling: tuple[str, str, int, str] | None = None,
    ) -> None:
        self._server, self._folder = server, folder
        server.stdin.write(json.dumps([str(folder), [str(argument) for argument in arguments], meddling]) + "\n")
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
    return partial(Process, server, tmp_path)


def write_photos(folder: Path, n: int) -> Path:
    noise = np.random.default_rng(0)
    y, x = np.indices((12, 12))
    shapes = [y % 4 < 2, np.hypot(y - 5.5, x - 5.5) < 3.5, x % 4 < 2]
    folder.mkdir()
    for number in range(n):
        pixels = noise.integers(0, 40, (12, 12)) + 180 * shapes[number % 3]
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:04}.png")
    return folder


FAST = ("--epochs", 2, "--no-report", "--precision", "32-true")
FAST_16 = ("--epochs", 2, "--no-report", "--precision", "bf16-mixed")
PAPER = (*FAST, "--recipe", "paper", "--batch-size", 64)
# A CPU that has to imitate 16 bits takes a minute for what takes seconds in 32, which it would choose. That states in
# 16 bits are kept to the last bit is tested everywhere, in tests/learning/test_state.py.
OPTIONS = {"fast": FAST, "paper": PAPER} | ({"fast in 16 bits": FAST_16} if computes_in_bf16() else {})


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos") / "photos", 192)


@pytest.fixture(scope="module")
def unbroken(photos, server, tmp_path_factory) -> dict[str, tuple[dict[str, bytes], float]]:
    """For all options what a run without interruption gives, and for how many seconds it is unfinished."""
    folder = tmp_path_factory.mktemp("unbroken")

    def begin(name: str, *options: object) -> Process:
        process = Process(server, folder, "fit", photos, "-k", 3, "-o", name, *options)
        assert wait_until(process, (folder / name / "resume.json").exists)
        return process

    assert begin("first", *PAPER).wait() == 0  # which makes the cache: all others find it
    results = {}
    for name, options in OPTIONS.items():
        process = begin(name, *options)
        began = time.monotonic()
        assert wait_until(process, lambda run=folder / name: not (run / "resume.json").exists())
        seconds = time.monotonic() - began
        assert process.wait() == 0, process.log
        results[name] = outcome(folder / name), seconds
    return results


def outcome(run: Path) -> dict[str, bytes]:
    return {name: (run / name).read_bytes() for name in ("clusters.csv", "model.safetensors")}


def finish(start: Start, run: Path) -> None:
    process = start("fit", "--resume", run)
    assert process.wait() == 0, process.log
    assert not {"resume.json", "checkpoints", ".lock", ".previous-run"} & {path.name for path in run.iterdir()}


def wait_until(process: Process, happened: Callable[[], bool], pause: float = 0.003) -> bool:
    """Whether it happens before the process is over. Without a pause, what is over in a moment is seen, too."""
    while not process.is_over():
        if happened():
            return True
        time.sleep(pause)
    return False


N_KILLS = 5  # of each recipe
MOST_ATTEMPTS = 60  # before it is given up: some come too late


@pytest.mark.parametrize("options", ["fast in 16 bits" if computes_in_bf16() else "fast", "paper"])
def test_killed_at_random_moments_and_resumed_it_is_the_same_run(start, tmp_path, photos, unbroken, options):
    expected, seconds = unbroken[options]
    moments = random.Random(options)
    fit = ("fit", photos, "-k", 3, *OPTIONS[options], "--checkpoint-minutes", 0.001, "-o")
    runs = [tmp_path / f"run-{number}" for number in range(MOST_ATTEMPTS)]
    run, left, kills = runs.pop(), seconds, 0
    process = start(*fit, run)
    for _ in range(MOST_ATTEMPTS):
        assert wait_until(process, (run / "resume.json").exists)
        moment = moments.uniform(0, left)
        time.sleep(moment)
        process.signal(signal.SIGKILL)
        if process.wait() == -signal.SIGKILL and (run / "resume.json").exists():
            kills += 1
            if kills == N_KILLS:
                break
            left = max(left - moment, seconds / 3)  # a process that goes on begins with reading, too
            process = start("fit", "--resume", run)
        else:  # it was too quick: with what is left of the kills, another one is killed
            assert outcome(run) == expected
            run, left = runs.pop(), seconds
            process = start(*fit, run)
    assert kills == N_KILLS
    finish(start, run)
    assert outcome(run) == expected


def test_killed_in_step_1_of_algorithm_1(start, tmp_path, photos, unbroken):
    """After the label features of a batch, after its k-means (which took a random number), after its targets."""
    run = tmp_path / "run"
    arguments = ("fit", photos, "-k", 3, "-o", run, *PAPER, "--checkpoint-minutes", 0)
    for finished, function in enumerate(("infer", "cluster_label_features", "balanced_targets"), start=1):
        process = start(*arguments, meddling=(_TRAINER, function, 2, "die"))
        assert process.wait() == -signal.SIGKILL, process.log
        # Iterations that are whole have a record. The next has begun, and step 2 of it would be in a checkpoint.
        assert len((run / "history.jsonl").read_text().splitlines()) == finished
        assert len(list((run / "checkpoints").iterdir())) == 2
        arguments = ("fit", "--resume", run, "--checkpoint-minutes", 0)
    finish(start, run)
    assert outcome(run) == unbroken["paper"][0]


def test_killed_while_a_checkpoint_is_being_written(start, tmp_path, photos, unbroken):
    run = tmp_path / "run"
    process = start("fit", photos, "-k", 3, "-o", run, *FAST, "--checkpoint-minutes", 0)
    for _ in range(2):
        assert wait_until(process, lambda: any((run / "checkpoints").glob("checkpoint-*")))
        assert wait_until(process, lambda: any((run / "checkpoints").glob(".*.tmp")), pause=0)
        process.signal(signal.SIGKILL)
        process.wait()
        process = start("fit", "--resume", run, "--checkpoint-minutes", 0)
    assert process.wait() == 0, process.log
    assert outcome(run) == unbroken["fast"][0]


def test_killed_while_the_cache_is_being_written(start, tmp_path, photos, unbroken):
    run, cache = tmp_path / "run", tmp_path / "cache"
    process = start("fit", photos, "-k", 3, "-o", run, *PAPER, "--cache", cache)
    assert wait_until(process, lambda: any(cache.glob("*.part")), pause=0)
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


def test_a_second_signal_does_not_wait_for_the_step(start, tmp_path, photos, unbroken):
    run, sign = tmp_path / "run", tmp_path / "hangs.txt"

    def has_hung_for(more: int) -> Callable[[], bool]:
        least = more + (sign.stat().st_size if sign.exists() else 0)
        return lambda: sign.exists() and sign.stat().st_size >= least

    process = start("fit", photos, "-k", 3, "-o", run, *PAPER, meddling=(_TRAINER, "total_loss", 3, "hang"))
    assert wait_until(process, has_hung_for(1))
    process.signal(signal.SIGINT)
    assert wait_until(process, has_hung_for(20))  # it got the signal, and waits for the step
    process.signal(signal.SIGINT)
    assert process.wait() == 130
    assert process.log.splitlines()[-1] == f"error: interrupted: `gatcluster fit --resume {run}` goes on from here"
    assert "Traceback" not in process.log
    assert not (run / "checkpoints").exists()
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
