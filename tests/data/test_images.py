from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from gatcluster.data.images import ImageSet
from gatcluster.data.joined import JoinedPixels


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


def resident_file_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssFile"))


def test_reading_all_of_a_large_file_does_not_fill_the_memory(tmp_path):
    n = 10_000
    pixels = np.random.default_rng(0).integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)
    np.save(tmp_path / "x.npy", pixels)
    mapped = np.asarray(np.load(tmp_path / "x.npy", mmap_mode="r"))
    images = ImageSet(mapped, [str(i) for i in range(n)], held_bytes=1)
    before = resident_file_bytes()
    for start in range(0, n, 500):
        batch = images.batch(np.arange(start, start + 500))
        assert np.array_equal(batch.mul(255).round().byte().permute(0, 2, 3, 1).numpy(), pixels[start : start + 500])
    assert resident_file_bytes() - before < pixels.nbytes / 2


@pytest.mark.parametrize("kept", [False, True])
def test_reading_all_of_several_files_that_are_large_together_does_not_fill_the_memory(tmp_path, kept):
    n, files = 2_500, 4
    pixels = np.random.default_rng(0).integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)
    parts = []
    for number in range(files):
        np.save(tmp_path / f"{number}.npy", pixels)
        parts.append(np.asarray(np.load(tmp_path / f"{number}.npy", mmap_mode="r")))
    joined = JoinedPixels([JoinedPixels(parts[:2]), *parts[2:]])
    assert joined.nbytes == files * pixels.nbytes
    held = joined.nbytes + kept  # each file is smaller than that
    images = ImageSet(joined, [str(i) for i in range(files * n)], held_bytes=held)
    before = resident_file_bytes()
    for start in range(0, files * n, 500):
        images.batch(np.arange(start, start + 500))
    grown = resident_file_bytes() - before
    assert grown > joined.nbytes / 2 if kept else grown < joined.nbytes / 8
