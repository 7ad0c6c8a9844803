"""A convolution that is learned faster, in 16 bits on a CPU, where the map is small.

There the gradient of the weights takes the library many times as long as the convolution itself, once a map has a few
positions and hundreds of channels: it was made for maps of many positions. As one product of matrices it takes about as
long as the convolution.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

_SMALL = 16  # positions of a map, up to which the product of matrices takes less time


class PaddedConvolution(nn.Conv2d):
    """A 3x3 convolution of stride 1 whose map is as large as its input, without a bias.

    It is ``nn.Conv2d``, weights and result, however the gradient is computed.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels, kernel_size=3, padding=1, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """Maps (n, C, H, W) to maps (n, C', H, W)."""
        is_small = input.shape[2] * input.shape[3] <= _SMALL
        if is_small and torch.is_grad_enabled() and input.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            dtype = torch.get_autocast_dtype("cpu")
            return _convolved(input.to(dtype), self.weight.to(dtype))
        return super().forward(input)


class _SmallMapConvolution(torch.autograd.Function):
    """The padded 3x3 convolution, with its gradient for the weights as one product of matrices."""

    @staticmethod
    def forward(ctx: Any, maps: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(maps, weight)
        return nn.functional.conv2d(maps, weight, padding=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (gradient,) = gradients
        maps, weight = ctx.saved_tensors
        of_maps, _, _ = torch.ops.aten.convolution_backward(
            gradient, maps, weight, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, (True, False, False)
        )
        return of_maps, weight_gradient(maps, gradient)


def _convolved(maps: Tensor, weight: Tensor) -> Tensor:
    return torch.as_tensor(_SmallMapConvolution.apply(maps, weight))  # type: ignore[no-untyped-call]


def weight_gradient(maps: Tensor, gradient: Tensor) -> Tensor:
    """The gradient (C', C, 3, 3) for the weights of a padded 3x3 convolution.

    Args:
        maps: (n, C, H, W), what was convolved.
        gradient: (n, C', H, W), for the result.
    """
    n, channels, height, width = maps.shape
    padded = nn.functional.pad(maps.permute(0, 2, 3, 1), (0, 0, 1, 1, 1, 1)).contiguous()  # (n, H + 2, W + 2, C)
    image, row, column, channel = padded.stride()
    windows = padded.as_strided((n, height, width, 3, 3, channels), (image, row, column, row, column, channel))
    patches = windows.reshape(n * height * width, 9 * channels)  # each number up to nine times
    outputs = gradient.permute(0, 2, 3, 1).reshape(n * height * width, -1)  # (n·H·W, C')
    return (outputs.T @ patches).reshape(-1, 3, 3, channels).permute(0, 3, 1, 2)
