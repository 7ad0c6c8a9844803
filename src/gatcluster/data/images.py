"""The one form in which images reach the network."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gatcluster.data.joined import JoinedPixels

Pixels = NDArray[np.uint8] | NDArray[np.float32]

_LARGE_FILE = 1 << 27  # bytes


@dataclass(frozen=True)
class Skipped:
    """A file that could not be read, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class ImageSet:
    """N images of one size, with a name for each.

    ``pixels`` may be memory-mapped: it is only ever read in batches.
    """

    pixels: Pixels | JoinedPixels  # (N, H, W, C), uint8, or float32 with black 0 and white 1
    names: Sequence[str]  # N
    skipped: Sequence[Skipped] = ()
    value_range: tuple[float, float] = (0.0, 1.0)  # what stood for black and white before
    held_bytes: int = _LARGE_FILE  # of files that are larger, pages that were read are given back after each batch

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.pixels.shape[1], self.pixels.shape[2]

    @property
    def channels(self) -> int:
        """Channels of each image."""
        return int(self.pixels.shape[3])

    def batch(self, indices: NDArray[np.int64] | slice) -> Tensor:
        """Images (n, C, H, W) as floats with black 0 and white 1, in channels-last memory."""
        pixels = torch.from_numpy(np.require(self.pixels[indices], requirements=["C", "W"])).permute(0, 3, 1, 2)
        _unmap_pages(self.pixels, self.held_bytes)
        return pixels.float().div_(255) if pixels.dtype == torch.uint8 else pixels


def _unmap_pages(pixels: Any, held_bytes: int) -> None:
    """Give back the pages of a large file that were just read: resident memory does not grow to the whole file.

    They stay in the system's cache, from which they are mapped again in about a millisecond for a batch.
    """
    if isinstance(pixels, JoinedPixels):
        if pixels.nbytes >= held_bytes:  # many small files are as much as a large one
            for part in pixels.parts:
                _unmap_pages(part, held_bytes=0)
        return
    while isinstance(pixels, np.ndarray) and not isinstance(pixels, np.memmap):  # a view of a file, or no file
        pixels = pixels.base
    if isinstance(pixels, np.memmap) and pixels.mode == "r" and pixels.nbytes >= held_bytes:
        mapping: mmap.mmap | None = getattr(pixels, "_mmap", None)
        if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
            mapping.madvise(mmap.MADV_DONTNEED)
