"""Several arrays as one, without copying any of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class JoinedPixels:
    """Arrays of images (N_i, H, W, C), read as one array (N, H, W, C).

    Sets that come in several files are larger than memory when joined; the parts may stay memory-mapped.

    >>> joined = JoinedPixels([np.zeros((2, 1, 1, 1)), np.ones((3, 1, 1, 1))])
    >>> joined.shape, joined[np.array([4, 0, 2])].ravel().tolist()
    ((5, 1, 1, 1), [1.0, 0.0, 1.0])
    """

    def __init__(self, parts: Sequence[NDArray[Any] | JoinedPixels]) -> None:
        self.parts = parts
        self.starts = np.cumsum([0, *(len(part) for part in parts)])

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, H, W, C)."""
        return int(self.starts[-1]), *self.parts[0].shape[1:]

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the parts."""
        return self.parts[0].dtype

    @property
    def nbytes(self) -> int:
        """Of all parts together."""
        return sum(part.nbytes for part in self.parts)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, indices: NDArray[np.int64] | slice) -> NDArray[Any]:
        """The images of a slice, or of an array of indices, as a new array."""
        wanted = np.arange(len(self))[indices]
        chosen = np.empty((len(wanted), *self.shape[1:]), dtype=self.dtype)
        owner = np.searchsorted(self.starts, wanted, side="right") - 1
        for number, (part, start) in enumerate(zip(self.parts, self.starts, strict=False)):
            mine = owner == number
            if mine.any():
                chosen[mine] = part[wanted[mine] - start]
        return chosen
