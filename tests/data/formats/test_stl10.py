from __future__ import annotations

import numpy as np
import pytest

from gatcluster.data.formats.stl10 import stl10_all_images, stl10_all_labels, stl10_images, stl10_labels
from gatcluster.data.sources import read_images
from gatcluster.errors import InputError


@pytest.fixture
def folder(tmp_path, write):
    images = write.pixels(6, 96, 96)
    write.stl(tmp_path, "train", images[:2], [1, 10])
    write.stl(tmp_path, "test", images[2:5], [2, 3, 4])
    write.stl(tmp_path, "unlabeled", images[5:])
    return tmp_path


def test_training_and_test_images_are_read_upright_and_the_unlabelled_ones_are_not(folder, write):
    images = read_images(folder)
    assert np.array_equal(images.pixels[:], write.pixels(6, 96, 96)[:5])
    assert images.names == ["train:0", "train:1", "test:0", "test:1", "test:2"]


def test_a_pixel_lies_where_the_publisher_says(tmp_path):
    image = bytearray(3 * 96 * 96)
    image[96 * 96 + 7 * 96 + 2] = 200  # the green plane, eighth column, third row
    (tmp_path / "train_X.bin").write_bytes(image)
    pixels = stl10_images(tmp_path).parts[0]
    assert pixels[0, 2, 7].tolist() == [0, 200, 0]


def test_the_unlabelled_images_come_on_request(folder, write):
    images = read_images(folder, format="stl10-unlabelled")
    assert np.array_equal(images.pixels[:], write.pixels(6, 96, 96))
    assert images.names[-1] == "unlabeled:0"


def test_the_files_stay_on_disk(folder):
    for part in stl10_all_images(folder).parts:
        assert isinstance(part, np.memmap)


def test_labels_are_those_of_the_label_files_and_none_for_the_unlabelled(folder):
    names = ["train:0", "train:1", "test:0", "test:1", "test:2"]
    assert stl10_labels(folder) == list(zip(names, ["1", "10", "2", "3", "4"], strict=True))
    assert stl10_all_labels(folder) == [*stl10_labels(folder), ("unlabeled:0", None)]


def test_missing_or_short_label_files_are_named(folder):
    (folder / "test_y.bin").write_bytes(b"\1\2")
    with pytest.raises(InputError, match=r"no labels for .*test_X\.bin.*test_y\.bin"):
        stl10_labels(folder)
    (folder / "train_y.bin").unlink()
    with pytest.raises(InputError, match=r"train_y\.bin is missing"):
        stl10_labels(folder)


def test_images_are_read_without_any_label_file(folder):
    for file in folder.glob("*_y.bin"):
        file.unlink()
    assert len(read_images(folder)) == 5


def test_a_file_that_is_cut_off_is_named(folder):
    content = (folder / "test_X.bin").read_bytes()
    (folder / "test_X.bin").write_bytes(content[:-1])
    with pytest.raises(InputError, match=r"test_X\.bin is not a whole STL-10 file"):
        stl10_images(folder)


def test_missing_files_are_named(tmp_path, folder):
    (folder / "unlabeled_X.bin").unlink()
    with pytest.raises(InputError, match=r"no file unlabeled_X\.bin"):
        stl10_all_images(folder)
    with pytest.raises(InputError, match=r"no STL-10 in"):
        stl10_images(tmp_path.parent)
