"""Random transformations T of a batch of images, on the device, with parameters of its own for every image.

The paper's T is a random flip, a random affine map and a random colour jitter, then grey. Here the geometry of an
image is one 2x3 matrix and one resampling, its colour one matrix and one offset, whatever is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import torch
from torch import Generator, Tensor

from gatcluster.choices import Augment
from gatcluster.config import ImageSettings
from gatcluster.data.ink import backgrounds, ink

# Weights of red, green and blue in the lightness of a pixel (ITU-R BT.601).
_LUMA: Final = (0.299, 0.587, 0.114)
# The grey axis of the colour cube and two axes across it, of length 1: saturation stretches these, hue turns them.
_COLOUR_AXES: Final = (
    (1 / math.sqrt(3), 1 / math.sqrt(3), 1 / math.sqrt(3)),
    (1 / math.sqrt(2), -1 / math.sqrt(2), 0.0),
    (1 / math.sqrt(6), 1 / math.sqrt(6), -2 / math.sqrt(6)),
)

_STROKE_SIDE: Final = 28  # pixels: from this side on a stroke may grow by a whole pixel


@dataclass(frozen=True)
class Strength:
    """How far each transformation may go; numbers are drawn evenly between the bounds."""

    flip: bool  # mirror left and right, half of the time
    area: tuple[float, float] = (1.0, 1.0)  # of the window that is cut out, relative to the image's; below 1 enlarges
    stretch: float = 0.0  # logarithm of the window's change of aspect ratio
    rotation: float = 0.0  # degrees, either way
    shear: float = 0.0
    shift: float = 0.0  # relative to the image's side, beyond what keeps the window inside
    brightness: float = 0.0  # added
    contrast: float = 0.0  # factor 1 ± contrast
    saturation: float = 0.0  # factor 1 ± saturation
    fading: float = 0.0  # how often colours are lost altogether; of no account where all images become grey
    hue: float = 0.0  # radians, either way
    cutout: float = 0.0  # half the side of a box that is covered, at most, relative to the image's side
    background_fill: bool = False  # outside the image: its own background, rather than its mirror image


# A mirrored or strongly turned letter is another letter; a mirrored dog is a dog.
STRENGTHS: Final[dict[Augment, Strength]] = {
    "photo": Strength(
        flip=True, area=(0.2, 1.0), stretch=0.5,
        brightness=0.2, contrast=0.4, saturation=0.4, hue=0.3, fading=0.2,
    ),
    "glyph": Strength(
        flip=False, area=(0.56, 1.69), stretch=0.4, rotation=15, shear=0.25, shift=0.12,
        contrast=0.3, cutout=0.15, background_fill=True,
    ),
    "none": Strength(flip=False),
}  # fmt: skip


def gentler(strength: Strength, geometry: float) -> Strength:
    """The same transformations, but images are moved, turned and stretched only ``geometry`` times as far."""
    low, high = strength.area
    return replace(
        strength,
        area=(1 - (1 - low) * geometry, 1 + (high - 1) * geometry),
        stretch=strength.stretch * geometry,
        rotation=strength.rotation * geometry,
        shear=strength.shear * geometry,
        shift=strength.shift * geometry,
    )


class ColourChange(NamedTuple):
    """The colours of n images: y = matrix · x, then contrast about the mean of y, then brightness."""

    matrix: Tensor  # (n, 3, 3)
    contrast: Tensor  # (n,)
    brightness: Tensor  # (n,)


def random_affine(n: int, strength: Strength, generator: Generator) -> Tensor:
    """Matrices (n, 2, 3) that take the coordinates of the result, in [-1, 1], to those of the image."""

    def draw(low: float, high: float) -> Tensor:
        return torch.rand(n, generator=generator, device=generator.device) * (high - low) + low

    scale = draw(*strength.area).sqrt()
    aspect = torch.exp(draw(-strength.stretch, strength.stretch) / 2)
    scale_x, scale_y = scale * aspect, scale / aspect
    if strength.area[1] <= 1:  # a crop: stretching must not take the window over the edge
        scale_x, scale_y = scale_x.clamp(max=1), scale_y.clamp(max=1)
    reach_x, reach_y = ((1 - s).clamp(min=0) + 2 * strength.shift for s in (scale_x, scale_y))
    shift_x, shift_y = draw(-1, 1) * reach_x, draw(-1, 1) * reach_y
    angle = draw(-math.radians(strength.rotation), math.radians(strength.rotation))
    shear = draw(-strength.shear, strength.shear)
    mirror = torch.where(draw(0, 1) < 0.5, -1.0, 1.0) if strength.flip else torch.ones_like(scale)
    cos, sin = torch.cos(angle), torch.sin(angle)
    return torch.stack(
        [
            torch.stack([cos * scale_x * mirror, (shear * cos - sin) * scale_y, shift_x], dim=1),
            torch.stack([sin * scale_x * mirror, (shear * sin + cos) * scale_y, shift_y], dim=1),
        ],
        dim=1,
    )


def random_colour_change(n: int, strength: Strength, generator: Generator) -> ColourChange:
    """Saturation, hue, contrast and brightness for n images."""

    def draw(reach: float) -> Tensor:
        return (torch.rand(n, generator=generator, device=generator.device) * 2 - 1) * reach

    saturation, hue = 1 + draw(strength.saturation), draw(strength.hue)
    contrast, brightness = 1 + draw(strength.contrast), draw(strength.brightness)
    if strength.fading > 0:
        saturation = torch.where(draw(0.5) + 0.5 < strength.fading, 0.0, saturation)
    return ColourChange(colour_matrix(saturation, hue), contrast, brightness)


def colour_matrix(saturation: Tensor, hue: Tensor) -> Tensor:
    """Matrices (n, 3, 3) that turn and stretch the colours of RGB pixels about the grey axis.

    The mean of the three channels stays. Their lightness does not, so that the jitter shows in grey images too.

    Args:
        saturation: (n,), 1 leaves the colours, 0 takes them away.
        hue: (n,), the angle of the turn.
    """
    axes = saturation.new_tensor(_COLOUR_AXES)
    turn = saturation.new_zeros(len(saturation), 3, 3)
    turn[:, 0, 0] = 1
    turn[:, 1, 1] = turn[:, 2, 2] = saturation * torch.cos(hue)
    turn[:, 2, 1] = saturation * torch.sin(hue)
    turn[:, 1, 2] = -turn[:, 2, 1]
    return torch.matmul(axes.T @ turn, axes)


def apply_affine(
    images: Tensor, matrices: Tensor, background_fill: bool, size: tuple[int, int] | None = None
) -> Tensor:
    """Each image (n, C, H, W) resampled once through its matrix (n, 2, 3), to its own or another height and width."""
    shape = [*images.shape[:2], *(size or images.shape[2:])]
    grid = torch.nn.functional.affine_grid(matrices, shape, align_corners=False)
    if not background_fill:
        return torch.nn.functional.grid_sample(images, grid, padding_mode="reflection", align_corners=False)
    background = backgrounds(images)
    sampled = torch.nn.functional.grid_sample(images - background, grid, padding_mode="zeros", align_corners=False)
    return sampled + background


def turned(images: Tensor, degrees: float, background_fill: bool) -> Tensor:
    """All images (n, C, H, W) turned about their centre by the same angle."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    matrices = images.new_tensor([[cos, -sin, 0], [sin, cos, 0]]).expand(len(images), 2, 3)
    return apply_affine(images, matrices, background_fill)


