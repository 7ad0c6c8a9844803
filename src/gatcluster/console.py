"""What all commands print with."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console

# File names are printed as they are: nothing in them is an emoji code or a colour.
out = Console(highlight=False, emoji=False)
err = Console(stderr=True, highlight=False, emoji=False)

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else there.")
]


def print_json(tree: Any) -> None:
    """One object on one line."""
    print(json.dumps(tree, ensure_ascii=False))


def count_of_images(count: int) -> str:
    """A number of images, in words.

    >>> count_of_images(1), count_of_images(13000)
    ('1 image', '13,000 images')
    """
    return f"{count:,} image{'' if count == 1 else 's'}"
