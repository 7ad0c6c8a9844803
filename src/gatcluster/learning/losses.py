"""The losses of step 2, one pure function per equation of the paper.

Symbols: m images of a sub-batch, k clusters, l = ``label_features`` (m, k) with rows that sum to 1.
Sums over images or pairs are taken as means, so that a loss does not depend on m.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gatcluster.config import LossWeights

# Added inside each logarithm, so that value and gradient stay finite at one-hot label features.
_EPSILON = 1e-6


def transformation_loss(transformed_label_features: Tensor, targets: Tensor) -> Tensor:
    """Eq. "L_T", transformation invariance: L_T = -lᵗ · l̂, mean over images.

    Args:
        transformed_label_features: (m, k), lᵗ of the transformed images.
        targets: (m, k), l̂ from :func:`~gatcluster.learning.targets.balanced_targets`.

    Returns:
        A scalar in [-1, 0]; -1 where both are the same one-hot vectors, about -1/k at the start.

    >>> transformation_loss(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.8, 0.2]])).item()
    -0.5
    """
    return -(transformed_label_features * targets).sum(dim=1).mean()


def cosine_similarities(label_features: Tensor) -> Tensor:
    """d(l_i, l_j) of Eq. "L_R": the cosine of each pair, (m, m), in [0, 1].

    >>> cosine_similarities(torch.tensor([[1.0, 0.0], [0.6, 0.8]]).double()).round(decimals=2).tolist()
    [[1.0, 0.6], [0.6, 1.0]]
    """
    unit = torch.nn.functional.normalize(label_features, dim=1)
    return unit @ unit.T


def separability_loss(label_features: Tensor, relations: Tensor) -> Tensor:
    """Eq. "L_R", separability: -r log d - (1 - r) log(1 - d) with d the cosine, mean over the m² pairs.

    Args:
        label_features: (m, k).
        relations: (m, m) of 0 and 1, from :func:`~gatcluster.learning.targets.relation_targets`.

    Returns:
        A scalar >= 0; 0 where related images have equal, and unrelated ones orthogonal, label features.

    >>> l = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    >>> round(separability_loss(l, torch.ones(2, 2)).item(), 4)  # 2 of 4 pairs cost -log 0.6
    0.2554
    """
    return _binary_cross_entropy(cosine_similarities(label_features), relations).mean()


def entropy_loss(label_features: Tensor) -> Tensor:
    """Eq. "L_E", entropy analysis: Σ_h p_h log p_h with p_h = (1/m) Σ_i l_ih.

    Args:
        label_features: (m, k), of either head.

    Returns:
        A scalar in [-log k, 0]; -log k where all clusters are equally used, 0 where one holds everything.

    >>> round(entropy_loss(torch.tensor([[1.0, 0.0], [0.0, 1.0]])).item(), 4)
    -0.6931
    """
    p = label_features.mean(dim=0)  # (k,)
    return (p * torch.log(p + _EPSILON)).sum()


def attention_loss(attention_label_features: Tensor, targets: Tensor) -> Tensor:
    """Eq. "L_A", soft attention: binary cross entropy of lᵃ and l̂ᵃ, mean over the k clusters and the images.

    Args:
        attention_label_features: (m, k), lᵃ from the attention head.
        targets: (m, k), l̂ᵃ from :func:`~gatcluster.learning.targets.sharpened_targets`.

    Returns:
        A scalar >= 0.

    >>> round(attention_loss(torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0, 0.0]])).item(), 4)  # log 2
    0.6931
    """
    return _binary_cross_entropy(attention_label_features, targets).mean()


class Losses(NamedTuple):
    """The four losses of a sub-batch, unweighted, and Eq. "L_total"; scalars."""

    relation: Tensor
    transformation: Tensor
    attention: Tensor
    entropy: Tensor
    total: Tensor


def total_loss(
    label_features: Tensor,
    attention_label_features: Tensor,
    balanced: Tensor,
    sharpened: Tensor,
    relations: Tensor,
    weights: LossWeights,
) -> Losses:
    """Eq. "L_total" = L_R + α₁ L_T + α₂ L_A + α₃ L_E, with L_E the sum over both heads.

    Args:
        label_features: (m, k), of the transformed images.
        attention_label_features: (m, k), of the transformed images.
        balanced: (m, k), the T-targets.
        sharpened: (m, k), the A-targets.
        relations: (m, m).
        weights: 1 and α₁, α₂, α₃.
    """
    relation = separability_loss(label_features, relations)
    transformation = transformation_loss(label_features, balanced)
    attention = attention_loss(attention_label_features, sharpened)
    entropy = entropy_loss(label_features) + entropy_loss(attention_label_features)
    return weighted_losses(relation, transformation, attention, entropy, weights)


def weighted_losses(
    relation: Tensor, transformation: Tensor, attention: Tensor, entropy: Tensor, weights: LossWeights
) -> Losses:
    """The four losses, and their weighted sum."""
    total = (
        weights.relation * relation
        + weights.transformation * transformation
        + weights.attention * attention
        + weights.entropy * entropy
    )
    return Losses(relation, transformation, attention, entropy, total)


def _binary_cross_entropy(probabilities: Tensor, targets: Tensor) -> Tensor:
    return -targets * torch.log(probabilities + _EPSILON) - (1 - targets) * torch.log(
        (1 - probabilities).clamp_min(0) + _EPSILON  # rounding may take a cosine a little over 1
    )
