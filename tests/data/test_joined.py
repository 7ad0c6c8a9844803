from __future__ import annotations

import numpy as np
import pytest

from gatcluster.data.arrays import images_from_array
from gatcluster.data.images import ImageSet
from gatcluster.data.joined import JoinedPixels
from gatcluster.data.stored import StoredImages, images_from_stored
from gatcluster.errors import InputError

WHOLE = np.random.default_rng(0).integers(0, 256, (10, 4, 5, 3), dtype=np.uint8)


def joined(*cuts: int) -> JoinedPixels:
    return JoinedPixels(np.split(WHOLE, cuts))


@pytest.mark.parametrize("cuts", [(3,), (1, 9), (5, 5), (2, 4, 6, 8)])
@pytest.mark.parametrize(
    "indices",
    [
        slice(None),
        slice(2, 7),
        slice(8, 100),
        slice(None, None, 3),
        slice(4, 4),
        np.array([9, 0, 5, 5, 2]),
        np.array([], dtype=np.int64),
        np.array([-1, -10]),
        np.arange(10) % 2 == 0,
    ],
    ids=str,
)
def test_a_joined_array_is_indexed_like_the_whole_one(cuts, indices):
    assert np.array_equal(joined(*cuts)[indices], WHOLE[indices])


def test_shape_length_and_type_are_those_of_the_whole():
    assert (joined(3).shape, len(joined(3)), joined(3).dtype) == (WHOLE.shape, 10, WHOLE.dtype)


def test_an_index_outside_is_an_error():
    with pytest.raises(IndexError):
        joined(3)[np.array([10])]


def test_batches_are_those_of_the_whole_array():
    names = [str(i) for i in range(10)]
    order = np.array([7, 1, 3])
    assert ImageSet(joined(3, 6), names).batch(order).equal(ImageSet(WHOLE, names).batch(order))


def test_parts_are_not_copied():
    parts = np.split(WHOLE, [3])
    pixels = images_from_stored(StoredImages(parts, [str(i) for i in range(10)]), None, None).pixels
    assert isinstance(pixels, JoinedPixels)
    assert all(np.shares_memory(part, WHOLE) for part in pixels.parts)


def test_parts_of_different_sizes_need_a_size():
    stored = StoredImages([WHOLE[:3], WHOLE[3:, :, :4]], [str(i) for i in range(10)])
    with pytest.raises(InputError, match=r"different kinds .*4x4x3 uint8, 4x5x3 uint8"):
        images_from_stored(stored, None, None)
    assert images_from_stored(stored, (6, 6), None).size == (6, 6)


def test_floats_of_the_right_type_are_not_copied():
    array = np.random.default_rng(0).random((3, 4, 5), dtype=np.float32)
    assert np.shares_memory(images_from_array(array).pixels, array)
