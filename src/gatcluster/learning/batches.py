"""The order in which images are trained on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gatcluster.learning.restored import checked_indices
from gatcluster.learning.state import State

Indices = NDArray[np.int64]


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
        return self.take(self._batch_size)

    def take(self, n: int) -> Indices:
        """The next ``n`` images of the order, or the first ones of a new order."""
        if self._next + n > len(self._order):
            self._order = self._random.permutation(self._n_images)
            self._next = 0
        start, self._next = self._next, self._next + n
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
