"""What `gatcluster fit` needs so that it can be interrupted and resumed, and does not fail in silence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatcluster.console import err
from gatcluster.errors import InputError, Interrupted
from gatcluster.runs.layout import RESUME

if TYPE_CHECKING:
    from gatcluster.runs.interruption import Interruption

Resume = Annotated[
    Path | None,
    typer.Option("--resume", metavar="RUN", help="Go on with a run that was interrupted; give nothing else."),
]
CheckpointMinutes = Annotated[
    float | None, typer.Option(help="Keep the state of the training that often (default: 2).", min=0)
]

NoWatch = Annotated[
    bool,
    typer.Option("--no-watch", help="Take steps that are not finite, and let empty clusters be; warn all the same."),
]
Strict = Annotated[bool, typer.Option("--strict", help="End with exit code 3 if a cluster is empty at the end.")]

_WITH_RESUME = {"resume", "checkpoint_minutes", "as_json", "strict"}


def check_only_resume(context: typer.Context) -> None:
    """Refuse choices beside ``--resume``: they are those of the interrupted run."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name not in _WITH_RESUME and source is not None and source.name == "COMMANDLINE":
            shown = name.upper() if name == "source" else max(parameter.opts, key=len)
            raise InputError(f"--resume takes everything from the interrupted run: leave out {shown}")


@contextmanager
def interruptible(run: Path) -> Iterator[Interruption]:
    """On SIGINT and SIGTERM, end when the work is kept, with a line that says how to go on."""
    from gatcluster.runs.interruption import Interruption

    try:
        with Interruption() as interruption:
            yield interruption
    except Interrupted as stop:
        kept = (run / RESUME).is_file()
        hint = f": `gatcluster fit --resume {run}` goes on from here" if kept else ""
        err.print(f"error: interrupted{hint}", markup=False, soft_wrap=True)
        raise SystemExit(stop.exit_code) from None
