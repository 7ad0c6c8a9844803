"""Running a trained network over any number of images, a sub-batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gatcluster.choices import Device
from gatcluster.config import Settings
from gatcluster.data.augment import plain
from gatcluster.data.images import ImageSet
from gatcluster.model.network import GATNetwork


def infer(
    network: GATNetwork,
    function: Callable[[Tensor], Tensor],
    images: ImageSet,
    settings: Settings,
    indices: NDArray[np.int64] | None = None,
) -> Tensor:
    """``function`` of every image, in inference mode, in sub-batches of m₁; the result does not depend on m₁.

    Args:
        network: the network that ``function`` belongs to.
        function: a method of it, such as ``network.label_features``: images (n, C, H, W) to (n, ...).
        images: all images.
        settings: the settings the network was built from.
        indices: which images; all by default.

    Returns:
        One row for each image, on the CPU.
    """
    if indices is None:
        indices = np.arange(len(images))
    device = next(network.parameters()).device
    m1 = settings.training.target_sub_batch
    was_training = network.training
    network.eval()  # batch normalisation by running statistics: an image's result depends on that image alone
    result: Tensor | None = None
    try:
        for at in range(0, len(indices), m1):
            with torch.inference_mode():
                part = function(plain(images.batch(indices[at : at + m1]).to(device), settings.images.grey))
            if result is None:  # filled, not joined at the end: of many images, two copies would be too much
                result = torch.empty(len(indices), *part.shape[1:])
            result[at : at + m1] = part
    finally:
        network.train(was_training)
    assert result is not None
    return result


def label_features(network: GATNetwork, images: ImageSet, settings: Settings) -> NDArray[np.float32]:
    """Label features (N, k) of all images, computed on the device of the settings."""
    with _placed(network, settings.device):
        features: NDArray[np.float32] = infer(network, network.label_features, images, settings).numpy()
    return features


def attention_maps(network: GATNetwork, images: ImageSet, settings: Settings) -> NDArray[np.float32]:
    """Attention maps (N, H, W) of all images, at the resolution of the feature map."""
    with _placed(network, settings.device):
        maps: NDArray[np.float32] = infer(network, network.attention_maps, images, settings).numpy()
    return maps


def attention_gaussians(
    network: GATNetwork, images: ImageSet, settings: Settings, indices: NDArray[np.int64] | None = None
) -> NDArray[np.float32]:
    """The three numbers of each image's attention map, (N, 3): centre down the rows, centre along them, variance."""
    with _placed(network, settings.device):
        gaussians: NDArray[np.float32] = infer(network, network.attention_gaussians, images, settings, indices).numpy()
    return gaussians


@contextmanager
def _placed(network: GATNetwork, device: Device) -> Iterator[None]:
    """The network on the device that was asked for, if this machine has it, and back where it was afterwards."""
    home = next(network.parameters()).device
    if device in ("auto", "cuda") and torch.cuda.is_available():
        network.to("cuda")
    elif device in ("auto", "mps") and torch.backends.mps.is_available():
        network.to("mps")
    try:
        yield
    finally:
        network.to(home)
