"""What the two commands have in common."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from comparison.sets import SETS, find_source


def check_sets(names: Sequence[str], data: Path | None) -> None:
    """Refuse sets that are not there before hours are spent on others."""
    for name in names:
        if SETS[name].folder is not None:
            find_source(SETS[name], data)


def end_with_measurement() -> None:
    """Let SIGTERM end the program as Ctrl-C does, so that no measurement outlives it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def written_command(arguments: Sequence[str] | None = None) -> str:
    """The command as one would write it down: with DIR for where the data happen to be, without where results go.

    >>> written_command(["benchmarks/quality.py", "--data", "/home/me/data", "--results", "/tmp/x", "--seeds", "0"])
    'python benchmarks/quality.py --data DIR --seeds 0'
    """
    given = list(sys.argv if arguments is None else arguments)
    written = ["python", f"benchmarks/{Path(given[0]).name}"]
    after = None
    for argument in given[1:]:
        name, separator, _ = argument.partition("=")
        if after == "--data":
            written.append("DIR")
        elif name == "--data" and separator:
            written.append("--data=DIR")
        elif after not in ("--results", "--page") and name not in ("--results", "--page", "--again"):
            written.append(shlex.quote(argument))
        after = argument
    return " ".join(written)
