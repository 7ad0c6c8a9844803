"""Worker processes that may die: a task that kills its worker is reported, and the others are done all the same.

Not multiprocessing: its children run the user's main script again (which fails without an ``if __name__`` guard), or
are forked from a process in which torch runs threads; and when one of them dies, it does not say over which task.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

from gatcluster.errors import InputError

Task = TypeVar("Task")
Result = TypeVar("Result")

_MOST_WORKERS = 32
# The parent's sys.path comes first: it may lead to gatcluster itself.
_START = """import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from gatcluster.data.workers import serve
serve()"""


_DECODING_BYTES = 64 << 20  # beside what a worker has from the beginning: a photo, before it is made small

_memory: ContextVar[int | None] = ContextVar("memory for workers", default=None)


@contextmanager
def workers_within(memory: int) -> Iterator[None]:
    """Start only as many worker processes, while this lasts, as fit into so many bytes together with this one."""
    token = _memory.set(memory)
    try:
        yield
    finally:
        _memory.reset(token)


def _resident_bytes(process: int) -> int:
    """Resident memory of a process; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


class NoWorkersError(Exception):
    """Worker processes cannot be started, or cannot load what they are to work on."""


class Workers:
    """Processes that all hold the same object and call functions on it; use it as a context manager.

    Args:
        shared: given to every call as its first argument. Must be picklable.
        count: how many processes; by default one for each CPU that this process may use.
    """

    def __init__(self, shared: Any, count: int | None = None) -> None:
        self._count = count or min(_MOST_WORKERS, usable_cpus())
        try:
            self._greeting = pickle.dumps(sys.path) + pickle.dumps(shared)
        except Exception as error:  # what an object's own pickling raises
            raise NoWorkersError(str(error)) from error
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._all: list[_Worker] = []
        self._closed = False
        memory = _memory.get()
        if memory is not None:
            self._count = min(self._count, self._most_within(memory))
        for _ in range(self._count - self._idle.qsize()):  # all at once; they are waited for when first needed
            self._idle.put(self._started())

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        for worker in self._all:
            worker.end()

    def run(
        self, function: Callable[[Any, Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[Task, Result | None]]:
        """Call ``function(shared, task)`` for every task; yields tasks and results as they come, None for a death.

        Only a few results are held at a time, however many tasks there are.
        """
        remaining = iter(tasks)
        threads = ThreadPoolExecutor(self._count)
        running: dict[Future[Result | None], Task] = {}
        try:
            while True:
                for task in islice(remaining, 2 * self._count - len(running)):
                    running[threads.submit(self._call, function, task)] = task
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except BaseException:
            self._closed = True
            for worker in self._all:
                worker.end()  # threads that wait for one wake up
            raise
        finally:
            threads.shutdown(cancel_futures=True)

    def _call(self, function: Callable[[Any, Task], Result], task: Task) -> Result | None:
        try:
            worker = self._idle.get_nowait()
        except Empty:  # one died
            worker = self._started()
        worker.await_readiness(self._greeting)
        try:
            result: Result = worker.call(function, task)
        except _DiedError:
            worker.end()
            return None
        self._idle.put(worker)
        return result

    def _most_within(self, memory: int) -> int:
        """How many workers fit beside this process: the first is measured, once it has loaded what it needs."""
        first = self._started()
        first.await_readiness(self._greeting)
        self._idle.put(first)
        left = memory - _resident_bytes(os.getpid())
        return max(1, int(left // (_resident_bytes(first.number) + _DECODING_BYTES)))

    def _started(self) -> _Worker:
        if self._closed:
            raise NoWorkersError("the workers were sent away")
        worker = _Worker()
        self._all.append(worker)
        return worker


class _DiedError(Exception):
    """A worker ended before it answered."""


class _Worker:
    """One process, from this side."""

    def __init__(self) -> None:
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # libraries for images write warnings there
            )
        except (OSError, TypeError) as error:  # no executable is known, or no more processes are allowed
            raise NoWorkersError(str(error)) from error
        self._ready = False

    @property
    def number(self) -> int:
        """By which the system knows the process."""
        return self._process.pid

    def await_readiness(self, greeting: bytes) -> None:
        """Hand over what is shared, once."""
        if self._ready:
            return
        try:
            self._exchange(greeting)
        except _DiedError:
            raise NoWorkersError("a worker process did not start") from None
        self._ready = True

    def call(self, function: Callable[[Any, Any], Any], task: Any) -> Any:
        """The result of ``function(shared, task)``; what it raises is raised here."""
        succeeded, result = self._exchange(pickle.dumps((function, task)))
        if not succeeded:
            raise result
        return result

    def end(self) -> None:
        """Kill the process; it holds nothing that could be lost."""
        self._process.kill()
        self._process.wait()

    def _exchange(self, message: bytes) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(message)
            self._process.stdin.flush()
            return pickle.load(self._process.stdout)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            raise _DiedError from None


def serve() -> None:
    """What a worker process does: take what is shared, then call and answer until its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends its workers
    tasks = sys.stdin.buffer
    # Answers go where standard output was; what a library prints goes nowhere.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    shared = pickle.load(tasks)
    _answer(answers, True)
    while True:
        try:
            function, task = pickle.load(tasks)
        except EOFError:
            return
        try:
            answer = (True, function(shared, task))
        except (InputError, MemoryError) as error:
            answer = (False, error)
        try:
            _answer(answers, answer)
        except BrokenPipeError:
            return


def _answer(stream: Any, answer: Any) -> None:
    pickle.dump(answer, stream, protocol=pickle.HIGHEST_PROTOCOL)
    stream.flush()


def usable_cpus() -> int:
    """How many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
