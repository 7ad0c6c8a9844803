"""A map-style torch ``Dataset``: its items are images, or tuples or dictionaries with an image in them.

Whatever else an item holds, such as a label, is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from gatcluster.choices import Resize
from gatcluster.data.columns import IMAGE_COLUMNS
from gatcluster.data.decode import DEFAULT_SIDE, Form, shaped
from gatcluster.data.images import ImageSet, Skipped
from gatcluster.errors import InputError

_KEYS: Final = (*IMAGE_COLUMNS, "pixel_values")
_LARGEST_NATURAL_SIDE: Final = 96


def is_dataset(source: Any) -> bool:
    """Whether ``source`` is a torch ``Dataset``."""
    return isinstance(source, Dataset)


def images_from_dataset(
    dataset: Any,
    size: tuple[int, int] | None,
    channels: int | None,
    resize: Resize,
    on_progress: Callable[[int, int], None] | None = None,
) -> ImageSet:
    """All images of a dataset, as bytes, in memory; items that raise an error are listed in ``skipped``.

    Args:
        dataset: its images are PIL images, arrays (H, W) or (H, W, C), or tensors (H, W) or (C, H, W), of bytes or of
            floats in [0, 1].
        size: height and width; ``None`` takes that of the first image if it is small, else 64x64.
        channels: 1 or 3; ``None`` takes those of the first image.
        resize: how images of another size reach it.
        on_progress: called with (images read, images in all).
    """
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise InputError("a dataset must have a length and items: give a map-style torch Dataset, not an iterable one")
    count = len(dataset)
    pixels: NDArray[np.uint8] | None = None
    kept: list[str] = []
    skipped: list[Skipped] = []
    for index in range(count):
        try:
            item = dataset[index]
        except Exception as error:  # the user's own code may raise anything
            skipped.append(Skipped(str(index), " ".join(str(error).split()) or type(error).__name__))
        else:
            image = _as_image(_image_of(item, index), index)
            if pixels is None:
                form = _form(image, size, channels, resize)
                pixels = np.empty((count, *form.size, form.channels), dtype=np.uint8)
            pixels[len(kept)] = np.asarray(shaped(image, form)).reshape(*form.size, form.channels)
            kept.append(str(index))
        if on_progress is not None:
            on_progress(index + 1, count)
    if pixels is None:
        reason = f"; the first error: {skipped[0].reason}" if skipped else ""
        raise InputError(f"there is nothing to cluster: none of the dataset's {count} items could be read{reason}")
    return ImageSet(pixels[: len(kept)], kept, tuple(skipped))


def _form(first: Image.Image, size: tuple[int, int] | None, channels: int | None, resize: Resize) -> Form:
    own = (first.height, first.width)
    size = size or (own if max(own) <= _LARGEST_NATURAL_SIDE else (DEFAULT_SIDE, DEFAULT_SIDE))
    return Form(size, channels or (1 if first.mode in ("1", "L", "I;16", "I", "F", "LA") else 3), resize)


def _image_of(item: Any, index: int) -> Any:
    """The image in an item."""
    if isinstance(item, (tuple, list)) and item:
        return item[0]
    if isinstance(item, Mapping):
        for key in _KEYS:
            if key in item:
                return item[key]
        listed = ", ".join(map(str, item))
        raise InputError(f"item {index} of the dataset has no image: name one of its entries ({listed}) 'image'")
    return item


def _as_image(value: Any, index: int) -> Image.Image:
    """A PIL image from an array, a tensor or a PIL image."""
    if isinstance(value, Image.Image):
        return value
    is_tensor = isinstance(value, Tensor)
    array = value.detach().cpu().to(_plain_type(value)).numpy() if is_tensor else np.asarray(value)
    if is_tensor and array.ndim == 3:
        array = np.moveaxis(array, 0, 2)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if array.ndim != 2 and array.shape[2:] != (3,):
        raise InputError(
            f"item {index} of the dataset is no image: {type(value).__name__} of shape {tuple(np.shape(value))}; "
            "give grey or RGB images"
        )
    return Image.fromarray(_as_bytes(array, index))


def _plain_type(tensor: Tensor) -> torch.dtype:
    return torch.float32 if tensor.dtype == torch.bfloat16 else tensor.dtype


def _as_bytes(array: NDArray[Any], index: int) -> NDArray[np.uint8]:
    """Floats in [0, 1] as bytes, which is what they nearly always were; bytes stay."""
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    white = 255 if np.issubdtype(array.dtype, np.integer) else 1
    if array.dtype == bool:
        array = array.astype(np.float32)
    if not (np.issubdtype(array.dtype, np.number) and array.size and array.min() >= 0 and array.max() <= white):
        raise InputError(
            f"the image of item {index} must hold floats in [0, 1] or integers in 0..255: "
            "leave normalisation out of the dataset's transform"
        )
    scaled: NDArray[np.uint8] = (array * (255 / white)).round().astype(np.uint8)
    return scaled
