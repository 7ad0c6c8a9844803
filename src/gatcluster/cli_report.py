"""The command `gatcluster report`: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gatcluster.console import AsJson, err, out, print_json

NoReport = Annotated[bool, typer.Option("--no-report", help="Write no web page; `gatcluster report` can do it later.")]


def report(
    run: Annotated[Path, typer.Argument(help="A run folder, as `gatcluster fit` writes it.")],
    as_json: AsJson = False,
) -> None:
    """Write the web page of a run: its clusters, a map of all images, the training. It opens from disk."""
    from gatcluster.report.progress import LiveProgress, PlainProgress
    from gatcluster.workflow import report_run

    with LiveProgress(err) if err.is_terminal else PlainProgress() as progress:
        page, note = report_run(run, progress)
    if note:
        err.print(f"warning: {note}", markup=False, soft_wrap=True)
    if as_json:
        print_json({"report": str(page), "note": note})
    else:
        out.print(f"Open in a browser: {page}", markup=False, soft_wrap=True)
