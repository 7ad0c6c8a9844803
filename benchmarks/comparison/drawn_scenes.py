"""Drawn stand-ins for what people have in their folders: cells under a microscope, galaxies, leaves, land from above.

Each function draws one image of a kind, (SIDE, SIDE) or (SIDE, SIDE, 3); what does not tell kinds apart is drawn by
chance: places, sizes, turns, stains, light, noise.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

Field = NDArray[np.float64]
Random = np.random.Generator

SIDE: Final = 48
_Y, _X = np.mgrid[:SIDE, :SIDE].astype(np.float64)
_FULL_TURN: Final = 2 * np.pi


def cells(kind: int, random: Random) -> NDArray[np.uint8]:
    """A white blood cell among red ones, stained: its nucleus is round, of two lobes, a kidney, or of four lobes."""
    image = np.ones((SIDE, SIDE, 3)) * _near([225, 205, 210], 8, random)
    for _ in range(random.integers(2, 6)):
        red = _disc(*random.uniform(0, SIDE, 2), random.uniform(6, 9))
        image = _painted(image, red, _near([220, 155, 155], 6, random))
    x, y = SIDE / 2 + random.normal(0, 2, 2)
    radius, turn = random.uniform(13, 17), random.uniform(0, _FULL_TURN)
    plasma = ([205, 195, 225], [220, 180, 190], [190, 190, 220], [215, 190, 215])[kind]
    image = _painted(image, _disc(x, y, radius), _near(plasma, 6, random))

    def lobe(angle: float, distance: float, size: float) -> Field:
        return _disc(x + np.cos(angle) * distance * radius, y + np.sin(angle) * distance * radius, size * radius)

    nucleus = (
        lobe(turn, 0.06, 0.78),
        np.maximum(lobe(turn, 0.45, 0.4), lobe(turn + np.pi, 0.45, 0.4)),
        lobe(turn, 0.0, 0.7) * (1 - lobe(turn, 0.6, 0.4)),
        np.max([lobe(turn + 1.2 * number, 0.5, 0.28) for number in range(4)], axis=0),
    )[kind]
    image = _painted(image, nucleus, _near([95, 60, 140], 10, random))
    return _taken(gaussian_filter(image, (0.6, 0.6, 0)), 4, random)


def galaxies(kind: int, random: Random) -> NDArray[np.uint8]:
    """On black, turned by any angle: a spiral, an ellipse, a disc from its edge, a ring, two that meet."""
    size = random.uniform(6, 10)
    x, y = _turned(random.uniform(0, _FULL_TURN), 1.5, random)
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    if kind == 0:
        arms = 1 + 0.9 * np.cos(2 * (angle - random.choice([-1, 1]) * 2.2 * np.log(radius + 1)))
        light = np.exp(-radius / size) * arms + 1.2 * np.exp(-((radius / 2.5) ** 2))
    elif kind == 1:
        light = np.exp(-2 * np.hypot(x, y / random.uniform(0.6, 1)) / size)
    elif kind == 2:
        light = np.exp(-1.1 * np.abs(x) / size - np.abs(y) / 1.6)
    elif kind == 3:
        light = np.exp(-(((radius - 1.4 * size) / 2) ** 2)) + np.exp(-((radius / 2) ** 2))
    else:
        light = sum(np.exp(-np.hypot(x - side * 0.9 * size, y) / (0.35 * size)) for side in (-1, 1))
    light = light / light.max() * random.uniform(115, 230)
    for _ in range(random.integers(0, 4)):
        star_x, star_y = random.uniform(0, SIDE, 2)
        light = light + random.uniform(60, 200) * np.exp(-((_X - star_x) ** 2 + (_Y - star_y) ** 2) / 2)
    return _taken(gaussian_filter(light, 0.7) + 12, 7, random)


def leaves(kind: int, random: Random) -> NDArray[np.uint8]:
    """Green, or one in four brown, on white: round, long, lobed, toothed, a heart, with leaflets."""
    x, y = (axis / random.uniform(14, 20) for axis in _turned(random.normal(0, 0.5), 1.5, random))
    radius, angle = np.hypot(x, y), np.arctan2(x, -y)
    notch = np.exp(-(((np.abs(angle) - np.pi) / 0.35) ** 2))
    inside = (
        radius < 0.8,
        np.hypot(x / 0.28, y / 0.95) < 1,
        radius < 0.55 + 0.35 * np.abs(np.cos(2.5 * angle)),
        radius < 0.75 + 0.07 * np.sign(np.sin(18 * angle)),
        radius < 0.8 * (1 - 0.45 * notch) * (1 + 0.15 * np.cos(angle)),
        np.any([np.hypot((np.abs(x) - 0.4) / 0.35, (y - at) / 0.16) < 1 for at in (-0.9, -0.37, 0.17, 0.7)], axis=0)
        | (np.abs(x) < 0.04),
    )[kind]
    green, brown = random.uniform([40, 110, 30], [120, 170, 70]), random.uniform([150, 100, 30], [200, 140, 50])
    vein = 30 * (np.abs(x) < 0.03)[..., None]
    colour = (brown if random.random() < 0.25 else green) + vein + _mottle(1.5, 25, random)
    paper = np.ones((SIDE, SIDE, 3)) * random.uniform(235, 250)
    return _taken(_painted(paper, gaussian_filter(inside.astype(np.float64), 0.6), colour), 3, random)


def land(kind: int, random: Random) -> NDArray[np.uint8]:
    """From above: forest, water, a ploughed field, a town's blocks, a river, a road, bare ground, houses in gardens."""
    turn = random.uniform(0, np.pi)
    across = (_X - SIDE / 2) * np.cos(turn) + (_Y - SIDE / 2) * np.sin(turn)
    along = (_Y - SIDE / 2) * np.cos(turn) - (_X - SIDE / 2) * np.sin(turn)
    colour, grain, depth = (
        ([40, 75, 45], 1.2, 40), ([25, 50, 90], 6.0, 90), ([135, 125, 75], 3.0, 40), ([110, 110, 110], 1.0, 0),
        ([60, 95, 55], 2.0, 60), ([90, 105, 62], 2.0, 60), ([175, 150, 115], 5.0, 90), ([85, 105, 70], 1.5, 45),
    )[kind]  # fmt: skip
    image = np.array(colour) + _mottle(grain, depth, random)
    if kind == 2:
        image = image + 18 * np.sin(random.uniform(0.5, 0.9) * across)[..., None]
    elif kind == 3:
        block = random.integers(9, 13)
        x, y = (axis.astype(int) + random.integers(0, block) for axis in (_X, _Y))
        roofs = random.uniform(110, 220, (SIDE, SIDE))[y // block, x // block]
        image = np.where(((x % block < 2) | (y % block < 2))[..., None], image, roofs[..., None])
    elif kind == 4:
        bend = across + 5 * np.sin(0.15 * along + random.uniform(0, _FULL_TURN))
        river = gaussian_filter((np.abs(bend) < random.uniform(3, 5)).astype(np.float64), 0.7)
        image = _painted(image, river, np.array([35, 60, 95]))
    elif kind == 5:
        middle = np.abs(across + random.normal(0, 4))[..., None]
        image = np.where(middle < 3.2, np.where(middle < 0.6, 225, 125), image)
    elif kind == 7:
        for _ in range(random.integers(14, 22)):
            (x, y), (width, height) = random.integers(2, SIDE - 6, 2), random.integers(3, 6, 2)
            image[y : y + height, x : x + width] = ([190, 90, 70], [150, 150, 155], [120, 80, 70])[random.integers(3)]
    return _taken((image - 110) * random.uniform(0.8, 1.2) + 110 + random.normal(0, 10), 4, random)


def _near(colour: list[int], spread: float, random: Random) -> Field:
    """A colour that is a little off."""
    return np.array(colour) + random.normal(0, spread, 3)


def _disc(x: float, y: float, radius: float) -> Field:
    """1 inside, 0 outside, with a soft edge."""
    return (radius - np.hypot(_X - x, _Y - y)).clip(0, 1)


def _painted(image: Field, mask: Field, colour: Field) -> Field:
    return image * (1 - mask[..., None]) + mask[..., None] * colour


def _turned(angle: float, shake: float, random: Random) -> tuple[Field, Field]:
    """Coordinates about a centre near the middle, turned."""
    x, y = (axis - SIDE / 2 + random.normal(0, shake) for axis in (_X, _Y))
    return x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)


def _mottle(grain: float, depth: float, random: Random) -> Field:
    """Light and dark patches of about ``grain`` pixels, (SIDE, SIDE, 1)."""
    return depth * gaussian_filter(random.normal(0, 1, (SIDE, SIDE)), grain)[..., None]


def _taken(scene: Field, noise: float, random: Random) -> NDArray[np.uint8]:
    """A picture of the scene, by a camera that has some noise."""
    return (scene + random.normal(0, noise, scene.shape)).clip(0, 255).astype(np.uint8)
