"""Batch normalisation's running statistics, brought up to date with the weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gatcluster.config import ImageSettings, Settings
from gatcluster.data.augment import plain
from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError
from gatcluster.model.inference import fitting_size, remember_size
from gatcluster.model.network import GATNetwork

STATISTICS_IMAGES = 2000  # that statistics are estimated from, at most
_LEAST_BATCH = 32
_LEAST_FITTING = 2  # where memory is short: of a single image there is no variance


def refresh_statistics(
    network: GATNetwork,
    images: ImageSet,
    settings: Settings,
    tell: Callable[[str], None] = lambda message: warnings.warn(message, stacklevel=3),
) -> None:
    """Estimate the running statistics anew, from plain images and the weights of now.

    The statistics that training keeps are averages over its last steps, of transformed images. `fast` changes the
    weights so quickly that these averages lag behind, and in a short run nothing they normalise fits any more.

    Args:
        network: whose statistics.
        images: all images.
        settings: the settings the network was built from.
        tell: called with what was done when memory did not suffice.

    Raises:
        InputError: memory does not suffice even for two images.
    """
    chosen = mixed_sample(len(images))
    wanted = max(settings.training.target_sub_batch, _LEAST_BATCH)
    size = max(_LEAST_FITTING, fitting_size(network, wanted))
    shrunk = False
    with _plain_means(network):
        while not _estimated(network, images, chosen, size, settings.images):
            if size == _LEAST_FITTING:
                raise InputError(
                    f"the device has too little memory even for {_LEAST_FITTING} images at a time: give a smaller size"
                )
            size, shrunk = max(_LEAST_FITTING, min(size, len(chosen)) // 2), True
            remember_size(network, size)
    if shrunk:
        tell(f"out of memory: images are looked at {size} at a time, for batch normalisation, too")


def mixed_sample(n_images: int) -> NDArray[np.int64]:
    """Up to 2,000 images, evenly spaced, in no order: in a folder, images of one kind often follow each other.

    A batch of a single kind would vary less than all images do, and its statistics would fit that kind alone.
    """
    chosen = np.unique(np.linspace(0, n_images - 1, STATISTICS_IMAGES).astype(np.int64))
    return np.random.default_rng(0).permutation(chosen)


def even_batches(chosen: NDArray[np.int64], most: int) -> list[NDArray[np.int64]]:
    """Batches of at most so many images, none of a single one but where there is no other.

    >>> [batch.tolist() for batch in even_batches(np.arange(7), most=5)]
    [[0, 1, 2, 3], [4, 5, 6]]
    >>> [batch.tolist() for batch in even_batches(np.arange(3), most=2)]
    [[0, 1]]
    """
    batches = np.array_split(chosen, -(-len(chosen) // most))
    return [batch for batch in batches if len(batch) > 1] or batches


def _layers(network: GATNetwork) -> list[nn.BatchNorm2d]:
    return [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]


@contextmanager
def _plain_means(network: GATNetwork) -> Iterator[None]:
    """Let running statistics be plain means over all batches that go through meanwhile."""
    layers = _layers(network)
    momenta = [layer.momentum for layer in layers]
    was_training = network.training
    for layer in layers:
        layer.momentum = None
    network.train()
    try:
        yield
    finally:
        network.train(was_training)
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum


def _estimated(
    network: GATNetwork, images: ImageSet, chosen: NDArray[np.int64], size: int, form: ImageSettings
) -> bool:
    """Whether the chosen images went through, at most so many at a time.

    From the beginning, and in batches as even as can be: each counts the same, and a few images that are left over
    would weigh as much as all in a full batch.
    """
    for layer in _layers(network):
        layer.reset_running_stats()
    device = next(network.parameters()).device
    try:
        with torch.no_grad():
            for indices in even_batches(chosen, size):
                network(plain(images.batch(indices).to(device), form))
    except torch.OutOfMemoryError:
        return False  # and not tried again within the handler: the error holds on to what was computed
    return True
