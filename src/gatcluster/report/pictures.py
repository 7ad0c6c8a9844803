"""Finding the images of a run again, to show them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gatcluster.data.cache import OnProgress
from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError
from gatcluster.prepare import read_like
from gatcluster.runs.folder import RunFolder


@dataclass(frozen=True)
class Pictures:
    """The images of a run: where each of its N images is among those that were read."""

    images: ImageSet
    places: NDArray[np.int64]  # (N,), -1 where an image is no longer there
    folder: Path | None = None  # below which the image files lie by their names, if they are files


def all_pictures(images: ImageSet, folder: Path | None = None) -> Pictures:
    """Images that are just those of the run, in its order."""
    return Pictures(images, np.arange(len(images)), folder)


def pictures_of(run: RunFolder, on_progress: OnProgress | None = None) -> tuple[Pictures | None, str]:
    """The images of a run from where they came from, and what is missing, in words.

    There are none where the source is gone, or holds no image of the run any more.
    """
    source, names = run.config()["source"], run.clusters()[0]
    if source is None:
        return None, "The images came from Python and are not kept with the run, so none are shown."
    try:
        images = read_like(Path(source), run.settings().images, on_progress, run.source_format())
    except InputError as error:
        return None, f"The images could not be read again, so none are shown: {error}."
    places = places_of(names, images.names)
    missing = int((places < 0).sum())
    if missing == len(names):
        return None, f"None of the images is in {source} any more, so none are shown."
    note = (
        f"{missing:,} of the {len(names):,} images are no longer in {source}; they are shown blank." if missing else ""
    )
    return Pictures(images, places, Path(source)), note


def places_of(names: Sequence[str], found: Sequence[str]) -> NDArray[np.int64]:
    """Where each name is among those found; -1 where it is not. Equal names keep their order.

    >>> places_of(["b", "a", "b", "c"], ["a", "b", "b"]).tolist()
    [1, 0, 2, -1]
    """
    by_name: dict[str, deque[int]] = defaultdict(deque)
    for place, name in enumerate(found):
        by_name[name].append(place)
    places = [by_name[name].popleft() if by_name.get(name) else -1 for name in names]
    return np.array(places, dtype=np.int64)
