from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from gatcluster.data.formats.idx import idx_images, idx_labels, is_idx_file
from gatcluster.data.sources import read_images
from gatcluster.errors import InputError


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_folder_gives_training_then_test_images_with_their_labels(tmp_path, write, ending):
    images = write.pixels(5, 28, 28, 1)[..., 0]
    write.idx(tmp_path / f"t10k-images-idx3-ubyte{ending}", images[3:])
    write.idx(tmp_path / f"t10k-labels-idx1-ubyte{ending}", np.array([8, 9], np.uint8))
    write.idx(tmp_path / f"train-images-idx3-ubyte{ending}", images[:3])
    write.idx(tmp_path / f"train-labels-idx1-ubyte{ending}", np.array([1, 2, 3], np.uint8))
    read = read_images(tmp_path)
    assert np.array_equal(read.pixels[:][..., 0], images)
    assert read.names == ["train:0", "train:1", "train:2", "t10k:0", "t10k:1"]
    assert idx_labels(tmp_path) == list(zip(read.names, "12389", strict=True))


def test_one_file_may_be_given_whatever_its_name(tmp_path, write):
    images = write.pixels(3, 10, 12, 1)[..., 0]
    for name in ("digits", "digits.gz", "train-images-idx3-ubyte"):
        assert np.array_equal(read_images(write.idx(tmp_path / name, images)).pixels[..., 0], images)


def test_torchvision_s_spelling_and_a_plain_copy_beside_the_gzipped_one(tmp_path, write):
    images = write.pixels(2, 10, 12, 1)[..., 0]
    write.idx(tmp_path / "train-images.idx3-ubyte", images)
    write.idx(tmp_path / "train-images.idx3-ubyte.gz", images)
    write.idx(tmp_path / "train-labels.idx1-ubyte", np.array([4, 5], np.uint8))
    assert read_images(tmp_path).names == ["train:0", "train:1"]
    assert [label for _, label in idx_labels(tmp_path)] == ["4", "5"]


def test_plain_files_stay_on_disk(tmp_path, write):
    part = idx_images(write.idx(tmp_path / "x-images-idx3-ubyte", write.pixels(3, 8, 8, 1)[..., 0])).parts[0]
    assert isinstance(part, np.memmap)


def test_several_sets_that_are_not_one_are_listed(tmp_path, write):
    for name in ("letters-train", "digits-train"):
        write.idx(tmp_path / f"emnist-{name}-images-idx3-ubyte", write.pixels(2, 8, 8, 1)[..., 0])
    with pytest.raises(InputError, match=r"several sets.*emnist-digits-train, emnist-letters-train"):
        idx_images(tmp_path)


def test_images_are_read_without_labels_and_missing_labels_are_named(tmp_path, write):
    write.idx(tmp_path / "train-images-idx3-ubyte", write.pixels(2, 8, 8, 1)[..., 0])
    assert len(read_images(tmp_path)) == 2
    with pytest.raises(InputError, match="no train-labels-idx1-ubyte beside it"):
        idx_labels(tmp_path)


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("keep", [0, 3, 10, 16, 100, -1])
def test_a_file_cut_off_anywhere_is_named(tmp_path, write, ending, keep):
    path = write.idx(tmp_path / f"train-images-idx3-ubyte{ending}", write.pixels(3, 8, 8, 1)[..., 0])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match="train-images-idx3-ubyte"):
        idx_images(path)


def test_damage_inside_a_gzipped_file_is_named(tmp_path, write):
    path = write.idx(tmp_path / "train-images-idx3-ubyte.gz", write.pixels(30, 8, 8, 1)[..., 0])
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"cannot read .*train-images-idx3-ubyte\.gz as an idx file"):
        idx_images(path)


def test_a_header_that_promises_more_than_the_file_holds_is_an_error(tmp_path):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(bytes([0, 0, 8, 3]) + struct.pack(">3I", 60_000, 28, 28) + bytes(28 * 28)))
    with pytest.raises(InputError, match="longer or shorter than it says"):
        idx_images(path)


def test_a_label_file_is_no_image_file(tmp_path, write):
    path = write.idx(tmp_path / "train-labels-idx1-ubyte", np.array([1, 2], np.uint8))
    assert not is_idx_file(path)
    with pytest.raises(InputError, match="holds no images"):
        read_images(path, format="idx")


def test_a_folder_without_idx_files_is_named(tmp_path):
    with pytest.raises(InputError, match="no idx files in"):
        idx_images(tmp_path)
