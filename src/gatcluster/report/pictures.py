"""Finding the images of a run again, to show them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gatcluster.data.cache import OnProgress
from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError
from gatcluster.prepare import read_like
from gatcluster.runs.folder import RunFolder
from gatcluster.runs.source import positions_among, source_path


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
    path = source_path(run, source)
    try:
        images = read_like(path, run.settings().images, on_progress, run.source_format())
    except InputError as error:
        return None, f"The images could not be read again, so none are shown: {error}."
    places = positions_among(images.names, names)
    missing = int((places < 0).sum())
    if missing == len(names):
        return None, f"None of the images is in {path} any more, so none are shown."
    note = f"{missing:,} of the {len(names):,} images are no longer in {path}; they are shown blank." if missing else ""
    return Pictures(images, places, path), note
