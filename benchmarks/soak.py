"""Pull the plug again and again: runs that are killed and resumed must end as unbroken ones do, byte for byte.

    python benchmarks/soak.py                       # 50 random kills, then 30 minutes with a kill every minute
    python benchmarks/soak.py --kills 5 --minutes 0

Prints one line for every run. Ends with exit code 1 if any result differs from that of its unbroken twin.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gatcluster.experiments.demo import write_digits
from gatcluster.runs.layout import CLUSTERS, MODEL, RESUME

RECIPES = {
    "fast": ("--epochs", "4"),
    "paper": ("--recipe", "paper", "--epochs", "2", "--batch-size", "300"),
}
CHECKPOINT_MINUTES = (0, 0.01, 2)  # after every step, about every half second, by default


def start(folder: Path, *arguments: object) -> subprocess.Popen[bytes]:
    log = (folder / "log.txt").open("ab")
    command = [sys.executable, "-m", "gatcluster", *map(str, arguments)]
    return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)


def finished(folder: Path, *arguments: object) -> float:
    """Run a command to its end; the seconds that it took."""
    began = time.monotonic()
    code = start(folder, *arguments).wait()
    if code:
        raise SystemExit(f"exit code {code} of gatcluster {' '.join(map(str, arguments))}: see {folder}/log.txt")
    return time.monotonic() - began


def outcome(run: Path) -> tuple[bytes, bytes]:
    return (run / CLUSTERS).read_bytes(), (run / MODEL).read_bytes()


def killed(process: subprocess.Popen[bytes], after: float) -> bool:
    """Kill a process after so many seconds; whether it was still there."""
    try:
        process.wait(timeout=after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True
    return False


def random_kills(folder: Path, digits: Path, kills: int, seed: int) -> int:
    """Kill runs of both recipes at random moments; how many of them ended differently."""
    chance, done, different, number = random.Random(seed), 0, 0, 0
    unbroken: dict[str, tuple[tuple[bytes, bytes], float]] = {}
    for recipe, options in RECIPES.items():
        run = folder / f"unbroken-{recipe}"
        seconds = finished(folder, "fit", digits, "-k", 10, "-o", run, "--no-report", *options)
        unbroken[recipe] = outcome(run), seconds
        print(f"{recipe}: an unbroken run takes {seconds:.0f} s", flush=True)
    while done < kills:
        number += 1
        recipe = chance.choice(list(RECIPES))
        expected, seconds = unbroken[recipe]
        run, often = folder / f"run-{number}", chance.choice(CHECKPOINT_MINUTES)
        begin = ("fit", digits, "-k", 10, "-o", run, "--no-report", "--checkpoint-minutes", often, *RECIPES[recipe])
        moments = []
        for _ in range(min(chance.randint(1, 4), kills - done)):
            arguments = ("fit", "--resume", run) if (run / RESUME).exists() else begin
            if run.exists() and not (run / RESUME).exists():
                break
            moments.append(chance.uniform(0, seconds))
            if not killed(start(folder, *arguments), moments[-1]):
                break
            done += 1
        if (run / RESUME).exists():
            finished(folder, "fit", "--resume", run)
        elif not run.exists():
            finished(folder, *begin)
        same = outcome(run) == expected
        different += not same
        at = ", ".join(f"{moment:.1f}" for moment in moments)
        print(
            f"run {number}, {recipe}, checkpoints every {often} min, killed after {at} s: {_verdict(same)}", flush=True
        )
    print(f"{done} kills in {number} runs, {different} of them ended differently", flush=True)
    return different


def long_run(folder: Path, digits: Path, minutes: float, every: float) -> int:
    """A run of about so many minutes that is killed every ``every`` seconds, its unbroken twin beside it.

    Returns:
        1 if the two end differently.
    """
    epochs = _epochs_for(minutes * 60, folder, digits)
    options = ("--no-report", "--epochs", epochs)
    print(f"the long run has {epochs} epochs", flush=True)
    twin = start(folder, "fit", digits, "-k", 10, "-o", folder / "long-unbroken", *options)
    run, kills = folder / "long", 0
    arguments: tuple[object, ...] = ("fit", digits, "-k", 10, "-o", run, "--checkpoint-minutes", every / 600, *options)
    while killed(start(folder, *arguments), every):
        kills += 1
        arguments = ("fit", "--resume", run) if (run / RESUME).exists() else arguments
    if twin.wait():
        raise SystemExit(f"the unbroken run failed: see {folder}/log.txt")
    same = outcome(run) == outcome(folder / "long-unbroken")
    unbroken, resumed = (_minutes_of_training(path) for path in (folder / "long-unbroken", run))
    print(f"unbroken: {unbroken:.1f} minutes of training", flush=True)
    print(f"killed {kills} times: {resumed:.1f} minutes of training: {_verdict(same)}", flush=True)
    return int(not same)


def _epochs_for(seconds: float, folder: Path, digits: Path) -> int:
    """The epochs that take so long, by the line through two short runs: a run takes time for more than its epochs."""
    few, many = 10, 80
    times = [
        finished(folder, "fit", digits, "-k", 10, "-o", folder / f"probe-{n}", "--no-report", "--epochs", n)
        for n in (few, many)
    ]
    for_each = max(1e-3, (times[1] - times[0]) / (many - few))
    return max(few, round(few + (seconds - times[0]) / for_each))


def _minutes_of_training(run: Path) -> float:
    return float(json.loads((run / "history.jsonl").read_text().splitlines()[-1])["seconds"]) / 60


def _verdict(same: bool) -> str:
    return "the same" if same else "DIFFERENT"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50, help="random kills")
    parser.add_argument("--minutes", type=float, default=30, help="length of the long run")
    parser.add_argument("--every", type=float, default=60, help="seconds between kills of the long run")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_digits(folder / "digits")
        different = random_kills(folder, folder / "digits", options.kills, options.seed) if options.kills else 0
        different += long_run(folder, folder / "digits", options.minutes, options.every) if options.minutes else 0
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
