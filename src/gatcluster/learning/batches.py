"""The order in which images are trained on; and what is held against it when a state is restored."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gatcluster.learning.state import State

Indices = NDArray[np.int64]

_LARGEST_COUNT: Final = 2**53  # up to here floats can count


class RandomBatches:
    """Batches without end: in every epoch ⌊N/M⌋ of them, all different, from a new order of the images.

    Args:
        n_images: N.
        batch_size: M.
        random: draws the orders, each when its first batch is asked for.
    """

    def __init__(self, n_images: int, batch_size: int, random: np.random.Generator) -> None:
        self._n_images = n_images
        self._batch_size = batch_size
        self._random = random
        self._order: Indices = np.empty(0, np.int64)
        self._next = 0  # position in the order

    def __iter__(self) -> RandomBatches:
        return self

    def __next__(self) -> Indices:
        if self._next + self._batch_size > len(self._order):
            self._order = self._random.permutation(self._n_images)
            self._next = 0
        start, self._next = self._next, self._next + self._batch_size
        return self._order[start : self._next]

    def state(self) -> State:
        """The order in force, and how far it is used up."""
        return {"order": self._order.astype(np.int32), "next": self._next}

    def restore(self, state: State) -> None:
        """Go on in that order."""
        order, position = checked_indices(state["order"], (None,), self._n_images), int(state["next"])
        if len(order) and not np.array_equal(np.sort(order), np.arange(self._n_images)):
            raise ValueError(f"it is no order of {self._n_images} images")
        if not 0 <= position <= len(order):
            raise ValueError(f"there is no position {position} in an order of {len(order)}")
        self._order, self._next = order, position


# States may be a stranger's. What does not fit is refused where it is restored: an index that is out of range would
# else end the training much later, with an error that says nothing.


def checked_indices(kept: Any, shape: tuple[int | None, ...], end: int | None = None) -> Indices:
    """An array of a state, if it holds whole numbers from 0 to below ``end``.

    Args:
        kept: the array.
        shape: that it must have; None stands for any length.
        end: None if any number will do that is not negative.

    Raises:
        ValueError: it is something else.

    >>> checked_indices(np.array([2, 0], np.int32), (None,), end=3)
    array([2, 0])
    """
    if not isinstance(kept, np.ndarray) or kept.dtype.kind not in "iu":
        raise ValueError("there are no whole numbers where indices should be")
    _check_shape(kept.shape, shape)
    if kept.size and (kept.min() < 0 or (end is not None and kept.max() >= end)):
        raise ValueError("an index is out of range")
    return kept.astype(np.int64)


def checked_rows(kept: Any, shape: tuple[int | None, ...]) -> Tensor:
    """A tensor of a state, if it holds floats in this shape; None stands for any length.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(kept, Tensor) or not kept.is_floating_point():
        raise ValueError("there is no tensor of floats where one should be")
    _check_shape(kept.shape, shape)
    return kept


def checked_count(kept: Any, most: int = _LARGEST_COUNT) -> int:
    """A number of a state, if it can be a count.

    Raises:
        ValueError: it is negative, or more than ``most``.
    """
    count = int(kept)
    if not 0 <= count <= most:
        raise ValueError("a count is out of range")
    return count


def _check_shape(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> None:
    if len(shape) != len(wanted) or any(b not in (a, None) for a, b in zip(shape, wanted, strict=True)):
        raise ValueError(f"the shape {tuple(shape)} is not {wanted}")
