from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from gatcluster.data.images import ImageSet


def image_set(dtype: type = np.uint8) -> ImageSet:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 9, 3))
    return ImageSet((pixels if dtype is np.uint8 else pixels / 255).astype(dtype), [str(i) for i in range(6)])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_a_batch_holds_the_images_asked_for_in_that_order_with_black_0_and_white_1(dtype):
    images = image_set(dtype)
    white = 255 if dtype is np.uint8 else 1
    batch = images.batch(np.array([4, 0, 4]))
    assert batch.shape == (3, 3, 8, 9)
    assert batch.dtype == torch.float32
    for row, index in enumerate([4, 0, 4]):
        expected = images.pixels[index].transpose(2, 0, 1) / white
        assert np.allclose(batch[row].numpy(), expected, atol=1e-6)


def test_a_slice_and_its_indices_give_the_same_batch():
    images = image_set()
    assert torch.equal(images.batch(slice(2, 5)), images.batch(np.array([2, 3, 4])))


def test_black_and_white_reach_the_network_exactly():
    images = ImageSet(np.array([0, 255], dtype=np.uint8).reshape(2, 1, 1, 1), ["black", "white"])
    assert images.batch(slice(None)).ravel().tolist() == [0, 1]


def test_a_batch_is_in_channels_last_memory():
    assert image_set().batch(slice(None)).is_contiguous(memory_format=torch.channels_last)


def test_size_is_height_then_width():
    assert (len(image_set()), image_set().size, image_set().channels) == (6, (8, 9), 3)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_read_only_pixels_such_as_a_memory_map_give_a_batch_without_a_warning(dtype):
    images = image_set(dtype)
    images.pixels.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert images.batch(slice(None)).shape == (6, 3, 8, 9)
