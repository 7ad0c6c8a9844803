"""Image feature modules (backbones): the paper's, as tables of layers, and a lean family for CPUs.

The tables are those of the paper's appendix ("Architecture details of image feature module"). Each is a tuple of
:class:`Conv` and :class:`Pool`, so an architecture can be read, compared and counted without building it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from torch import nn

from gatcluster.errors import InputError
from gatcluster.model.convolution import PaddedConvolution


@dataclass(frozen=True)
class Conv:
    """A convolution of stride 1, then batch normalisation and ReLU ("Conv BN ReLU" in the appendix).

    ``channels=None`` stands for k, the number of clusters.
    """

    channels: int | None
    kernel: int = 3
    padding: int = 0


@dataclass(frozen=True)
class Pool:
    """The 2x2 maximum of stride 2 ("2x2-2-0 MaxPooling"); an odd last row or column is dropped."""


Layer = Conv | Pool
Layers = tuple[Layer, ...]

_CONV_K: Final = Conv(None, kernel=1)


def _imagenet_layers(first: Conv, extra: int) -> Layers:
    """The appendix's large-image column: three blocks of three, then ``extra`` times Conv-256, then Conv-k."""
    return (
        first, Conv(64), Conv(64), Pool(),
        Conv(128), Conv(128), Conv(128), Pool(),
        Conv(256), Conv(256), Conv(256), Pool(),
        *[Conv(256)] * extra, _CONV_K,
    )  # fmt: skip


_CIFAR_LAYERS: Final[Layers] = (
    Conv(64, padding=1), Conv(64, padding=1), Conv(64, padding=1), Pool(),
    Conv(128), Conv(128), Conv(128), Pool(),
    _CONV_K,
)  # fmt: skip

# Every valid 3x3 convolution of the last block takes 2 off the map, which is how the paper sets its resolution.
BACKBONES: Final[dict[str, Layers]] = {
    "stl10": _imagenet_layers(Conv(64), extra=0),
    "imagenet10": _imagenet_layers(Conv(64), extra=0),
    "imagenet10-128": _imagenet_layers(Conv(64), extra=2),
    "imagenet10-128-att10": _imagenet_layers(Conv(64), extra=0),
    "imagenet10-128-att8": _imagenet_layers(Conv(64), extra=1),
    "imagenet10-128-att6": _imagenet_layers(Conv(64), extra=2),
    "imagenet10-128-att4": _imagenet_layers(Conv(64), extra=3),
    "imagenet10-128-att2": _imagenet_layers(Conv(64), extra=4),
    "imagenet10-160": _imagenet_layers(Conv(64), extra=4),
    "imagenet10-192": _imagenet_layers(Conv(64), extra=6),
    "imagenet-dog": _imagenet_layers(Conv(64, kernel=5, padding=1), extra=1),
    "imagenet-dog-128": _imagenet_layers(Conv(64, kernel=7, padding=1), extra=3),
    "cifar10": _CIFAR_LAYERS,
    "cifar100-20": _CIFAR_LAYERS,
}


def map_side(layers: Layers, side: int) -> int:
    """Side of the feature map that ``layers`` make of an image side; 0 or less where nothing is left.

    >>> map_side(BACKBONES["stl10"], 96)
    6
    """
    for layer in layers:
        side = side // 2 if isinstance(layer, Pool) else side + 2 * layer.padding - layer.kernel + 1
        if side < 1:
            return 0
    return side


def least_side(layers: Layers) -> int:
    """The smallest image side that leaves at least one position of the feature map.

    >>> least_side(BACKBONES["cifar10"])
    16
    """
    side = 1
    while map_side(layers, side) < 1:
        side += 1
    return side


def check_size(preset: str, size: tuple[int, int]) -> None:
    """Refuse images of a height or width too small for a preset."""
    least = least_side(BACKBONES[preset])
    if min(size) < least:
        raise InputError(
            f"images of {size[0]}x{size[1]} pixels are too small for preset '{preset}': "
            f"each side must be at least {least}. Give a larger size, or no preset."
        )


class Backbone(nn.Sequential):
    """A stack of layers that knows the shape of the map it makes.

    Args:
        layers: the modules, applied in order to images (N, C, H, W).
        channels: channels of the map they make.
        map_size: height and width of that map.
    """

    def __init__(self, layers: list[nn.Module], channels: int, map_size: tuple[int, int]) -> None:
        super().__init__(*layers)
        self.channels = channels
        self.map_size = map_size


def _conv_bn_relu(in_channels: int, out_channels: int, kernel: int, padding: int, stride: int = 1) -> list[nn.Module]:
    # Without a bias: the batch normalisation that follows has a shift of its own.
    if (kernel, padding, stride) == (3, 1, 1):
        convolution: nn.Conv2d = PaddedConvolution(in_channels, out_channels)
    else:
        convolution = nn.Conv2d(in_channels, out_channels, kernel, stride=stride, padding=padding, bias=False)
    return [convolution, nn.BatchNorm2d(out_channels), nn.ReLU(inplace=True)]


def paper_backbone(preset: str, in_channels: int, n_clusters: int, size: tuple[int, int]) -> Backbone:
    """One of the paper's backbones for images of ``size`` (height, width)."""
    check_size(preset, size)
    table = BACKBONES[preset]
    modules: list[nn.Module] = []
    channels = in_channels
    for layer in table:
        if isinstance(layer, Pool):
            modules.append(nn.MaxPool2d(2))
        else:
            out_channels = n_clusters if layer.channels is None else layer.channels
            modules += _conv_bn_relu(channels, out_channels, layer.kernel, layer.padding)
            channels = out_channels
    return Backbone(modules, channels, (map_side(table, size[0]), map_side(table, size[1])))


# The lean family halves the image until its longer side is less than this: that is the attention map.
_LEAN_MAP_SIDE: Final = 6
# From this side on, the first convolution itself takes every second pixel: most of the time would go there otherwise.
_LEAN_LARGE_SIDE: Final = 24
_LEAN_GROWTH: Final = ((32, 8), (0, 4))  # from this image side on, the last layer has so many times the first's width


def lean_backbone(in_channels: int, size: tuple[int, int], width: int) -> Backbone:
    """A small backbone for any image size and channel count, made to be quick on a CPU.

    Convolutions are padded, and a side is halved only while there is something to halve, so that the smallest images
    pass too, and images of one row.

    Args:
        in_channels: channels of the images.
        size: height and width of the images.
        width: channels of the first convolution; they double at every halving, up to 4 times (8 from 32 pixels on).
    """
    shorter = min(size)
    widest = width * next(growth for side, growth in _LEAN_GROWTH if shorter >= side)
    stride, kernel = (2, 5) if shorter >= _LEAN_LARGE_SIDE else (1, 3)
    modules = _conv_bn_relu(in_channels, width, kernel, padding=kernel // 2, stride=stride)
    height, width_left = (-(-side // stride) for side in size)
    channels = width
    while max(height, width_left) >= _LEAN_MAP_SIDE:
        wider = min(2 * channels, widest)
        factor = (2 if height > 1 else 1, 2 if width_left > 1 else 1)
        modules += [*_conv_bn_relu(channels, wider, kernel=3, padding=1), nn.MaxPool2d(factor)]
        channels, height, width_left = wider, height // factor[0], width_left // factor[1]
    modules += _conv_bn_relu(channels, min(2 * channels, widest), kernel=3, padding=1)
    return Backbone(modules, min(2 * channels, widest), (height, width_left))