def random_boxes(n: int, reach: float, generator: Generator) -> Tensor:
    """Boxes (n, 4) as top, bottom, left and right, relative to the sides of an image; they may lie partly outside."""
    centre = torch.rand(n, 2, generator=generator, device=generator.device)
    half = torch.rand(n, 2, generator=generator, device=generator.device) * reach
    low, high = centre - half, centre + half
    return torch.stack([low[:, 0], high[:, 0], low[:, 1], high[:, 1]], dim=1)


def cover(images: Tensor, boxes: Tensor) -> Tensor:
    """Images (n, C, H, W) with a box (n, 4) of each covered by the image's background."""
    height, width = images.shape[2:]
    y = (torch.arange(height, device=images.device) + 0.5) / height
    x = (torch.arange(width, device=images.device) + 0.5) / width
    rows = (y >= boxes[:, 0, None]) & (y < boxes[:, 1, None])  # (n, H)
    columns = (x >= boxes[:, 2, None]) & (x < boxes[:, 3, None])  # (n, W)
    covered = rows[:, None, :, None] & columns[:, None, None, :]
    return torch.where(covered, backgrounds(images), images)


def random_strokes(n: int, strokes: float, side: int, generator: Generator) -> Tensor:
    """Amounts (n,) for ``apply_strokes``, up to ``strokes`` either way; less in small images, where a pixel is much."""
    reach = strokes * min(1.0, side / _STROKE_SIDE)
    return (torch.rand(n, generator=generator, device=generator.device) * 2 - 1) * reach


