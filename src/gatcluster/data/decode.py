"""Decoding images to one size and one number of channels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from gatcluster.config import Resize
from gatcluster.data.encoded import EncodedImages
from gatcluster.data.images import ImageSet, Skipped
from gatcluster.errors import InputError

# Photographs are brought to this side unless the user says otherwise: what two CPU cores can learn from in minutes.
DEFAULT_SIDE = 64
# Images that are already all of one size, and not larger than this, keep it.
_LARGEST_NATURAL_SIDE = 96

_GREY_MODES = frozenset({"1", "L", "I", "F", "I;16", "I;16B", "I;16L", "LA"})

OnProgress = Callable[[int, int], None]


def decoded_images(
    encoded: EncodedImages,
    size: tuple[int, int] | None,
    channels: int | None,
    resize: Resize,
    on_progress: OnProgress | None = None,
) -> ImageSet:
    """Decode all images to one size; those that cannot be read are listed in ``skipped``.

    Args:
        encoded: the images.
        size: height and width; ``None`` takes the images' own size where it is common and small, else 64x64.
        channels: 1 or 3; ``None`` takes 1 where all images are grey.
        resize: "crop" cuts the longer side to the middle, "squash" keeps all of it and changes the shape.
        on_progress: called with (images read, images in all).
    """
    if size is None or channels is None:
        natural_size, natural_channels = natural_form(encoded)
        size = size or natural_size
        channels = channels or natural_channels
    names = encoded.names
    pixels = np.empty((len(names), *size, channels), dtype=np.uint8)
    kept: list[str] = []
    skipped: list[Skipped] = []
    for index, name in enumerate(names):
        try:
            with encoded.open(index) as file:
                pixels[len(kept)] = decode(file, size, channels, resize)
            kept.append(name)
        except Exception as error:  # on a damaged file Pillow's decoders may raise anything
            skipped.append(Skipped(name, _reason(error)))
        if on_progress is not None:
            on_progress(index + 1, len(names))
    if not kept:
        raise InputError(
            f"none of the {len(names)} images could be read; the first, {skipped[0].name}: {skipped[0].reason}"
        )
    return ImageSet(pixels[: len(kept)], kept, tuple(skipped))


def decode(file: Path | IO[bytes], size: tuple[int, int], channels: int, resize: Resize) -> NDArray[np.uint8]:
    """One encoded image as (H, W, channels): upright, without transparency, at ``size``."""
    height, width = size
    mode = "RGB" if channels == 3 else "L"
    with _strict_pillow(), Image.open(file) as opened:
        opened.draft(mode, (2 * width, 2 * height))
        image = _flattened(ImageOps.exif_transpose(opened), mode)
    if resize == "crop":
        image = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR)
    else:
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image, dtype=np.uint8).reshape(height, width, channels)


@contextmanager
def _strict_pillow() -> Iterator[None]:
    """A decompression bomb is an error, not a warning; other warnings of Pillow do not concern a user."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _flattened(image: Image.Image, mode: str) -> Image.Image:
    """The image in ``mode`` ("L" or "RGB"): deep greys scaled to 8 bits, transparency laid over white."""
    if image.mode.startswith(("I", "F")):
        values = np.asarray(image, dtype=np.float64)
        deepest = 65535 if image.mode.startswith("I;16") or values.max() > 255 else 255
        image = Image.fromarray((values.clip(0, deepest) * (255 / deepest)).astype(np.uint8))
    if image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return image.convert(mode)


def natural_form(encoded: EncodedImages) -> tuple[tuple[int, int], int]:
    """The size and the number of channels that suit a set of images, from their headers alone."""
    sizes: list[tuple[int, int]] = []
    grey = True
    for index in range(len(encoded.names)):
        try:
            with _strict_pillow(), encoded.open(index) as file, Image.open(file) as image:
                sizes.append((image.height, image.width))
                grey = grey and image.mode in _GREY_MODES
        except Exception:
            continue  # named with its reason when it is decoded
    if len(set(sizes)) == 1 and max(sizes[0]) <= _LARGEST_NATURAL_SIDE:
        return sizes[0], 1 if grey else 3
    side = min(DEFAULT_SIDE, max(8, int(median(map(min, sizes))))) if sizes else DEFAULT_SIDE
    return (side, side), 1 if grey and sizes else 3


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    if text.startswith("cannot identify image file"):
        return "not an image that can be decoded"
    return text or type(error).__name__
