"""How `fast` does on sets that it was not made for, beside k-means on pixels: drawn here, and scikit-learn's digits.

    python benchmarks/other_sets.py [--minutes 1] [--seeds 0] [--sets NAME ...]
    python benchmarks/other_sets.py --data DIR ...      # excerpts of the sets of the quality benchmark, which lie there

k is 2 to 20; colours, paper, turns and numbers of images differ, and images come kind by kind, as folders list them.
Labels are used only to score. Prints Markdown for docs/results.md, and writes nothing.
"""

from __future__ import annotations

import argparse
import colorsys
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from comparison.drawn_scenes import cells, galaxies, land, leaves
from comparison.excerpts import excerpts
from comparison.machine import hardware
from gatcluster import GATCluster
from gatcluster.errors import InputError
from gatcluster.evaluation.metrics import clustering_accuracy

Images = NDArray[np.uint8]
Colour = tuple[int, ...]

SIDE = 32
FINE = 4  # drawn so many times as large, then made smaller: smooth edges
CORNERS = {"triangle": 3, "square": 4, "star": 10, "cross": 12}
SHAPES = ("circle", *CORNERS)
LETTERS = "ABCDEFGHJKLMNPRSTUXZ"


def shape(kind: str, pen: Colour, paper: Colour, random: np.random.Generator) -> Images:
    """A shape of any size, somewhere, turned by any angle, (SIDE, SIDE, 3)."""
    side = SIDE * FINE
    image = Image.new("RGB", (side, side), paper)
    radius, turn = random.uniform(0.2, 0.4) * side, random.uniform(0, 2 * np.pi)
    x, y = random.uniform(radius, side - radius, 2)
    if kind == "circle":
        ImageDraw.Draw(image).ellipse((x - radius, y - radius, x + radius, y + radius), fill=pen)
    else:
        n = CORNERS[kind]
        angles = turn + 2 * np.pi * np.arange(n) / n
        reach = np.full(n, radius)
        if kind == "star":
            reach[1::2] *= 0.45
        elif kind == "cross":  # every third corner lies inside, the others are pairs at the ends of the four arms
            reach[::3] *= 0.47
            angles = turn + np.repeat(np.arange(4), 3) * np.pi / 2 + np.tile([-np.pi / 4, -0.32, 0.32], 4)
        corners = np.stack([x + reach * np.cos(angles), y + reach * np.sin(angles)], axis=1)
        ImageDraw.Draw(image).polygon([tuple(corner) for corner in corners], fill=pen)
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.LANCZOS))


def any_colour(random: np.random.Generator) -> Colour:
    return tuple(int(value) for value in random.integers(0, 256, 3))


def another_colour(colour: Colour, random: np.random.Generator) -> Colour:
    """Any colour that is easily told from the given one."""
    other = any_colour(random)
    while max(abs(a - b) for a, b in zip(colour, other, strict=True)) < 100:
        other = any_colour(random)
    return other


def any_hue(random: np.random.Generator) -> Colour:
    return tuple(round(255 * value) for value in colorsys.hsv_to_rgb(random.random(), 1, 1))


def shapes_on_any_paper(kind: int, random: np.random.Generator) -> Images:
    paper = any_colour(random)
    return shape(SHAPES[kind], another_colour(paper, random), paper, random)


def shapes_of_any_hue_on_black(kind: int, random: np.random.Generator) -> Images:
    return shape(SHAPES[kind], any_hue(random), (0, 0, 0), random)


def shapes_in_noise(kind: int, random: np.random.Generator) -> Images:
    image = shapes_on_any_paper(kind, random) + random.normal(0, 20, (SIDE, SIDE, 3))
    return image.clip(0, 255).astype(np.uint8)


def black_or_white_on_grey(kind: int, random: np.random.Generator) -> Images:
    grey = int(random.integers(0, 256))
    pen = (255 * (grey < 128),) * 3
    return shape(SHAPES[kind], pen, (grey,) * 3, random)


def paints(kind: int, random: np.random.Generator) -> Images:
    """The kind is the shape, and each has a colour of its own; the paper is any."""
    own = np.array([[220, 40, 40], [40, 200, 60], [50, 70, 220], [230, 210, 50]])[kind]
    pen = tuple(int(value) for value in (own + random.normal(0, 15, 3)).clip(0, 255))
    return shape(SHAPES[kind], pen, any_colour(random), random)


def textures(kind: int, random: np.random.Generator) -> Images:
    """Grey: waves, a lattice, clouds, noise, rings, a chessboard; (48, 48)."""
    y, x = np.mgrid[:48, :48]
    pace, (one, two) = random.uniform(0.5, 0.7), random.uniform(0, 2 * np.pi, 2)
    if kind == 0:
        wave = np.sin(pace * x + one)
    elif kind == 1:
        wave = np.sin(pace * x + one) * np.sin(pace * y + two)
    elif kind == 2:
        rough = Image.fromarray(random.integers(0, 256, (8, 8), dtype=np.uint8))
        wave = np.asarray(rough.resize((48, 48), Image.Resampling.BICUBIC)) / 128 - 1
    elif kind == 3:
        wave = random.normal(0, 0.5, (48, 48))
    elif kind == 4:
        wave = np.sin(pace * np.hypot(x - random.uniform(10, 38), y - random.uniform(10, 38)) + one)
    else:
        wave = np.sign(np.sin(0.7 * pace * x + one) * np.sin(0.7 * pace * y + two))
    return (random.uniform(60, 200) + 50 * wave + random.normal(0, 6, (48, 48))).clip(0, 255).astype(np.uint8)


