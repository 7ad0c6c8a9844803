"""The commands of `gatcluster data cache`: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatcluster.console import AsJson, out, print_json
from gatcluster.errors import InputError

if TYPE_CHECKING:
    from gatcluster.data.store import Listed, Store

cache_app = typer.Typer(help="List the decoded images that are kept, with their size and source; or remove them.")

Folder = Annotated[
    Path | None,
    typer.Option(
        "--cache", metavar="DIR", help="The cache folder (default: GATCLUSTER_CACHE, or ~/.cache/gatcluster)."
    ),
]


@cache_app.callback(invoke_without_command=True)
def show(context: typer.Context, cache: Folder = None, as_json: AsJson = False) -> None:
    """List the decoded images that are kept, with their size and source."""
    context.obj = cache
    if context.invoked_subcommand is not None:
        return
    from gatcluster.data.store import megabytes

    store = _store(cache)
    entries = store.entries()
    n_bytes = sum(entry.n_bytes for entry in entries)
    if as_json:
        listed = [
            {
                "path": str(entry.path),
                "source": entry.source,
                "n_images": entry.n_images,
                "size": entry.form and list(entry.form.size),
                "channels": entry.form and entry.form.channels,
                "bytes": entry.n_bytes,
            }
            for entry in entries
        ]
        print_json({"folder": str(store.folder), "bytes": n_bytes, "entries": listed})
        return
    for entry in entries:
        line = f"{megabytes(entry.n_bytes):>9}  {_described(entry):<38}  {entry.source}"
        out.print(line, markup=False, soft_wrap=True)
    text = f"{megabytes(n_bytes)} in" if entries else "nothing in"
    out.print(f"{text} {store.folder}", markup=False, soft_wrap=True)


@cache_app.command()
def clear(context: typer.Context, cache: Folder = None, as_json: AsJson = False) -> None:
    """Remove the decoded images that are kept, and nothing else. They are decoded anew when they are needed."""
    from gatcluster.data.store import megabytes

    store = _store(cache or context.obj)
    freed, kept = store.clear()
    if as_json:
        print_json({"folder": str(store.folder), "bytes_freed": freed, "bytes_kept": kept})
        return
    text = f"{megabytes(freed)} freed" if freed else "nothing to remove"
    still = f"; {megabytes(kept)} that another process is decoding stay" if kept else ""
    out.print(f"{text} in {store.folder}{still}", markup=False, soft_wrap=True)


def _store(folder: Path | None) -> Store:
    from gatcluster.data.store import Store, default_folder

    folder = folder or default_folder()
    if folder is None:
        raise InputError("there is no cache: GATCLUSTER_CACHE is off; name a folder with --cache")
    return Store(folder)


def _described(entry: Listed) -> str:
    if entry.form is None:
        return "damaged"
    count = "unfinished" if entry.n_images is None else f"{entry.n_images:,} images"
    height, width = entry.form.size
    return f"{count}, {height}x{width}, {'colour' if entry.form.channels == 3 else 'grey'}, {entry.form.resize}"
