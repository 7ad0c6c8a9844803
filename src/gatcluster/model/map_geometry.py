"""Where the positions of a feature map lie in the image, so that an attention map can be laid over it in its place.

Convolutions without padding leave out the border: the 5x5 map of the paper's CIFAR backbone covers only the middle of
the image. Stretching a map over the whole image would point beside what the network looks at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

from gatcluster.model.backbones import Backbone


class Axis(NamedTuple):
    """One axis of a feature map: position i lies at ``first + step * i``, in pixels from the image's edge.

    The middle of the first pixel is at 0.5.
    """

    first: float
    step: float
    length: int  # positions of the map

    def pixels(self, coordinate: NDArray[np.floating]) -> NDArray[np.float64]:
        """Where coordinates of the map lie, which run from 0 at the first position to 1 at the last."""
        place = np.asarray(coordinate, dtype=np.float64) * (self.length - 1)
        return self.first + self.step * place

    def coordinates(self, pixels: NDArray[np.floating]) -> NDArray[np.float64]:
        """The reverse: coordinates of the map, which leave [0, 1] beyond its outer positions."""
        if self.length == 1:  # a single position is the middle, wherever one looks from
            return np.full(np.shape(pixels), 0.5)
        return (np.asarray(pixels, dtype=np.float64) - self.first) / (self.step * (self.length - 1))


def map_axes(backbone: Backbone) -> tuple[Axis, Axis]:
    """Rows and columns of the map that a backbone makes: where the middle of what each position sees lies.

    >>> from gatcluster.model.backbones import paper_backbone
    >>> rows, columns = map_axes(paper_backbone("cifar10", in_channels=1, n_clusters=10, size=(32, 32)))
    >>> rows
    Axis(first=8.0, step=4.0, length=5)
    """
    first, step = [0.5, 0.5], [1.0, 1.0]
    for module in backbone.modules():
        if not isinstance(module, (nn.Conv2d, nn.MaxPool2d)):
            continue
        kernel, stride, padding = (_pair(value) for value in (module.kernel_size, module.stride, module.padding))
        for axis in (0, 1):
            first[axis] += ((kernel[axis] - 1) / 2 - padding[axis]) * step[axis]
            step[axis] *= stride[axis]
    height, width = backbone.map_size
    return Axis(first[0], step[0], height), Axis(first[1], step[1], width)


def _pair(value: int | str | tuple[int, ...]) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    assert not isinstance(value, str)  # padding by a name is nowhere used
    return value[0], value[1]
