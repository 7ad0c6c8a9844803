"""What is restored from a state, held against what it must be.

States may be a stranger's. What does not fit is refused where it is restored: an index that is out of range would else
end the training much later, with an error that says nothing.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

_LARGEST_COUNT: Final = 2**53  # up to here floats can count


def checked_indices(kept: Any, shape: tuple[int | None, ...], end: int | None = None) -> NDArray[np.int64]:
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


def checked_share(kept: Any) -> float:
    """A number of a state, if it is from 0 to 1: a budget with another would never be spent.

    Raises:
        ValueError: it is something else.
    """
    share = float(kept)
    if not 0 <= share <= 1:
        raise ValueError("a share is out of range")
    return share


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
