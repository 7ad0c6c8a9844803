from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from gatcluster.data.files import ImageFiles
from gatcluster.data.workers import NoWorkersError, Workers

# What worker processes import; they get this process's sys.path.
FUNCTIONS = """
import os, sys, time

def add(shared, task):
    return shared + task

def loaded(shared, task):
    return sorted(set(task) & set(sys.modules))

def die_of_odd(shared, task):
    if task % 2:
        os._exit(1)
    return os.getpid()

def large(shared, task):
    return bytes(task)

def print_much(shared, task):
    os.write(1, b"a decoder that talks" * 100)
    os.write(2, b"and complains" * 100)
    return task

def sleep(shared, task):
    time.sleep(1000)

class Unloadable:
    def __reduce__(self):
        return os._exit, (3,)
"""


@pytest.fixture
def functions(tmp_path, monkeypatch):
    (tmp_path / "functions_for_workers.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    import functions_for_workers

    yield functions_for_workers
    del sys.modules["functions_for_workers"]


def test_every_task_is_done_once_and_comes_back_with_its_result(functions):
    with Workers(1000, count=2) as workers:
        assert sorted(workers.run(functions.add, range(50))) == [(task, 1000 + task) for task in range(50)]
        assert list(workers.run(functions.add, [])) == []
        assert list(workers.run(functions.add, [7])) == [(7, 1007)]


def test_a_task_that_kills_its_worker_is_reported_and_the_others_are_done(functions):
    with Workers(None, count=2) as workers:
        results = dict(workers.run(functions.die_of_odd, range(12)))
    assert [task for task in range(12) if results[task] is None] == [1, 3, 5, 7, 9, 11]


def test_results_larger_than_a_pipe_arrive_whole(functions):
    with Workers(None, count=2) as workers:
        assert [len(result) for _, result in workers.run(functions.large, [3_000_000] * 3)] == [3_000_000] * 3


def test_what_a_library_prints_does_not_mix_with_the_answers(functions, capfd):
    with Workers(None, count=1) as workers:
        assert list(workers.run(functions.print_much, [1, 2])) == [(1, 1), (2, 2)]
    assert capfd.readouterr() == ("", "")


def test_workers_for_files_load_neither_torch_nor_numpy_nor_pydantic(functions):
    with Workers(ImageFiles([Path("a.png")], ["a.png"]), count=1) as workers:
        (_, loaded), *_ = workers.run(functions.loaded, [("torch", "numpy", "pydantic", "PIL.Image")])
    assert loaded == ["PIL.Image"]


def test_what_cannot_be_pickled_or_loaded_is_said_so(functions):
    with pytest.raises(NoWorkersError):
        Workers(threading.Lock(), count=1)
    with Workers(functions.Unloadable(), count=1) as workers, pytest.raises(NoWorkersError):
        list(workers.run(functions.add, [1]))


def test_without_an_executable_there_are_no_workers(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(NoWorkersError):
        Workers(None, count=1)


def test_leaving_ends_all_workers_even_in_the_middle_of_a_task(functions):
    with Workers(None, count=2) as workers:
        results = workers.run(functions.die_of_odd, [0, 2, 4])
        _, process = next(results)
        results.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_an_interruption_does_not_wait_for_the_tasks(functions, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    with Workers(None, count=2) as workers:
        monkeypatch.setattr("gatcluster.data.workers.wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            list(workers.run(functions.sleep, [1, 2, 3]))  # each would take a quarter of an hour


def test_a_script_without_a_guard_is_not_run_again_by_its_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import numpy as np, pathlib, sys
        from PIL import Image
        from gatcluster.data import cache
        from gatcluster.data.files import ImageFiles
        print("once")
        folder = pathlib.Path(sys.argv[1])
        paths = [folder / f"{i}.png" for i in range(4)]
        for path in paths:
            Image.new("L", (8, 8), 9).save(path)
        cache._FEW = 0
        print(cache.decoded_images(ImageFiles(paths, [p.name for p in paths]), None, None, "crop").pixels.shape)
        """)
    )
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["once", "(4, 8, 8, 1)"]


def test_workers_end_when_their_parent_is_killed(tmp_path, functions):
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent("""
        import os, signal, sys
        sys.path.insert(0, os.path.dirname(__file__))
        import functions_for_workers
        from gatcluster.data.workers import Workers
        with Workers(None, count=1) as workers:
            for _, process in workers.run(functions_for_workers.die_of_odd, [0]):
                print(process, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        """)
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    status = Path(f"/proc/{int(done.stdout)}/status")
    for _ in range(300):
        if not status.exists() or "zombie" in status.read_text():  # where nobody reaps orphans
            return
        time.sleep(0.1)
    pytest.fail("the worker goes on")
