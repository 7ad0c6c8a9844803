"""Running a trained network over any number of images, a sub-batch at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
    with torch.inference_mode():
        parts = [
            function(plain(images.batch(indices[start : start + m1]).to(device), settings.images.grey)).float().cpu()
            for start in range(0, len(indices), m1)
        ]
    network.train(was_training)
    return torch.cat(parts)


def label_features(network: GATNetwork, images: ImageSet, settings: Settings) -> NDArray[np.float32]:
    """Label features (N, k) of all images."""
    features: NDArray[np.float32] = infer(network, network.label_features, images, settings).numpy()
    return features


def attention_maps(network: GATNetwork, images: ImageSet, settings: Settings) -> NDArray[np.float32]:
    """Attention maps (N, H, W) of all images, at the resolution of the feature map."""
    maps: NDArray[np.float32] = infer(network, network.attention_maps, images, settings).numpy()
    return maps
