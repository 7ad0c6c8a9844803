from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from gatcluster import GATCluster
from gatcluster.data.sources import read_images
from gatcluster.errors import InputError


class Items(Dataset):
    """N items, made by a function of their index."""

    def __init__(self, make: Callable[[int], Any], n: int = 4) -> None:
        self.make, self.n = make, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


class Untouchable:
    def __getattribute__(self, name: str) -> Any:
        pytest.fail("the label was looked at")


@pytest.fixture
def pictures(write) -> np.ndarray:
    return write.pixels(4, 8, 10)


@pytest.mark.parametrize(
    "form",
    [
        Image.fromarray,
        lambda picture: picture,
        lambda picture: torch.from_numpy(picture).permute(2, 0, 1),
        lambda picture: torch.from_numpy(picture).permute(2, 0, 1) / 255,
        lambda picture: picture / 255,
        lambda picture: picture.astype(np.int64),
    ],
    ids=["PIL", "array", "tensor of bytes", "tensor of floats", "array of floats", "array of integers"],
)
@pytest.mark.parametrize(
    "wrap",
    [lambda x: x, lambda x: (x, 3), lambda x: [x, "cat"], lambda x: {"label": 1, "image": x}],
    ids=["alone", "tuple", "list", "dictionary"],
)
def test_every_form_of_an_item_gives_the_same_images(pictures, form, wrap):
    images = read_images(Items(lambda index: wrap(form(pictures[index]))))
    assert np.array_equal(images.pixels, pictures)
    assert images.names == ["0", "1", "2", "3"]


def test_labels_are_not_looked_at(pictures):
    assert len(read_images(Items(lambda index: (pictures[index], Untouchable())))) == 4


def test_grey_images_have_one_channel(pictures):
    for grey in (pictures[..., 0], pictures[..., :1]):
        images = read_images(Items(lambda index, grey=grey: grey[index]))
        assert np.array_equal(images.pixels[..., 0], pictures[..., 0])
    tensor = TensorDataset(torch.from_numpy(pictures[..., 0])[:, None], torch.arange(4))
    assert np.array_equal(read_images(tensor).pixels[..., 0], pictures[..., 0])


def test_images_of_different_sizes_are_brought_to_that_of_the_first_or_to_the_one_asked_for(write):
    make = lambda index: Image.fromarray(write.pixels(1, 8 + index, 10)[0])  # noqa: E731
    assert read_images(Items(make)).size == (8, 10)
    assert read_images(Items(make), size=(6, 5)).size == (6, 5)


def test_large_images_are_made_small():
    assert read_images(Items(lambda index: Image.new("RGB", (300, 200)))).size == (64, 64)


def test_an_item_that_fails_is_skipped_with_its_reason(pictures):
    def make(index: int) -> Any:
        if index == 1:
            raise OSError("image file is truncated")
        return pictures[index]

    images = read_images(Items(make))
    assert images.names == ["0", "2", "3"]
    assert np.array_equal(images.pixels, pictures[[0, 2, 3]])
    assert [(file.name, file.reason) for file in images.skipped] == [("1", "image file is truncated")]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (torch.randn(3, 8, 8) * 3, "leave normalisation out"),
        (np.full((8, 8), 300), r"0\.\.255"),
        (np.full((8, 8), np.nan), "item 0"),
        (np.zeros((8, 8, 5)), "item 0 of the dataset is no image"),
        ("a.png", "item 0 of the dataset is no image"),
        ({"x": 1, "label": 2}, r"\(x, label\) 'image'"),
    ],
)
def test_what_is_no_image_is_named(item, message):
    with pytest.raises(InputError, match=message):
        read_images(Items(lambda index: item))


def test_a_dataset_without_a_length_is_refused():
    class Endless(IterableDataset):
        def __iter__(self):
            return iter([])

    with pytest.raises(InputError, match="map-style"):
        read_images(Endless())


def test_a_dataset_that_gives_nothing_is_an_error():
    def fail(index: int) -> Any:
        raise OSError("gone")

    with pytest.raises(InputError, match="none of the dataset's 4 items could be read; the first error: gone"):
        read_images(Items(fail))
    with pytest.raises(InputError, match="nothing to cluster"):
        read_images(Items(fail, n=0))


def test_progress_is_told(pictures):
    seen: list[tuple[int, int]] = []
    read_images(Items(lambda index: pictures[index]), on_progress=lambda *counts: seen.append(counts))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning")
def test_the_estimator_learns_from_a_dataset_as_from_the_array_of_its_images(write):
    pictures = write.pixels(12, 8, 8)
    dataset = Items(lambda index: (Image.fromarray(pictures[index]), index % 2), n=12)
    by_dataset = GATCluster(2, epochs=2, random_state=0).fit(dataset)
    by_array = GATCluster(2, epochs=2, random_state=0).fit(pictures)
    assert np.array_equal(by_dataset.label_features_, by_array.label_features_)
    assert np.array_equal(by_dataset.predict(dataset), by_dataset.labels_)
