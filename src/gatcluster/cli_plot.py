"""The command `gatcluster plot`: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gatcluster.choices import PlotKind
from gatcluster.console import AsJson, out, print_json
from gatcluster.errors import InputError

_SUFFIXES = ("png", "svg", "pdf")


def plot(
    run: Annotated[Path, typer.Argument(help="A run folder, as `gatcluster fit` writes it.")],
    kind: Annotated[
        PlotKind,
        typer.Argument(
            help="map: all images between the clusters. curves: the training. sizes: images of each cluster. "
            "grid: a column of images for each cluster. attention: where the network looked."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A .png, .svg or .pdf file; by default RUN-KIND.png.")
    ] = None,
    images: Annotated[int, typer.Option(min=1, max=100, help="How many images of each cluster a grid shows.")] = 8,
    dpi: Annotated[int, typer.Option(min=50, max=1200, help="Pixels per inch of a png, or of images in it.")] = 300,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier call wrote there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw a figure of a run, good enough for a paper."""
    target = output or Path(f"{run.resolve().name}-{kind}.png")
    suffix = target.suffix.lower().removeprefix(".")
    if suffix not in _SUFFIXES:
        raise InputError(f"cannot write {target}: a figure is a .png, .svg or .pdf file")
    if target.exists() and not overwrite:
        raise InputError(f"{target} exists: give another file with -o, or --overwrite")
    from gatcluster.report.figures import save_figure
    from gatcluster.report.plots import plot_run
    from gatcluster.runs.files import write_bytes
    from gatcluster.runs.folder import load_run

    content = save_figure(plot_run(load_run(run), kind, images), suffix, dpi)
    try:
        write_bytes(target, content)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from None
    if as_json:
        print_json({"output": str(target), "kind": kind, "bytes": len(content)})
    else:
        out.print(f"{kind} -> {target}", markup=False, soft_wrap=True)
