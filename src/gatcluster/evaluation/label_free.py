"""Scores of a clustering that need no labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy


def information_score(label_features: ArrayLike) -> float:
    """How much a cluster tells of an image: the mutual information of images and clusters, as a share of log k.

    It is the entropy of the mean label feature (are all clusters used?) less the mean entropy of the label features
    (is each image surely in one?): 1 where k equally large clusters hold their images surely, 0 where every image
    looks alike to the network.

    Args:
        label_features: (N, k), rows that sum to 1.

    >>> information_score([[1.0, 0.0], [0.0, 1.0]])
    1.0
    >>> information_score([[0.5, 0.5], [0.5, 0.5]])
    0.0
    """
    features = np.asarray(label_features, dtype=np.float64)
    mean = features.mean(axis=0)  # (k,)
    of_mean = -xlogy(mean, mean).sum()
    mean_of = -xlogy(features, features).sum(axis=1).mean()
    return float((of_mean - mean_of) / np.log(features.shape[1]))
