"""Running measurements: each in a process of its own, under its time limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from statistics import fmean
from typing import Any

from comparison import machine
from comparison.job import BEGUN, STOPPED, Job
from comparison.results import DONE, FAILED, OVER, Line, append, key_of, read

_PACKAGE_PARENT = Path(__file__).resolve().parents[1]
_POLL_SECONDS = 0.1
_READING_LIMIT = 1800.0  # seconds, before the clock starts: importing, decoding
_GUESSED_SECONDS = 120.0  # of a measurement that lasts some epochs
_GUESSED_SHARE = 0.4  # of its limit that a peer takes, as long as nothing is known


def run_jobs(jobs: Sequence[Job], results: Path, again: bool, command: str) -> None:
    """Measure what is not in the results yet, one after the other; every measurement adds a line at once."""
    known = read(results)
    measured = {key_of(line) for line in known if line["status"] != FAILED}
    waiting = [job for job in jobs if again or key_of(job.line()) not in measured]
    print(f"{len(jobs)} measurements, {len(jobs) - len(waiting)} of them already in {results}", flush=True)
    for number, job in enumerate(waiting):
        left = _duration(sum(expected_seconds(other, known) for other in waiting[number:]))
        print(f"[{number + 1}/{len(waiting)}] {job.describe()} (about {left} left in all)", flush=True)
        began = time.monotonic()
        line = {**job.line(), **_circumstances(command), **run(job)}
        line["seconds_of_process"] = time.monotonic() - began
        append(results, line)
        known.append(line)
        print(f"    {outcome(line)}", flush=True)


def run(job: Job) -> dict[str, Any]:
    """The result of one measurement, whatever comes of it."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
        output = Path(folder) / "output"
        process = subprocess.Popen(
            [sys.executable, "-m", "comparison.child", json.dumps(asdict(job)), str(output)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_PACKAGE_PARENT), os.environ.get("PYTHONPATH", "")])},
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # so that its own workers end with it
        )
        try:
            return _watched(process, job, output) or _died(process, errors)
        finally:
            _end(process)


def _watched(process: subprocess.Popen[bytes], job: Job, output: Path) -> dict[str, Any] | None:
    """The result of a process, or that it was stopped; None if it died without a word."""
    started, begun = time.monotonic(), None
    while process.poll() is None:
        time.sleep(_POLL_SECONDS)
        now, said = time.monotonic(), _said(output)
        if begun is None and said:
            begun = now
        if begun is not None and job.limit is not None and now - begun > job.limit and said[-1] == BEGUN:
            return {"status": OVER, "seconds": now - begun, "peak_bytes": machine.peak_bytes(process.pid)}
        if begun is None and now - started > _READING_LIMIT:
            return {"status": FAILED, "error": f"not ready to begin after {_READING_LIMIT:.0f} seconds"}
    said = _said(output)
    return json.loads(said[-1]) if said and said[-1] not in (BEGUN, STOPPED) else None


def _said(output: Path) -> list[str]:
    """What the process has said so far: whole lines only."""
    text = output.read_text() if output.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


def _died(process: subprocess.Popen[bytes], errors: Any) -> dict[str, Any]:
    errors.seek(0)
    said = errors.read().decode(errors="replace").strip().splitlines()
    return {"status": FAILED, "error": f"ended with code {process.returncode}: {said[-1] if said else ''}"[:500]}


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _circumstances(command: str) -> dict[str, Any]:
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": machine.commit(),
        "command": command,
        "hardware": machine.hardware(),
        "load": round(os.getloadavg()[0], 2),  # of other work on the machine
        "versions": machine.versions(),
    }


def expected_seconds(job: Job, known: Sequence[Line]) -> float:
    """How long a job will take: as long as the same one did with other seeds, or else as its length lets one guess."""
    wanted = key_of(job.line())
    took = [(key_of(line), line["seconds_of_process"]) for line in known if "seconds_of_process" in line]
    same = [seconds for key, seconds in took if key._replace(seed=wanted.seed) == wanted]
    if same:
        return fmean(same)
    if job.minutes is not None:
        return job.minutes * 60 * (1.0 if job.keeps_to_time else _GUESSED_SHARE)
    alike = [seconds for key, seconds in took if key._replace(seed=wanted.seed, method=wanted.method) == wanted]
    return fmean(alike) if alike else _GUESSED_SECONDS


def outcome(line: Line) -> str:
    """What came of a measurement, on one line."""
    if line["status"] == DONE:
        empty = f", {line['empty_clusters']} empty" if line["empty_clusters"] else ""
        return (
            f"ACC {line['accuracy']:.3f}, NMI {line['nmi_geometric']:.3f}, ARI {line['ari']:.3f}{empty}; "
            f"{line['seconds']:.0f} s, {line['peak_bytes'] / 1e6:.0f} MB"
        )
    return f"over the time, stopped after {line['seconds']:.0f} s" if line["status"] == OVER else line["error"]


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{max(1, minutes)} min"
