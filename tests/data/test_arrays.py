from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from PIL import Image

from gatcluster.data.arrays import float_range, images_from_array
from gatcluster.errors import InputError


def random_bytes(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


# Shapes: which axis is which.


def test_three_dimensions_are_grey_images():
    array = random_bytes(5, 8, 9)
    images = images_from_array(array)
    assert (len(images), images.size, images.channels) == (5, (8, 9), 1)
    assert np.array_equal(images.pixels[..., 0], array)


def test_images_of_an_array_are_named_by_their_position():
    assert images_from_array(random_bytes(3, 8, 8)).names == ["0", "1", "2"]


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_may_come_last(channels):
    array = random_bytes(5, 8, 9, channels)
    assert np.array_equal(images_from_array(array).pixels, array)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_may_come_first(channels):
    array = random_bytes(5, channels, 8, 9)
    images = images_from_array(array)
    assert (images.size, images.channels) == ((8, 9), channels)
    for n, y, x, c in np.ndindex(5, 8, 9, channels):
        assert images.pixels[n, y, x, c] == array[n, c, y, x]


def test_channels_first_is_recognised_in_tall_and_in_wide_images():
    assert images_from_array(random_bytes(2, 3, 8, 40)).size == (8, 40)
    assert images_from_array(random_bytes(2, 3, 40, 8)).size == (40, 8)


def test_of_two_equally_short_axes_an_array_has_its_channels_last_and_a_tensor_second():
    array = random_bytes(2, 3, 9, 3)
    assert images_from_array(array).size == (3, 9)
    assert images_from_array(torch.from_numpy(array)).size == (9, 3)


def test_a_tensor_means_the_same_as_the_array_it_is_made_of():
    array = np.random.default_rng(0).random((4, 3, 8, 9), dtype=np.float32)
    tensor = torch.from_numpy(array).requires_grad_()
    assert np.array_equal(images_from_array(tensor).pixels, images_from_array(array).pixels)


def test_a_channels_last_tensor_view_is_read_in_its_logical_order():
    tensor = torch.from_numpy(random_bytes(2, 3, 8, 9)).contiguous(memory_format=torch.channels_last)
    assert np.array_equal(images_from_array(tensor).pixels, tensor.permute(0, 2, 3, 1).numpy())


def test_half_precision_tensors_are_read():
    tensor = torch.tensor([0.0, 0.5, 1.0]).reshape(3, 1, 1, 1).expand(3, 1, 8, 8)
    for dtype in (torch.float16, torch.bfloat16):
        pixels = images_from_array(tensor.to(dtype)).pixels
        assert pixels.dtype == np.float32
        assert pixels[:, 0, 0, 0].tolist() == [0.0, 0.5, 1.0]


def test_nested_lists_are_read_as_an_array():
    assert images_from_array([[[0, 255], [255, 0]]]).pixels[0, :, :, 0].tolist() == [[0, 255], [255, 0]]


def test_two_dimensions_are_images_of_one_row():
    array = np.arange(12.0).reshape(3, 4)
    images = images_from_array(array, value_range=(0.0, 11.0))
    assert (len(images), images.size, images.channels) == (3, (1, 4), 1)
    assert np.allclose(images.pixels.reshape(3, 4), array / 11)


# Values: what stands for black and white.


def test_bytes_stay_bytes_and_are_not_copied():
    array = random_bytes(5, 8, 8)
    assert np.shares_memory(images_from_array(array).pixels, array)


def test_booleans_are_black_and_white():
    pixels = images_from_array(np.array([[[True, False]]])).pixels
    assert pixels.dtype == np.uint8
    assert pixels.ravel().tolist() == [255, 0]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint16, np.int32, np.int64, np.uint64])
def test_other_integers_are_taken_as_bytes(dtype):
    pixels = images_from_array(np.array([[[0, 1, 127]]], dtype=dtype)).pixels
    assert pixels.dtype == np.uint8
    assert pixels.ravel().tolist() == [0, 1, 127]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_from_0_to_1_are_kept(dtype):
    pixels = images_from_array(np.array([[[0, 0.25, 1]]], dtype=dtype)).pixels
    assert pixels.dtype == np.float32
    assert pixels.ravel().tolist() == [0, 0.25, 1]


def test_integers_and_floats_of_the_same_images_reach_the_network_alike():
    array = random_bytes(4, 8, 8)
    of_bytes = images_from_array(array).batch(slice(None))
    of_floats = images_from_array(array / 255).batch(slice(None))
    assert torch.allclose(of_bytes, of_floats, atol=1e-6)


def test_one_row_images_may_hold_any_numbers_and_of_any_type():
    for array in (np.array([[-7, 300], [3, 5]]), np.array([[1e6, -1e6]]), np.array([[5, 6]], dtype=np.uint8)):
        low, high = float_range(array)
        pixels = images_from_array(array, value_range=(low, high)).pixels
        assert pixels.dtype == np.float32
        assert (pixels.min(), pixels.max()) == (0, 1)


def test_new_one_row_images_are_measured_by_the_range_of_the_learned_ones():
    new = images_from_array(np.array([[10.0, 30.0]]), value_range=(10.0, 20.0))
    assert new.pixels.ravel().tolist() == [0, 2]