def apply_strokes(images: Tensor, amounts: Tensor) -> Tensor:
    """Images (n, C, H, W) with light strokes thicker and dark ones thinner, by amounts (n,), or the reverse below 0.

    At 1 each pixel is the lightest of the nine around it, at -1 the darkest; in between it goes part of the way.
    """
    amounts = amounts[:, None, None, None]
    lightest = torch.nn.functional.max_pool2d(images, kernel_size=3, stride=1, padding=1)
    darkest = -torch.nn.functional.max_pool2d(-images, kernel_size=3, stride=1, padding=1)
    return images + amounts.abs() * (torch.where(amounts > 0, lightest, darkest) - images)


def apply_colour(images: Tensor, change: ColourChange, grey: bool) -> Tensor:
    """The colours of images (n, C, H, W) changed; RGB becomes grey afterwards if asked. Other channels stay apart."""
    contrast, brightness = change.contrast[:, None, None, None], change.brightness[:, None, None, None]
    if images.shape[1] == 3:
        matrix = change.matrix
        if grey:
            matrix = matrix.new_tensor([_LUMA]) @ matrix  # (n, 1, 3): jitter and grey at once
        images = torch.einsum("nij,njhw->nihw", matrix, images)
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return ((images - mean) * contrast + mean + brightness).clamp(0, 1)


def plain(images: Tensor, form: ImageSettings) -> Tensor:
    """Images (n, C, H, W) as the network sees them when nothing is random: (n, C', H, W)."""
    if form.ink:
        return ink(images)
    return lightness(images) if form.grey else images


def lightness(images: Tensor) -> Tensor:
    """RGB images (n, 3, H, W) in grey, (n, 1, H, W); images of other channels as they are."""
    if images.shape[1] != 3:
        return images
    return torch.einsum("c,nchw->nhw", images.new_tensor(_LUMA), images)[:, None]


def transform(images: Tensor, form: ImageSettings, generator: Generator, size: tuple[int, int] | None = None) -> Tensor:
    """The random transformation T of images (n, C, H, W), ready for the network: (n, C', H, W).

    Args:
        images: with black 0 and white 1.
        form: which transformations, how far they go, and what the network sees of colours.
        generator: draws all parameters, on the device of the images.
        size: height and width of the result, where they are not the images' own; not for ``augment="none"``.
    """
    if form.augment == "none":
        return plain(images, form)
    if form.ink:
        images = ink(images)
    strength = gentler(STRENGTHS[form.augment], form.geometry)
    if form.grey or images.shape[1] != 3:
        strength = replace(strength, fading=0.0)
    if form.any_turn:
        strength = replace(strength, rotation=180.0)
    matrices = random_affine(len(images), strength, generator)
    change = random_colour_change(len(images), strength, generator)
    images = apply_affine(images, matrices, strength.background_fill, size)
    if form.strokes > 0:
        images = apply_strokes(images, random_strokes(len(images), form.strokes, min(images.shape[2:]), generator))
    if strength.cutout > 0:
        images = cover(images, random_boxes(len(images), strength.cutout, generator))
    return apply_colour(images, change, form.grey)
