"""The commands of `gatcluster data`: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatcluster.choices import Published
from gatcluster.cli_cache import cache_app
from gatcluster.console import AsJson, count_of_images, err, out, print_json

if TYPE_CHECKING:
    from gatcluster.data.imagenet import Subset
    from gatcluster.report.transfers import LiveTransfers, PlainTransfers

data_app = typer.Typer(no_args_is_help=True, help="Get the paper's data sets; look after the cache.")
data_app.add_typer(cache_app, name="cache")


Destination = Annotated[Path, typer.Argument(metavar="DEST", help="Folder to make it in.")]
Root = Annotated[Path, typer.Argument(metavar="IMAGENET_ROOT", help="Your ImageNet: train/n02056570/... and so on.")]
Copy = Annotated[bool, typer.Option("--copy", help="Copy the images instead of linking to them.")]


@data_app.command()
def download(
    name: Annotated[Published, typer.Argument(help="Which data set.")],
    destination: Destination,
    mirror: Annotated[
        str | None,
        typer.Option(
            envvar="GATCLUSTER_MIRROR",
            help="Address to use instead of the publisher's; the files lie in MIRROR/cifar10/ and so on.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a data set from its publisher, check it, unpack it. Run it again to resume a transfer that broke off."""
    from gatcluster.data.download import DATA_SETS
    from gatcluster.data.download import download as fetch

    with _transfers() as on_bytes:
        found = fetch(name, destination, mirror, on_bytes)
    if as_json:
        print_json({"name": name, "path": str(found.path), "fetched": list(found.fetched)})
        return
    _print(f"{name} -> {found.path}" if found.fetched else f"{name} is complete in {found.path}")
    _print(f"Cluster it   gatcluster fit {found.path} -k {DATA_SETS[name].n_classes}")


@data_app.command()
def imagenet10(root: Root, destination: Destination, copy: Copy = False, as_json: AsJson = False) -> None:
    """Make ImageNet-10 (10 classes, 13,000 images) of your own copy of ImageNet."""
    from gatcluster.data.imagenet import IMAGENET_10

    _make_subset(IMAGENET_10, root, destination, copy, as_json)


@data_app.command("imagenet-dog")
def imagenet_dog(root: Root, destination: Destination, copy: Copy = False, as_json: AsJson = False) -> None:
    """Make ImageNet-Dog (15 breeds, 19,500 images) of your own copy of ImageNet."""
    from gatcluster.data.imagenet import IMAGENET_DOG

    _make_subset(IMAGENET_DOG, root, destination, copy, as_json)


def _make_subset(subset: Subset, root: Path, destination: Path, copy: bool, as_json: bool) -> None:
    from gatcluster.data.imagenet import copy_subset, link_subset

    if copy:
        with _transfers() as on_bytes:
            n_images = copy_subset(subset, root, destination, on_bytes)
    else:
        n_images = link_subset(subset, root, destination)
    if n_images != subset.n_images:
        err.print(f"warning: {subset.title} of the papers has {count_of_images(subset.n_images)}, not {n_images:,}")
    n_classes = len(subset.synsets)
    if as_json:
        print_json({"path": str(destination), "n_images": n_images, "n_classes": n_classes, "copied": copy})
        return
    verb = "copied" if copy else "linked"
    _print(f"{subset.title}: {count_of_images(n_images)} of {n_classes} classes {verb} -> {destination}")
    _print(f"Cluster it   gatcluster fit {destination} -k {n_classes}")


def _transfers() -> LiveTransfers | PlainTransfers:
    from gatcluster.report.transfers import LiveTransfers, PlainTransfers

    return LiveTransfers(err) if err.is_terminal else PlainTransfers()


def _print(line: str) -> None:
    out.print(line, markup=False, soft_wrap=True)