def letters(kind: int, random: np.random.Generator) -> Images:
    """A printed letter, leaning a little, grey, (SIDE, SIDE)."""
    image = Image.new("L", (SIDE, SIDE), 255)
    font = ImageFont.load_default(random.uniform(0.5, 0.8) * SIDE)
    place = tuple(random.uniform(0.42, 0.58, 2) * SIDE)
    ImageDraw.Draw(image).text(place, LETTERS[kind], 0, font, anchor="mm")
    leaning = image.rotate(random.normal(0, 7), Image.Resampling.BICUBIC, fillcolor=255)
    return np.asarray(leaning)


def drawn(draw: Callable[[int, np.random.Generator], Images], k: int, each: int) -> tuple[Images, NDArray[np.int64]]:
    random, kinds = np.random.default_rng(0), np.repeat(np.arange(k), each)
    return np.stack([draw(int(kind), random) for kind in kinds]), kinds


def digits(*chosen: int, turned: bool = False) -> tuple[Images, NDArray[np.int64]]:
    """Scanned digits, kind by kind; turned ones are enlarged, so that something is left of them."""
    random, found = np.random.default_rng(0), load_digits()
    order = np.argsort(found.target, kind="stable")
    order = order[np.isin(found.target[order], chosen)]
    images = (found.images[order] * (255 / 16)).astype(np.uint8)
    if turned:
        images = np.stack([turned_by_any_angle(image, random) for image in images])
    return images, np.searchsorted(chosen, found.target[order])


def turned_by_any_angle(image: Images, random: np.random.Generator) -> Images:
    large = Image.new("L", (32, 32))
    large.paste(Image.fromarray(image).resize((20, 20), Image.Resampling.BICUBIC), (6, 6))
    return np.asarray(large.rotate(random.uniform(0, 360), Image.Resampling.BICUBIC))


MadeSets = dict[str, Callable[[], tuple[Images, NDArray[np.int64]]]]

DRAWN: MadeSets = {
    "digits 3 and 8": lambda: digits(3, 8),
    "digits without 6 and 9, turned by any angle": lambda: digits(0, 1, 2, 3, 4, 5, 7, 8, turned=True),
    "shapes of any colour on any paper": lambda: drawn(shapes_on_any_paper, 5, 400),
    "shapes of any hue on black": lambda: drawn(shapes_of_any_hue_on_black, 5, 400),
    "shapes of any colour on any paper, noisy": lambda: drawn(shapes_in_noise, 5, 400),
    "black or white shapes on grey": lambda: drawn(black_or_white_on_grey, 5, 400),
    "shapes with a colour of their own": lambda: drawn(paints, 4, 400),
    "grey textures": lambda: drawn(textures, 6, 300),
    "printed letters": lambda: drawn(letters, 20, 100),
    "blood cells": lambda: drawn(cells, 4, 300),
    "galaxies": lambda: drawn(galaxies, 5, 300),
    "leaves": lambda: drawn(leaves, 6, 200),
    "land from above": lambda: drawn(land, 8, 250),
}


def measured(images: Images, kinds: NDArray[np.int64], minutes: float, seeds: list[int]) -> dict[str, Any]:
    """What `fast` and k-means make of a set."""
    k = int(kinds.max()) + 1
    rows = images.reshape(len(images), -1) / 255
    means = clustering_accuracy(kinds, KMeans(k, n_init=10, random_state=0).fit_predict(rows))
    models = [GATCluster(k, minutes=minutes, random_state=seed).fit(images) for seed in seeds]
    seen = models[0].settings_.images
    return {
        "n": len(images),
        "k": k,
        "fast": [clustering_accuracy(kinds, model.labels_) for model in models],
        "k-means": means,
        "auto": ", ".join([seen.augment, *(["ink"] if seen.ink else []), *(["any turn"] if seen.any_turn else [])]),
        "empty": sum(k - len(np.unique(model.labels_)) for model in models),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0, help="of each training")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--data", type=Path, help="measure excerpts of the sets that lie here, not drawn ones")
    parser.add_argument("--sets", nargs="+", help="by their names; all of them if not given")
    options = parser.parse_args()
    sets = DRAWN if options.data is None else excerpts(options.data)
    names = options.sets or list(sets)
    for name in set(names) - set(sets):
        parser.error(f"there is no set {name!r}: choose from {', '.join(sets)}")
    machine = hardware()
    print(f"{machine['cores']} cores of {machine['cpu']}, {options.minutes:g} minutes each, seeds {options.seeds}\n")
    print("| set | images | k | `auto` | k-means, ACC | `fast`, ACC | clusters left empty |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        try:
            images, kinds = sets[name]()
        except InputError as error:
            parser.error(str(error))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row = measured(images, kinds, options.minutes, options.seeds)
        spread = f" ± {statistics.stdev(row['fast']):.3f}" if len(row["fast"]) > 1 else ""
        print(
            f"| {name} | {row['n']:,} | {row['k']} | {row['auto']} | {row['k-means']:.3f} "
            f"| {statistics.mean(row['fast']):.3f}{spread} | {row['empty']} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
