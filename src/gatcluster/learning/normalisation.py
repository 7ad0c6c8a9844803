"""Batch normalisation's running statistics, brought up to date with the weights."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from gatcluster.config import Settings
from gatcluster.data.augment import plain
from gatcluster.data.images import ImageSet
from gatcluster.model.network import GATNetwork

_IMAGES = 2000
_LEAST_BATCH = 32


def refresh_statistics(network: GATNetwork, images: ImageSet, settings: Settings) -> None:
    """Estimate the running statistics anew, from plain images and the weights of now.

    The statistics that training keeps are averages over its last steps, of transformed images. `fast` changes the
    weights so quickly that these averages lag behind, and in a short run nothing they normalise fits any more.
    """
    layers = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a plain mean over all batches that follow
    chosen = np.unique(np.linspace(0, len(images) - 1, _IMAGES).astype(np.int64))
    size = max(settings.training.target_sub_batch, _LEAST_BATCH)
    device = next(network.parameters()).device
    was_training = network.training
    network.train()
    with torch.no_grad():
        for start in range(0, len(chosen), size):
            network(plain(images.batch(chosen[start : start + size]).to(device), settings.images.grey))
    network.train(was_training)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
