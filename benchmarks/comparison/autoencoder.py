"""A peer: a convolutional autoencoder, and k-means on its code."""

from __future__ import annotations

import time

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from torch import Tensor, nn

from gatcluster.data.images import ImageSet

_CODE = 10  # numbers, as in DEC and its kin
_WIDTH, _MOST_CHANNELS = 32, 128
_SMALLEST_MAP = 4
_BATCH = 256
_MOST_EPOCHS = 100
_LEARNING_RATE = 1e-3
_SHARE_FOR_TRAINING = 0.85  # of the time; the rest is for the codes and k-means


class Autoencoder(nn.Module):
    """Convolutions of stride 2 down to a map of about 4x4, a code, and the same way back.

    Args:
        channels: of the images.
        size: their height and width.
    """

    def __init__(self, channels: int, size: tuple[int, int]) -> None:
        super().__init__()
        down: list[nn.Module] = []
        up: list[nn.Module] = []
        width, sides = channels, size
        while min(sides) > _SMALLEST_MAP:
            wider = min(_WIDTH if width == channels else 2 * width, _MOST_CHANNELS)
            smaller = ((sides[0] + 1) // 2, (sides[1] + 1) // 2)
            odd = (1 - sides[0] % 2, 1 - sides[1] % 2)  # what the way back has to add to reach the same size
            down += [nn.Conv2d(width, wider, 3, stride=2, padding=1), nn.BatchNorm2d(wider), nn.ReLU(inplace=True)]
            back = [nn.ConvTranspose2d(wider, width, 3, stride=2, padding=1, output_padding=odd)]
            up = back + ([nn.BatchNorm2d(width), nn.ReLU(inplace=True)] if up or down[3:] else []) + up
            width, sides = wider, smaller
        self.encoder = nn.Sequential(*down, nn.Flatten(), nn.Linear(width * sides[0] * sides[1], _CODE))
        self.decoder = nn.Sequential(
            nn.Linear(_CODE, width * sides[0] * sides[1]), nn.ReLU(inplace=True), nn.Unflatten(1, (width, *sides)), *up
        )

    def forward(self, images: Tensor) -> Tensor:
        """Images (n, C, H, W) to reconstructions of the same shape."""
        return self.decoder(self.encoder(images))


def autoencoder_kmeans(images: ImageSet, n_clusters: int, seed: int, seconds: float) -> tuple[NDArray[np.int64], int]:
    """Clusters (N,) of the codes, and for how many epochs the autoencoder was trained.

    It trains with Adam on the mean squared error, for 100 epochs or 85% of ``seconds``, whichever is over first.
    """
    end = time.monotonic() + _SHARE_FOR_TRAINING * seconds
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = Autoencoder(images.channels, images.size)
    optimizer = torch.optim.Adam(model.parameters(), lr=_LEARNING_RATE)
    epoch = 0
    while epoch < _MOST_EPOCHS and time.monotonic() < end:
        order = random.permutation(len(images))
        for start in range(0, len(order), _BATCH):
            batch = images.batch(order[start : start + _BATCH])
            loss = nn.functional.mse_loss(model(batch), batch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if time.monotonic() >= end:
                break
        epoch += 1
    model.eval()
    with torch.inference_mode():
        codes = torch.cat(
            [model.encoder(images.batch(slice(start, start + _BATCH))) for start in range(0, len(images), _BATCH)]
        ).numpy()
    return KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(codes).astype(np.int64), epoch
