"""Arrays and tensors as images: which axis is which, and what stands for black and white."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gatcluster.data.images import ImageSet, Pixels
from gatcluster.errors import InputError

_RESIZE_BATCH = 512


def images_from_array(
    array: Any, size: tuple[int, int] | None = None, value_range: tuple[float, float] | None = None
) -> ImageSet:
    """An :class:`ImageSet` from an array or tensor.

    Shapes: (N, H, W) is grey; in four dimensions the channels are the shorter of the second and the last axis (of two
    equal ones the last in an array, the second in a tensor); (N, F) is N images of one row.
    Values: uint8, other integers in 0..255, booleans, or floats in [0, 1]. One-row images may hold any finite numbers.

    Args:
        array: the images.
        size: resize to this height and width; by default images stay as they are.
        value_range: what stands for black and white in one-row images; by default their least and greatest value.
    """
    is_tensor = isinstance(array, torch.Tensor)
    if is_tensor and array.dtype == torch.bfloat16:  # a type that NumPy does not have
        array = array.float()
    values = array.detach().cpu().numpy() if is_tensor else np.asarray(array)
    if values.dtype == object or not (np.issubdtype(values.dtype, np.number) or values.dtype == bool):
        raise InputError(f"images must be numbers, but the array holds {values.dtype}")
    if np.issubdtype(values.dtype, np.complexfloating):
        raise InputError("Complex data not supported: images must be real numbers")
    if values.ndim == 2 and size is not None and tuple(size) != (1, values.shape[1]):
        raise InputError(
            f"rows of {values.shape[1]} values are no images of {size[0]}x{size[1]} pixels: "
            "reshape the array to (N, H, W). Reshape your data if it is one image: array[None]"
        )
    if values.size == 0:
        raise InputError(f"there is nothing to cluster: the array has shape {values.shape}")
    pixels: Pixels
    if values.ndim == 2:
        value_range = value_range or float_range(values)
        pixels = _one_row_pixels(values, value_range)
    else:
        value_range = (0.0, 1.0)
        pixels = _as_pixels(_with_four_axes(values, channels_second=is_tensor))
    if size is not None and pixels.shape[1:3] != tuple(size):
        pixels = _resized(pixels, size)
    return ImageSet(pixels, names=[str(i) for i in range(len(pixels))], value_range=value_range)


def float_range(array: Any) -> tuple[float, float]:
    """Least and greatest value of one-row images: what stands for black and white when they are learned."""
    values = np.asarray(array, dtype=np.float64)
    low, high = float(values.min()), float(values.max())
    return (low, high) if high > low else (low, low + 1.0)


def _with_four_axes(values: NDArray[Any], channels_second: bool) -> NDArray[Any]:
    """View as (N, H, W, C)."""
    if values.ndim == 3:
        return values[..., None]
    if values.ndim == 4:
        second, last = values.shape[1], values.shape[3]
        if second < last or (second == last and channels_second):
            return np.moveaxis(values, 1, 3)
        return values
    raise InputError(
        f"images have {values.ndim} dimensions, shape {values.shape}; "
        "give (N, H, W), (N, H, W, C) or (N, C, H, W). Reshape your data if it is one image: array[None]"
    )


def _as_pixels(values: NDArray[Any]) -> Pixels:
    """uint8 stays; other integers and booleans become uint8, floats float32."""
    if values.dtype == np.uint8:
        return values
    if values.dtype == bool:
        lit: Pixels = values.astype(np.uint8) * np.uint8(255)
        return lit
    low, high = _finite_bounds(values)
    if np.issubdtype(values.dtype, np.integer):
        if low < 0 or high > 255:
            raise InputError(f"integer pixels must lie in 0..255, but run from {low} to {high}: rescale them")
        return values.astype(np.uint8)
    if low < 0 or high > 1:
        raise InputError(
            f"float pixels must lie in [0, 1], but run from {low:g} to {high:g}: divide by 255, or give uint8"
        )
    return values.astype(np.float32, copy=False)


def _one_row_pixels(values: NDArray[Any], value_range: tuple[float, float]) -> NDArray[np.float32]:
    """Rows (N, F) of any numbers as images (N, 1, F, 1), black 0 and white 1."""
    _finite_bounds(values)
    black, white = value_range
    return ((values.astype(np.float64) - black) / (white - black)).astype(np.float32)[:, None, :, None]


def _finite_bounds(values: NDArray[Any]) -> tuple[Any, Any]:
    low, high = values.min(), values.max()
    if not (np.isfinite(low) and np.isfinite(high)):
        raise InputError("the array holds NaN or infinity: replace such values before clustering")
    return low, high


def _resized(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """Every image resampled to ``size`` (height, width), with a filter that does not alias."""
    out = np.empty((len(pixels), *size, pixels.shape[3]), dtype=pixels.dtype)
    for start in range(0, len(pixels), _RESIZE_BATCH):
        part = torch.from_numpy(np.require(pixels[start : start + _RESIZE_BATCH], requirements=["C", "W"]))
        scaled = torch.nn.functional.interpolate(
            part.permute(0, 3, 1, 2).float(), size=size, mode="bilinear", antialias=True
        ).permute(0, 2, 3, 1)
        out[start : start + _RESIZE_BATCH] = (scaled.round() if pixels.dtype == np.uint8 else scaled).numpy()
    return out
