"""Paper and ink: the background of images, and drawings in any colours, seen as ink alone."""

from __future__ import annotations

import torch
from torch import Tensor

_FAINTEST = 0.1  # what differs less from its paper than this is not made to look like full ink


def backgrounds(images: Tensor) -> Tensor:
    """The background of each image (n, C, H, W): the median of its outermost pixels, (n, C, 1, 1)."""
    return edges(images).median(dim=2).values[:, :, None, None]


def edges(images: Tensor) -> Tensor:
    """The outermost pixels of images (n, C, H, W), those of the corners twice: (n, C, 2H + 2W)."""
    return torch.cat([images[:, :, 0], images[:, :, -1], images[:, :, :, 0], images[:, :, :, -1]], dim=2)


def ink(images: Tensor) -> Tensor:
    """How far each pixel of images (n, C, H, W) is from the colour of its paper, 1 at the most: (n, 1, H, W).

    >>> red_on_green = torch.tensor([0.0, 1.0, 0.0])[:, None, None].repeat(1, 5, 5)
    >>> red_on_green[:, 2, 2] = torch.tensor([1.0, 0.0, 0.0])
    >>> ink(red_on_green[None])[0, 0, 2].tolist()
    [0.0, 0.0, 1.0, 0.0, 0.0]
    """
    distance = (images - backgrounds(images)).abs().amax(dim=1, keepdim=True)
    return distance / distance.amax(dim=(2, 3), keepdim=True).clamp_min(_FAINTEST)
