"""The scores of a fitted network that need no labels, to be held against its accuracy."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy
from torch import Tensor

from gatcluster.config import ImageSettings
from gatcluster.data.augment import transform
from gatcluster.data.images import ImageSet
from gatcluster.evaluation.label_free import information_score
from gatcluster.model.network import GATNetwork

SCORES: Final = ("information", "confidence", "invariance")
SCORES_EXPLAINED: Final = (
    "Information is what `score` of the estimator returns; confidence is the mean of the largest label feature; "
    "invariance is how much the cluster of a transformed image tells of that of another transformation of it "
    "(mutual information, 4,000 images)."
)
_VIEWED_IMAGES, _AT_A_TIME = 4000, 200


def label_free_scores(
    label_features: NDArray[np.float32], network: GATNetwork, images: ImageSet, form: ImageSettings
) -> dict[str, float]:
    """All of ``SCORES``.

    Args:
        label_features: (N, k), of the plain images.
        network: that made them, on the CPU.
        images: all N.
        form: the transformations under which clusters are to stay.
    """
    return {
        "information": information_score(label_features),
        "confidence": float(label_features.max(axis=1).mean()),
        "invariance": invariance_score(*_of_two_views(network, images, form)),
    }


def invariance_score(first: ArrayLike, second: ArrayLike) -> float:
    """How much the cluster of one view of an image tells of the cluster of another: mutual information, of log k.

    A clustering that goes by what a transformation changes, such as colour or place, is sure of every view and yet
    scores little here.

    Args:
        first: (N, k), label features of one random transformation of each image.
        second: (N, k), of another.

    >>> sure = [[1.0, 0.0], [0.0, 1.0]]
    >>> invariance_score(sure, sure), invariance_score(sure * 2, sure + sure[::-1])
    (1.0, 0.0)
    """
    one, other = (np.asarray(features, dtype=np.float64) for features in (first, second))
    joint = (one.T @ other + other.T @ one) / (2 * len(one))  # (k, k), how often both clusters meet
    alone = joint.sum(axis=0)  # (k,)
    information = xlogy(joint, joint).sum() - 2 * xlogy(alone, alone).sum()
    return float(information / np.log(len(alone)))


@torch.inference_mode()
def _of_two_views(network: GATNetwork, images: ImageSet, form: ImageSettings) -> tuple[Tensor, Tensor]:
    """Label features (n, k) of two random transformations of a sample; the same draws for every network."""
    chosen = np.random.default_rng(0).permutation(len(images))[:_VIEWED_IMAGES]
    generator = torch.Generator().manual_seed(0)
    found = []
    network.eval()
    for start in range(0, len(chosen), _AT_A_TIME):
        batch = images.batch(chosen[start : start + _AT_A_TIME])
        found.append([network.label_features(transform(batch, form, generator)) for _ in range(2)])
    first, second = (torch.cat(features) for features in zip(*found, strict=True))
    return first, second
