"""Sets made of those of the quality benchmark: some of their kinds, or more, uneven, in other colours, upon photos."""

from __future__ import annotations

import colorsys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from comparison.sets import SETS, find_source, true_labels
from gatcluster.data.sources import read_images

Images = NDArray[np.uint8]
Kinds = NDArray[np.int64]

_PHOTO: Final = (64, 64)
_VEHICLES: Final = (0, 1, 8, 9)  # of CIFAR-10: aeroplanes, cars, ships, lorries
_PEN_UPON_PHOTO: Final = 0.6  # how light a photo is beside the white of a digit


def excerpts(data: Path) -> dict[str, Callable[[], tuple[Images, Kinds]]]:
    """Makes of each set, by its title; the sets of the benchmark lie in ``data``."""

    def some(name: str, kinds: Iterable[int], each: int) -> tuple[Images, Kinds]:
        return excerpt(data, name, dict.fromkeys(kinds, each))

    return {
        "MNIST, 200 images": lambda: some("mnist", (0, 1, 2, 7), 50),
        "MNIST, uneven": lambda: excerpt(data, "mnist", {0: 900, 1: 600, 2: 400, 3: 250, 4: 150, 5: 100}),
        "MNIST, black on white": lambda: in_negative(*some("mnist", range(10), 200)),
        "MNIST in any hue": lambda: in_any_hue(*some("mnist", range(10), 500)),
        "MNIST upon photos": lambda: upon_photos(*some("mnist", range(10), 500), some("cifar10", range(10), 500)[0]),
        "MNIST and Fashion-MNIST": lambda: together(
            some("mnist", range(10), 500), some("fashion-mnist", range(10), 500)
        ),
        "Fashion-MNIST, trousers, shoes, bags": lambda: some("fashion-mnist", (1, 5, 7, 8, 9), 600),
        "Fashion-MNIST, uneven": lambda: excerpt(
            data, "fashion-mnist", {0: 900, 1: 800, 2: 600, 5: 400, 7: 200, 8: 150, 9: 100}
        ),
        "CIFAR-10, vehicles and animals": lambda: in_two(*some("cifar10", range(10), 1000), _VEHICLES),
        "CIFAR-10, aeroplanes, cars, frogs": lambda: some("cifar10", (0, 1, 6), 1000),
        "CIFAR-10, uneven": lambda: excerpt(data, "cifar10", {0: 2000, 1: 1500, 4: 1000, 6: 700, 8: 400}),
        "imagenette, two kinds": lambda: some("imagenette128", (1, 3), 400),
        "imagenette, four kinds": lambda: some("imagenette128", (0, 2, 5, 8), 400),
        "imagenette, six kinds, grey": lambda: without_colour(*some("imagenette128", (0, 1, 2, 3, 4, 6), 400)),
    }


def excerpt(data: Path, name: str, sizes: Mapping[int, int]) -> tuple[Images, Kinds]:
    """So many images of some of the kinds of a set, drawn by chance and listed kind by kind.

    Args:
        data: the folder of the sets.
        name: of a set of the quality benchmark.
        sizes: how many images of which kind, by its place among the sorted labels.

    Returns:
        Images (N, H, W) or (N, H, W, 3), and their kinds (N,), numbered anew.
    """
    source = find_source(SETS[name], data)
    images = read_images(source, size=_PHOTO if name == "imagenette128" else None)
    labels = np.unique(true_labels(source, images), return_inverse=True)[1]
    random = np.random.default_rng(0)
    chosen = [np.sort(random.permutation(np.flatnonzero(labels == kind))[:n]) for kind, n in sizes.items()]
    pixels = np.asarray(images.pixels[np.concatenate(chosen)])
    kinds = np.repeat(np.arange(len(chosen)), [len(of_kind) for of_kind in chosen])
    return pixels[..., 0] if pixels.shape[-1] == 1 else pixels, kinds


def in_negative(images: Images, kinds: Kinds) -> tuple[Images, Kinds]:
    """Grey images (N, H, W), light for dark, as (N, H, W, 3)."""
    return np.repeat(255 - images[..., None], 3, axis=-1), kinds


def in_any_hue(images: Images, kinds: Kinds) -> tuple[Images, Kinds]:
    """Grey images (N, H, W), each in a hue of its own, as (N, H, W, 3)."""
    hues = np.random.default_rng(0).random(len(images))
    colours = np.array([colorsys.hsv_to_rgb(hue, 1, 1) for hue in hues])  # (N, 3)
    return (images[..., None] * colours[:, None, None]).astype(np.uint8), kinds


def upon_photos(images: Images, kinds: Kinds, photos: Images) -> tuple[Images, Kinds]:
    """Grey images (N, H, W), white upon the middle of photos drawn by chance, as (N, H, W, 3)."""
    height, width = images.shape[1:]
    top, left = (photos.shape[1] - height) // 2, (photos.shape[2] - width) // 2
    behind = photos[np.random.default_rng(0).permutation(len(photos))[: len(images)]]
    behind = behind[:, top : top + height, left : left + width]
    ink = images[..., None] / 255
    return (_PEN_UPON_PHOTO * behind * (1 - ink) + 255 * ink).astype(np.uint8), kinds


def together(first: tuple[Images, Kinds], second: tuple[Images, Kinds]) -> tuple[Images, Kinds]:
    """Two sets of one size as one; no kind is in both."""
    return np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1] + first[1].max() + 1])


def in_two(images: Images, kinds: Kinds, one: Iterable[int]) -> tuple[Images, Kinds]:
    """Two kinds of many: those of ``one``, which are kind 1, and all others."""
    return images, np.isin(kinds, list(one)).astype(np.int64)


def without_colour(images: Images, kinds: Kinds) -> tuple[Images, Kinds]:
    """The means of the channels, (N, H, W)."""
    return images.mean(axis=-1).astype(np.uint8), kinds