def test_small_differences_of_large_numbers_survive_in_one_row_images():
    array = np.array([[1e9, 1e9 + 1, 1e9 + 2]])
    pixels = images_from_array(array, value_range=float_range(array)).pixels
    assert pixels.ravel().tolist() == [0, 0.5, 1]


def test_value_range_spans_the_data_and_is_never_empty():
    assert float_range([[3, -1], [2, 8]]) == (-1.0, 8.0)
    low, high = float_range(np.full((3, 2), 7.0))
    assert low == 7
    assert high > low


# What cannot be used is named.


@pytest.mark.parametrize("shape", [(4, 8, 8), (4, 8, 8, 3), (4, 6)])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_nan_or_infinity_anywhere_is_refused(shape, bad):
    array = np.zeros(shape)
    array[-1, -1, ...] = bad
    with pytest.raises(InputError, match="NaN or infinity"):
        images_from_array(array)


@pytest.mark.parametrize("value", [-0.01, 1.01, 255.0])
def test_floats_outside_0_to_1_are_refused_with_their_range(value):
    array = np.full((2, 8, 8), 0.5)
    array[0, 0, 0] = value
    with pytest.raises(InputError, match=rf"\[0, 1\].*{value:g}.*divide by 255"):
        images_from_array(array)


@pytest.mark.parametrize("value", [-1, 256])
def test_integers_outside_a_byte_are_refused_with_their_range(value):
    with pytest.raises(InputError, match=rf"0\.\.255.*{value}"):
        images_from_array(np.full((2, 8, 8), value))


@pytest.mark.parametrize("shape", [(0, 8, 8), (4, 0, 8), (4, 8, 8, 0), (0, 5)])
def test_an_empty_array_is_refused_with_its_shape(shape):
    with pytest.raises(InputError, match=r"nothing to cluster.*shape"):
        images_from_array(np.zeros(shape))


@pytest.mark.parametrize(
    "array", [np.array([[["a", "b"]]]), np.array([[[None, {}]]]), np.zeros((2, 8, 8), dtype="datetime64[s]")]
)
def test_what_is_not_a_number_is_refused(array):
    with pytest.raises(InputError, match="must be numbers"):
        images_from_array(array)


def test_complex_numbers_are_refused():
    with pytest.raises(InputError, match="Complex data not supported"):
        images_from_array(np.zeros((2, 8, 8), dtype=complex))


@pytest.mark.parametrize("shape", [(), (8,), (2, 2, 2, 8, 8)])
def test_too_few_or_too_many_dimensions_are_refused_with_the_shapes_allowed(shape):
    with pytest.raises(InputError, match=rf"{len(shape)} dimensions.*\(N, H, W, C\)"):
        images_from_array(np.zeros(shape))


def test_rows_are_refused_where_pictures_of_a_size_are_wanted():
    with pytest.raises(InputError, match="rows of 64 values are no images of 8x8 pixels: reshape"):
        images_from_array(np.zeros((5, 64)), size=(8, 8))
    assert images_from_array(np.zeros((5, 64)), size=(1, 64)).size == (1, 64)


# Resizing.


@pytest.mark.parametrize("size", [(8, 8), (7, 20), (40, 33), (16, 50)])
@pytest.mark.parametrize("channels", [1, 3])
def test_resizing_agrees_with_pillow(size, channels):
    array = random_bytes(3, 24, 30, channels)
    resized = images_from_array(array, size=size).pixels
    assert resized.shape == (3, *size, channels)
    assert resized.dtype == np.uint8
    for image, result in zip(array, resized, strict=True):
        pillow = Image.fromarray(image.squeeze()).resize(size[::-1], Image.Resampling.BILINEAR)
        expected = np.asarray(pillow, dtype=int).reshape(*size, channels)
        assert np.abs(result.astype(int) - expected).max() <= 1  # Pillow rounds after each axis


def test_halving_floats_agrees_with_a_slow_reference():
    array = np.random.default_rng(0).random((2, 12, 12))
    resized = images_from_array(array, size=(6, 6)).pixels[..., 0]
    weights_of = []  # a triangle, two output pixels wide, about the middle of each output pixel
    for position in range(6):
        weights = [max(0.0, 1 - abs((x + 0.5) / 2 - (position + 0.5))) for x in range(12)]
        weights_of.append([weight / sum(weights) for weight in weights])
    for n, y, x in np.ndindex(2, 6, 6):
        expected = sum(weights_of[y][v] * weights_of[x][u] * array[n, v, u] for v in range(12) for u in range(12))
        assert resized[n, y, x] == pytest.approx(expected, abs=1e-6)


def test_every_image_of_a_large_set_is_resized():
    array = np.repeat(np.arange(600, dtype=np.uint8), 9 * 9).reshape(600, 9, 9)
    resized = images_from_array(array, size=(8, 8)).pixels
    assert np.array_equal(resized[..., 0], np.broadcast_to(array[:, :1, :1], (600, 8, 8)))


def test_images_of_the_wanted_size_are_left_alone():
    array = random_bytes(3, 8, 9)
    assert np.shares_memory(images_from_array(array, size=(8, 9)).pixels, array)


def test_a_read_only_array_is_resized_without_a_warning():
    array = random_bytes(3, 9, 9)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert images_from_array(array, size=(8, 8)).size == (8, 8)
