"""STL-10 as published, in its binary version: https://cs.stanford.edu/~acoates/stl10.

Training and test images are 13,000, which is what work on clustering uses. The 100,000 unlabelled images, of other
classes too, are read on request.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gatcluster.data.names import numbered_names
from gatcluster.data.stored import StoredImages
from gatcluster.errors import InputError

_SHAPE: Final = (3, 96, 96)  # planes of red, green and blue, each column by column
_PIXELS: Final = 3 * 96 * 96
_LABELLED: Final = ("train", "test")
_UNLABELLED: Final = "unlabeled"  # as its publisher spells it


def stl10_images(path: Path) -> StoredImages:
    """The training and the test images, memory-mapped."""
    return _images(_files(path, _LABELLED))


def stl10_all_images(path: Path) -> StoredImages:
    """The training, the test and the unlabelled images, memory-mapped."""
    if path.is_dir() and not (path / f"{_UNLABELLED}_X.bin").is_file():
        raise InputError(f"no unlabelled images in {path}: it holds no file {_UNLABELLED}_X.bin")
    return _images(_files(path, (*_LABELLED, _UNLABELLED)))


def stl10_labels(path: Path) -> list[tuple[str, str | None]]:
    """The ten classes, 1 to 10, of the training and the test images."""
    labels: list[tuple[str, str | None]] = []
    for file in _files(path, _LABELLED):
        count = file.stat().st_size // _PIXELS
        numbers = file.with_name(file.name.replace("_X", "_y"))
        if not numbers.is_file() or numbers.stat().st_size != count:
            raise InputError(f"no labels for {file}: {numbers} is missing, or has not one byte for each image")
        labels += zip(numbered_names(_prefix(file), count), map(str, numbers.read_bytes()), strict=True)
    return labels


def stl10_all_labels(path: Path) -> list[tuple[str, str | None]]:
    """As :func:`stl10_labels`; the unlabelled images have None."""
    files = _files(path, (_UNLABELLED,))
    unlabelled = [name for file in files for name in numbered_names(_prefix(file), file.stat().st_size // _PIXELS)]
    return [*stl10_labels(path), *((name, None) for name in unlabelled)]


def _files(path: Path, names: tuple[str, ...]) -> list[Path]:
    if path.is_file():
        return [path]
    found = [file for name in names if (file := path / f"{name}_X.bin").is_file()]
    if not found:
        raise InputError(f"no STL-10 in {path}: it holds no file {names[0]}_X.bin")
    return found


def _images(files: list[Path]) -> StoredImages:
    parts = [_mapped(file) for file in files]
    names = [n for file, part in zip(files, parts, strict=True) for n in numbered_names(_prefix(file), len(part))]
    return StoredImages(parts, names)


def _mapped(file: Path) -> NDArray[np.uint8]:
    """A file of images as (N, 96, 96, 3)."""
    size = file.stat().st_size
    if size == 0 or size % _PIXELS:
        raise InputError(f"{file} is not a whole STL-10 file: {size} bytes are no multiple of {_PIXELS}; get it again")
    planes = np.memmap(file, dtype=np.uint8, mode="r", shape=(size // _PIXELS, *_SHAPE))
    return np.transpose(planes, (0, 3, 2, 1))


def _prefix(file: Path) -> str:
    return file.stem.removesuffix("_X")
