"""The attention map over its image: the Gaussian, drawn at every pixel, where the network looked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gatcluster.model.map_geometry import Axis


def attention_over_image(
    gaussians: NDArray[np.floating],
    axes: tuple[Axis, Axis],
    image_size: tuple[int, int],
    alpha: float,
    shown_size: tuple[int, int] | None = None,
) -> NDArray[np.float32]:
    """The Gaussian kernel of each image at every pixel, in (0, 1].

    At the middles of the feature map's positions it has the values that weighted the features.

    Args:
        gaussians: (n, 3): centre down the rows and along the columns, and variance, in coordinates of the map.
        axes: where the map's rows and columns lie in the image.
        image_size: height and width of what the network saw.
        alpha: of the kernel.
        shown_size: height and width to draw at; that of the image by default.

    Returns:
        (n, height, width).
    """
    shown_size = shown_size or image_size
    distances = []
    for number, (axis, side, shown) in enumerate(zip(axes, image_size, shown_size, strict=True)):
        middles = (np.arange(shown) + 0.5) * side / shown  # of the shown pixels, in pixels of the image
        offsets = axis.coordinates(middles)[None, :] - gaussians[:, number, None]  # (n, shown)
        distances.append(np.square(offsets))
    squares = distances[0][:, :, None] + distances[1][:, None, :]  # (n, height, width)
    maps: NDArray[np.float32] = np.exp(-squares / (alpha * gaussians[:, 2, None, None])).astype(np.float32)
    return maps


def attention_centres(gaussians: NDArray[np.floating], axes: tuple[Axis, Axis]) -> NDArray[np.float64]:
    """The centre of each image's attention (n, 2), in pixels from the top and from the left of what the network saw."""
    return np.stack([axis.pixels(gaussians[:, number]) for number, axis in enumerate(axes)], axis=1)
