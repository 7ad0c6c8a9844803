"""NumPy's array files: ``.npy`` and ``.npz``."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from gatcluster.data.stored import StoredImages
from gatcluster.errors import InputError

_IMAGES = ("images", "x")
_LABELS = ("labels", "label", "y")


def array_images(path: Path) -> StoredImages:
    """The array of a ``.npy`` file, memory-mapped, or that of an ``.npz`` which holds only one or is named for it."""
    array = _load(path, _IMAGES)
    if array.ndim == 0:
        raise InputError(f"{path} holds a single value, not an array of images")
    return StoredImages([array], [str(number) for number in range(len(array))])


def array_labels(path: Path) -> list[tuple[str, str | None]]:
    """The labels beside the images in an ``.npz`` file: the array named "labels" or "y"."""
    if path.suffix.lower() == ".npy":
        raise InputError(f"{path} carries no labels: give them as a CSV file with columns path and label")
    labels = _load(path, _LABELS)
    if labels.ndim != 1:
        raise InputError(f"the labels in {path} have shape {labels.shape}: there must be one for each image")
    return [(str(number), str(label)) for number, label in enumerate(labels.tolist())]


def _load(path: Path, wanted: tuple[str, ...]) -> NDArray[Any]:
    """An array of the file by one of the names that are wanted; never a pickle."""
    try:
        loaded = np.load(path, mmap_mode="r" if path.suffix.lower() == ".npy" else None, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            keys = [key for key in loaded.files if key.lower() in wanted]
            if wanted == _IMAGES and not keys:
                keys = loaded.files
            if not keys:
                raise InputError(f"{path} holds no array named '{wanted[0]}', only: {', '.join(loaded.files)}")
            if len(keys) > 1:
                listed = ", ".join(keys)
                raise InputError(f"{path} holds {len(keys)} arrays ({listed}): name one of them '{wanted[0]}'")
            array: NDArray[Any] = loaded[keys[0]]
            return array
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error, NotImplementedError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {path} as an array: {error}") from None
