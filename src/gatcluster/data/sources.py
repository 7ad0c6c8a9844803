"""From what a user names (a folder, files, a published data set, an array, a dataset) to images."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from gatcluster.choices import Format, Resize
from gatcluster.data.arrays import images_from_array
from gatcluster.data.cache import OnProgress, decoded_images
from gatcluster.data.detect import located_format
from gatcluster.data.encoded import EncodedImages
from gatcluster.data.formats.array_files import array_images
from gatcluster.data.formats.cifar import cifar10_images, cifar100_images
from gatcluster.data.formats.folder import folder_images
from gatcluster.data.formats.huggingface import huggingface_images
from gatcluster.data.formats.idx import idx_images
from gatcluster.data.formats.listing import csv_images, glob_images, listed_images, text_list_images
from gatcluster.data.formats.parquet import parquet_images
from gatcluster.data.formats.stl10 import stl10_all_images, stl10_images
from gatcluster.data.formats.torch_dataset import images_from_dataset, is_dataset
from gatcluster.data.formats.webdataset import tar_images
from gatcluster.data.images import ImageSet
from gatcluster.data.stored import StoredImages, images_from_stored
from gatcluster.errors import InputError

Found = TypeVar("Found", EncodedImages, StoredImages)

# How the images of each format are found: encoded ones, which have to be decoded, and plain pixels.
_ENCODED: Final[dict[Format, Callable[[Path], EncodedImages]]] = {
    "folder": folder_images,
    "glob": glob_images,
    "list": text_list_images,
    "csv": csv_images,
    "parquet": parquet_images,
    "huggingface": huggingface_images,
    "webdataset": tar_images,
}
_STORED: Final[dict[Format, Callable[[Path], StoredImages]]] = {
    "numpy": array_images,
    "cifar10": cifar10_images,
    "cifar100": cifar100_images,
    "cifar100-20": cifar100_images,
    "stl10": stl10_images,
    "stl10-unlabelled": stl10_all_images,
    "idx": idx_images,
}


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
    format: Format | None = None,
) -> ImageSet:
    """Images of a path (in any format), of a list of files, of a torch ``Dataset``, or of an array.

    The order is that of the list, file or array; for a folder, that of the sorted paths, whatever the file system says.
    Labels that a source may carry are not read.

    Args:
        source: what a user names.
        size: height and width; by default arrays keep theirs, and files theirs if it is common and small.
        channels: 1 or 3, for encoded images; by default 1 if all are grey.
        resize: how encoded images reach the size.
        value_range: what stands for black and white in one-row images.
        on_progress: called with (images read, images in all).
        format: of a path; by default it is told from what is there.
    """
    if is_dataset(source):
        return images_from_dataset(source, size, channels, resize, on_progress)
    if not names_files(source):
        return images_from_array(source, size, value_range)
    if not isinstance(source, (str, os.PathLike)):
        return decoded_images(listed_images(source), size, channels, resize, on_progress)
    found = find_images(Path(source), format)
    if isinstance(found, StoredImages):
        return images_from_stored(found, size, value_range)
    return decoded_images(found, size, channels, resize, on_progress)


def find_images(source: Path, format: Format | None = None) -> EncodedImages | StoredImages:
    """What lies at a path, before anything of it is decoded; without a format it is told from what is there."""
    path, found = located_format(source, format)
    if found in _STORED:
        return _found(_STORED[found], path)
    return _found(_ENCODED[found], path)


def _found(find: Callable[[Path], Found], path: Path) -> Found:
    """What a format finds at a path; what the system refuses on the way is an error that names the path."""
    try:
        return find(path)
    except OSError as error:
        raise InputError(f"cannot read {error.filename or path}: {error.strerror or error}") from None
