"""Running a trained network over any number of images, a sub-batch at a time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gatcluster.choices import Device
from gatcluster.config import Settings
from gatcluster.data.augment import plain
from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError
from gatcluster.model.network import GATNetwork

# The m₁ that fitted, of networks for which that of the settings did not.
_fitting: WeakKeyDictionary[GATNetwork, int] = WeakKeyDictionary()


def fitting_size(network: GATNetwork, wanted: int) -> int:
    """How many images to look at, at a time: as many as wanted, or as fitted when those did not."""
    return min(wanted, _fitting.get(network, wanted))


def remember_size(network: GATNetwork, size: int) -> None:
    """Let no more images be looked at, at a time, from now on; what the failed attempt took is given back."""
    _fitting[network] = size
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def infer(
    network: GATNetwork,
    function: Callable[[Tensor], Tensor],
    images: ImageSet,
    settings: Settings,
    indices: NDArray[np.int64] | None = None,
    tell: Callable[[str], None] = lambda message: warnings.warn(message, stacklevel=3),
) -> Tensor:
    """``function`` of every image, in inference mode, in sub-batches of m₁; the result does not depend on m₁.

    Args:
        network: the network that ``function`` belongs to.
        function: a method of it, such as ``network.label_features``: images (n, C, H, W) to (n, ...).
        images: all images.
        settings: the settings the network was built from.
        indices: which images; all by default.
        tell: called with what was done when memory did not suffice.

    Returns:
        One row for each image, on the CPU.
    """
    if indices is None:
        indices = np.arange(len(images))
    device = next(network.parameters()).device
    form, m1 = settings.images, fitting_size(network, settings.training.target_sub_batch)
    was_training = network.training
    network.eval()  # batch normalisation by running statistics: an image's result depends on that image alone
    result: Tensor | None = None
    try:
        at = 0
        while at < len(indices):
            try:
                with torch.inference_mode():
                    batch = images.batch(indices[at : at + m1]).to(device)
                    part = function(plain(batch, form))
            except torch.OutOfMemoryError:
                if m1 == 1:
                    raise InputError(
                        "the device has too little memory even for one image at a time: give a smaller size"
                    ) from None
                part = None
            if part is None:  # not within the handler: the error holds on to what was computed
                m1 = m1 // 2
                remember_size(network, m1)
                tell(f"out of memory: images are looked at {m1} at a time; the result is the same")
                continue
            if result is None:  # filled, not joined at the end: of many images, two copies would be too much
                result = torch.empty(len(indices), *part.shape[1:])
            result[at : at + m1] = part
            at += m1
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
