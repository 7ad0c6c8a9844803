"""Sets made of others: which images are taken, and what becomes of them."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from comparison.excerpts import (
    excerpt,
    excerpts,
    in_any_hue,
    in_negative,
    in_two,
    together,
    upon_photos,
    without_colour,
)
from gatcluster.errors import InputError

KINDS = np.array([0, 1])
GREY = np.array([[[0, 255]], [[51, 102]]], dtype=np.uint8)  # two images of 1x2


@pytest.fixture
def data(tmp_path):
    """Five photos of each of three kinds; the red channel tells the kind, the green one which of the five it is."""
    for kind in range(3):
        folder = tmp_path / "imagenette128" / f"kind-{kind}"
        folder.mkdir(parents=True)
        for i in range(5):
            Image.new("RGB", (80, 80), (100 * kind, 50 * i, 7)).save(folder / f"{i}.png")
    return tmp_path


def test_an_excerpt_holds_so_many_images_of_each_kind_and_numbers_the_kinds_anew(data):
    images, kinds = excerpt(data, "imagenette128", {2: 4, 0: 2})
    assert kinds.tolist() == [0, 0, 0, 0, 1, 1]
    assert images.shape == (6, 64, 64, 3)
    assert images[:, 0, 0, 0].tolist() == [200] * 4 + [0] * 2
    assert len(np.unique(images[:4, 0, 0, 1])) == 4  # none is taken twice
    again, _ = excerpt(data, "imagenette128", {2: 4, 0: 2})
    np.testing.assert_array_equal(images, again)


def test_of_a_kind_with_too_few_images_all_are_taken(data):
    images, kinds = excerpt(data, "imagenette128", {1: 9})
    assert len(images) == len(kinds) == 5


def test_a_set_is_read_only_once_it_is_made_and_missed_by_name(tmp_path):
    made = excerpts(tmp_path)
    with pytest.raises(InputError, match="there is no MNIST"):
        made["MNIST, uneven"]()


def test_negatives_by_hand():
    images, kinds = in_negative(GREY, KINDS)
    assert images[:, 0, :, 0].tolist() == [[255, 0], [204, 153]]
    assert (images == images[..., :1]).all()
    assert images.shape == (2, 1, 2, 3)
    assert kinds is KINDS


def test_a_hue_is_as_bright_as_the_grey_was_and_has_no_white_in_it():
    grey = np.random.default_rng(0).integers(0, 256, (40, 3, 3), dtype=np.uint8)
    images, _ = in_any_hue(grey, np.zeros(40, np.int64))
    np.testing.assert_array_equal(images.max(axis=-1), grey)
    assert (images.min(axis=-1) == 0).all()
    assert len({tuple(image.max(axis=(0, 1)) > 0) for image in images}) > 1  # not all of one colour


def test_ink_upon_a_photo_is_white_and_paper_shows_its_middle():
    photos = np.zeros((2, 3, 4, 3), np.uint8)
    photos[:, 1, 1:3] = 200  # the middle
    images, _ = upon_photos(GREY, KINDS, photos)
    assert images[0, 0].tolist() == [[120] * 3, [255] * 3]
    assert images[1, 0, 0].tolist() == [147] * 3  # 0.6 · 200 · 0.8 + 255 · 0.2


def test_sets_together_and_kinds_in_two_by_hand():
    images, kinds = together((GREY, KINDS), (GREY[:1], np.array([0])))
    np.testing.assert_array_equal(images, np.concatenate([GREY, GREY[:1]]))
    assert kinds.tolist() == [0, 1, 2]
    assert in_two(images, kinds, one=(0, 2))[1].tolist() == [1, 0, 1]


def test_without_colour_is_the_mean_of_the_channels():
    assert without_colour(np.array([[[[30, 60, 90]]]], np.uint8), KINDS[:1])[0].tolist() == [[[60]]]
