"""SIGINT and SIGTERM while a network learns: the step is finished and the state kept before the process ends."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any

from gatcluster.errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Whether someone wants this process to end; a context manager that listens for it. For the main thread.

    A signal is obeyed at once, by raising :class:`~gatcluster.errors.Interrupted`, unless there is work that would be
    lost: then it is noted, and whoever keeps the work calls :meth:`obey` when it is safe. A second signal never waits.
    """

    def __init__(self) -> None:
        self.work_to_keep = False
        self._signal: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def is_wanted(self) -> bool:
        """Whether a signal came."""
        return self._signal is not None

    def obey(self) -> None:
        """End now."""
        assert self._signal is not None
        raise Interrupted(self._signal)

    def __enter__(self) -> Interruption:
        # A handler that was not set by Python (getsignal: None) could not be put back, and stays.
        ours = [number for number in _SIGNALS if signal.getsignal(number) is not None]
        self._before = {number: signal.signal(number, self._on_signal) for number in ours}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        second, self._signal = self._signal is not None, number
        if second or not self.work_to_keep:
            self.obey()
