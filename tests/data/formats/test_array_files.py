from __future__ import annotations

import numpy as np
import pytest

from gatcluster.data.formats.array_files import array_images, array_labels
from gatcluster.errors import InputError

IMAGES = np.zeros((3, 8, 8), np.uint8)


def test_the_labels_of_an_npz_file_are_no_images_and_the_images_no_labels(tmp_path):
    np.savez(tmp_path / "x.npz", x=IMAGES, y=[2, 0, 1])
    assert array_images(tmp_path / "x.npz").parts[0].shape == (3, 8, 8)
    assert array_labels(tmp_path / "x.npz") == [("0", "2"), ("1", "0"), ("2", "1")]


def test_labels_may_be_text(tmp_path):
    np.savez(tmp_path / "x.npz", images=IMAGES, labels=["a", "b", "c"])
    assert [label for _, label in array_labels(tmp_path / "x.npz")] == ["a", "b", "c"]


def test_missing_labels_are_named(tmp_path):
    np.save(tmp_path / "x.npy", IMAGES)
    np.savez(tmp_path / "x.npz", images=IMAGES)
    np.savez(tmp_path / "y.npz", images=IMAGES, labels=np.zeros((3, 2)))
    with pytest.raises(InputError, match=r"x\.npy carries no labels"):
        array_labels(tmp_path / "x.npy")
    with pytest.raises(InputError, match=r"x\.npz holds no array named 'labels', only: images"):
        array_labels(tmp_path / "x.npz")
    with pytest.raises(InputError, match=r"y\.npz have shape \(3, 2\)"):
        array_labels(tmp_path / "y.npz")


def test_a_single_value_is_no_array(tmp_path):
    np.save(tmp_path / "x.npy", np.uint8(3))
    with pytest.raises(InputError, match=r"x\.npy holds a single value"):
        array_images(tmp_path / "x.npy")
