"""From what a user names (a folder, files, an array file, an array) to images."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from gatcluster.config import Resize
from gatcluster.data.arrays import images_from_array
from gatcluster.data.cache import OnProgress, decoded_images
from gatcluster.data.files import ImageFiles, find_image_files
from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError


def names_files(source: Any) -> bool:
    """Whether ``source`` is a path or a list of paths, rather than an array."""
    if isinstance(source, (str, os.PathLike)):
        return True
    return isinstance(source, Sequence) and len(source) > 0 and isinstance(source[0], (str, os.PathLike))


def read_images(
    source: Any,
    size: tuple[int, int] | None = None,
    channels: int | None = None,
    resize: Resize = "crop",
    value_range: tuple[float, float] | None = None,
    on_progress: OnProgress | None = None,
) -> ImageSet:
    """Images of a folder, of a list of files, of a ``.npy`` or ``.npz`` file, or of an array.

    The order is that of the list or array; for a folder, that of the sorted paths, whatever the file system says.
    """
    if not names_files(source):
        return images_from_array(source, size, value_range)
    if not isinstance(source, (str, os.PathLike)):
        paths = [Path(path) for path in source]
        for path in paths:
            if not path.is_file():
                raise InputError(f"no such file: {path}")
        files = ImageFiles(paths, [str(path) for path in paths])
        return decoded_images(files, size, channels, resize, on_progress)
    path = Path(source)
    if not path.exists():
        raise InputError(f"no such file or folder: {path}")
    if path.is_dir():
        names = find_image_files(path)
        if not names:
            raise InputError(
                f"no images in {path}: it holds no file that ends in .jpg, .png, .webp, .tif, .bmp or .gif"
            )
        files = ImageFiles([path / name for name in names], names)
        return decoded_images(files, size, channels, resize, on_progress)
    if path.suffix in (".npy", ".npz"):
        return images_from_array(_load_array(path), size, value_range)
    raise InputError(f"cannot read {path}: give a folder of images, or an array file (.npy, .npz)")


def _load_array(path: Path) -> Any:
    """The array of a ``.npy`` file, or the only (or the one named "images" or "x") of an ``.npz``; never a pickle."""
    try:
        loaded = np.load(path, mmap_mode="r" if path.suffix == ".npy" else None, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            wanted = [key for key in loaded.files if key.lower() in ("images", "x")] or loaded.files
            if len(wanted) != 1:
                raise InputError(f"{path} holds {len(wanted)} arrays ({', '.join(wanted)}): name one of them 'images'")
            return loaded[wanted[0]]
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {path} as an array: {error}") from None
