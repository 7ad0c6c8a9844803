"""The command `gatcluster export`: parse, call, print."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from gatcluster.choices import ExportKind
from gatcluster.console import AsJson, count_of_images, err, out, print_json
from gatcluster.errors import InputError

if TYPE_CHECKING:
    from gatcluster.runs.export import Exported

_WAYS = {
    "copies": "copies of the files",
    "links": "symbolic links to the files",
    "stored": "the images as they lie in the source",
    "png": "the source holds pixels, not files: they were written as PNG",
}


def export(
    run: Annotated[Path, typer.Argument(help="A run folder, as `gatcluster fit` writes it.")],
    to: Annotated[
        ExportKind,
        typer.Option(
            help="csv, parquet: a table. folders: a folder of copies for each cluster. links: the same with symbolic "
            "links. zip: an archive of the folders."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File or folder to make; by default RUN's name and the kind.")
    ] = None,
    min_confidence: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Leave out images of which the network is less sure.")
    ] = 0.0,
    curation: Annotated[
        Path | None,
        typer.Option(help="A curation.json, as the web page of the run writes it: names, merges, mistakes."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the clusters of a run as a table, as folders of images, or as an archive. Overwrites nothing."""
    import os

    if not run.is_dir():
        raise InputError(f"{run} is not a run folder: there is no such folder")
    suffix = {"csv": ".csv", "parquet": ".parquet", "zip": ".zip"}.get(to)
    target = output or Path(f"{run.resolve().name}-{to}" if suffix is None else f"{run.resolve().name}{suffix}")
    if os.path.lexists(target):
        raise InputError(f"{target} exists, and an export overwrites nothing: give another destination with -o")
    from gatcluster.runs.curation import no_curation, read_curation
    from gatcluster.runs.export import export_run
    from gatcluster.runs.folder import load_run

    folder = load_run(run)
    n_clusters = folder.settings().n_clusters
    corrections = no_curation(n_clusters)
    if curation is not None:
        corrections = read_curation(curation, n_clusters, folder.clusters()[0])
    result = export_run(folder, to, target, corrections, min_confidence)
    for note in [*corrections.notes, *_missing_notes(result)]:
        err.print(f"warning: {note}", markup=False, soft_wrap=True)
    if as_json:
        print_json(asdict(result))
    else:
        _print_exported(result)


def _missing_notes(result: Exported) -> list[str]:
    if not result.missing:
        return []
    return [
        f"{count_of_images(len(result.missing))} could not be exported, because the source no longer has them, "
        f"the first of them {result.missing[0]}"
    ]


def _print_exported(result: Exported) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_row("[dim]clusters[/]", "[dim]name[/]", "[dim]images[/]")
    for group in result.groups:
        clusters = " + ".join(str(cluster) for cluster in group.clusters)
        table.add_row(f"{clusters:>8}", escape(_printable(group.name)), f"{group.n_images:>6,}")
    out.print(table)
    left_out = [
        f"{count:,} {why}"
        for count, why in (
            (result.left_out_unsure, "below the confidence asked for"),
            (result.left_out_wrong, "marked wrong"),
            (len(result.missing), "no longer there"),
        )
        if count
    ]
    if left_out:
        out.print(f"[dim]left out: {', '.join(left_out)}[/]")
    if result.written_as is not None:
        out.print(f"[dim]{_WAYS[result.written_as]}[/]")
    out.print(f"{count_of_images(result.n_images)} -> {_printable(result.destination)}", markup=False, soft_wrap=True)


def _printable(text: str) -> str:
    """Text without what a terminal would act on."""
    return "".join(character if character.isprintable() else "�" for character in text)
