"""One process at a time on a run folder; a lock ends with its owner, whatever happens to that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gatcluster.errors import InputError
from gatcluster.runs.create import new_run, reopened_run
from gatcluster.runs.lock import check_not_in_use, locked

_HOLD = """import sys, time
from pathlib import Path
from gatcluster.runs.lock import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def owner(tmp_path):
    """A process that holds the lock of a folder."""
    process = subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def entries(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_what_another_process_works_on_is_refused_by_its_number(tmp_path, owner):
    for attempt in (locked(tmp_path), new_run(tmp_path, overwrite=True), reopened_run(tmp_path)):
        with (
            pytest.raises(InputError, match=f"another process \\(number {owner.pid}\\) is at work on {tmp_path}"),
            attempt,
        ):
            pytest.fail("must not begin")
    assert entries(tmp_path) == [".lock"]


def test_a_killed_owner_leaves_nothing_to_clean_up(tmp_path, owner):
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    assert entries(tmp_path) == [".lock"]
    check_not_in_use(tmp_path)
    with new_run(tmp_path, overwrite=False):
        pass
    assert entries(tmp_path) == ["history.jsonl"]


def test_to_ask_leaves_no_trace(tmp_path):
    check_not_in_use(tmp_path)
    check_not_in_use(tmp_path / "not there")
    assert entries(tmp_path) == []


def test_within_one_process_a_second_lock_is_refused_too_and_the_first_one_holds(tmp_path):
    with locked(tmp_path):
        with pytest.raises(InputError, match="another process"), locked(tmp_path):
            pytest.fail("must not begin")
        with pytest.raises(InputError, match="another process"):
            check_not_in_use(tmp_path)
    with locked(tmp_path):
        pass
    assert entries(tmp_path) == []
