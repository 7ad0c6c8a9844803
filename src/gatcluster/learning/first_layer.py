"""A first convolution that begins with what the images' own patches look like.

Neighbouring pixels are nearly alike, so filters drawn by chance all see the same thing: how light a patch is. Filters
along the principal directions of the patches, each scaled to the same variance, see edges and colours as clearly as
lightness from the first step on; a network that learns for minutes need not find them.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from gatcluster.model.network import GATNetwork

_FLAT = 1e-6  # of the largest variance: a direction of less is noise of the arithmetic
_NOTHING = 1e-10  # a variance of pixels in [0, 1] that is none
_REGULARISATION = 1e-3  # of the mean variance, so that the narrowest directions are not blown up to noise
_MOST_NUMBERS = 1024  # of a patch: of more, directions take longer to find than they save
_MOST_PATCHES_A_SIDE = 16  # of an image: more of them tell nothing new


def begin_whitened(network: GATNetwork, batches: Iterable[Tensor]) -> None:
    """Let the first convolution of the backbone begin with whitening filters; those beyond them stay as drawn.

    Args:
        network: whose backbone begins with a convolution.
        batches: images (n, C, H, W) in [0, 1], as the network sees them in training.
    """
    convolution = network.backbone[0]
    assert isinstance(convolution, nn.Conv2d)
    n_numbers = convolution.weight[0].numel()  # C · kernel · kernel
    if n_numbers > _MOST_NUMBERS:
        return
    covariance = patch_covariance((batch - network.mean for batch in batches), convolution)
    filters = whitening_filters(covariance, len(convolution.weight)).to(convolution.weight)
    with torch.no_grad():
        convolution.weight[: len(filters)] = filters.reshape(-1, *convolution.weight.shape[1:])


def patch_covariance(batches: Iterable[Tensor], convolution: nn.Conv2d) -> Tensor:
    """The covariance (d, d) of the patches that a convolution sees in images (n, C, H, W), d numbers in each."""
    kernel = convolution.kernel_size
    count, total, products = 0, torch.zeros(()), torch.zeros(())
    for images in batches:
        # An image smaller than a patch is seen with the zeros around it.
        padded = nn.functional.pad(images, _missing(images, kernel))
        strides = tuple(
            max(stride, side // _MOST_PATCHES_A_SIDE)
            for stride, side in zip(convolution.stride, images.shape[2:], strict=True)
        )
        patches = nn.functional.unfold(padded, kernel, stride=strides).transpose(1, 2).flatten(0, 1)  # (p, d)
        patches = patches.to("cpu", torch.float64)
        count, total, products = count + len(patches), total + patches.sum(dim=0), products + patches.T @ patches
    mean = total / count
    return products / count - mean[:, None] * mean[None, :]


def _missing(images: Tensor, kernel: tuple[int, ...]) -> tuple[int, int, int, int]:
    """What an image lacks to hold a patch: left, right, top, bottom."""
    height, width = (max(0, size - side) for size, side in zip(kernel, images.shape[2:], strict=True))
    return width // 2, width - width // 2, height // 2, height - height // 2


def whitening_filters(covariance: Tensor, most: int) -> Tensor:
    """Filters (n, d), n <= ``most``: the principal directions of a covariance (d, d), each with its negative.

    Widest directions first, all scaled to about the same variance. What follows is a ReLU, which would lose one side of
    each direction; hence the negatives, which make the second half.

    >>> whitening_filters(torch.diag(torch.tensor([4.0, 1.0])).double(), 2).abs().round(decimals=2).tolist()
    [[0.5, 0.0], [0.5, 0.0]]
    """
    variances, directions = torch.linalg.eigh(covariance)  # rising
    variances, directions = variances.flip(0), directions.flip(1)
    n_wide = int((variances > max(_FLAT * float(variances[0]), _NOTHING)).sum())
    n = min(most // 2, n_wide)
    scales = (variances[:n] + _REGULARISATION * variances.clamp_min(0).mean()).rsqrt()  # (n,)
    filters = (directions[:, :n] * scales).T  # (n, d)
    return torch.cat([filters, -filters])
