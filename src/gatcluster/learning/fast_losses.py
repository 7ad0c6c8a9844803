"""The paper's tasks as `fast` poses them: the same four questions, with a confidence for every target.

Symbols as in ``losses.py``; w = ``confidence`` (m,) in [0, 1] says how far the target of an image can be trusted.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gatcluster.config import LossWeights
from gatcluster.learning.losses import Losses, attention_loss, cosine_similarities, weighted_losses
from gatcluster.learning.targets import relation_targets, sharpened_targets

_EPSILON = 1e-6
# Pairs this close to where they should be are good enough: the rest of a batch matters more.
_PAIR_MARGIN = 1e-4


def log_transformation_loss(label_features: Tensor, parts: Tensor, confidence: Tensor) -> Tensor:
    """L_T in logarithmic form: -log(l · l̂) with l̂ one-hot, the mean weighted by confidence.

    The gradient of the paper's -l · l̂ vanishes where l is far from its target, which is where `fast` has to start.

    Args:
        label_features: (m, k).
        parts: (m,), the part of each image.
        confidence: (m,).

    >>> round(log_transformation_loss(torch.tensor([[0.5, 0.5]]), torch.tensor([1]), torch.ones(1)).item(), 4)
    0.6931
    """
    own = label_features.gather(1, parts[:, None])[:, 0]  # (m,)
    return -(confidence * torch.log(own + _EPSILON)).sum() / confidence.sum().clamp_min(1)


def weighted_separability_loss(label_features: Tensor, relations: Tensor, confidence: Tensor) -> Tensor:
    """L_R with each pair weighted by both confidences, and related and unrelated pairs counting the same in all.

    With k clusters only one pair in k is related; left alone, the others would drown it.

    Args:
        label_features: (m, k).
        relations: (m, m) of 0 and 1.
        confidence: (m,).

    >>> l = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    >>> round(weighted_separability_loss(l, torch.eye(2), torch.ones(2)).item(), 3)  # -log(1 - 0.6) / 2
    0.458
    """
    d = cosine_similarities(label_features)  # (m, m)
    weights = confidence[:, None] * confidence[None, :]
    related, unrelated = weights * relations, weights * (1 - relations)
    return (
        -(related * _log_up_to_margin(d)).sum() / related.sum().clamp_min(1)
        - (unrelated * _log_up_to_margin(1 - d)).sum() / unrelated.sum().clamp_min(1)
    ) / 2


def _log_up_to_margin(likelihood: Tensor) -> Tensor:
    """log, without a gradient for pairs that are all but right; those that are all but wrong keep theirs."""
    return torch.log(likelihood.clamp(0, 1 - _PAIR_MARGIN) + _PAIR_MARGIN)


def prior_entropy_loss(label_features: Tensor, prior: Tensor) -> Tensor:
    """L_E with the cluster sizes to be expected in place of equal ones: Σ_h p_h log(p_h / prior_h).

    Args:
        label_features: (m, k).
        prior: (k,), the share of each cluster; positive, sums to 1.

    Returns:
        A scalar >= 0; 0 where the clusters are used as expected. With an even prior it is L_E + log k.

    >>> round(prior_entropy_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([0.5, 0.5])).item(), 4)
    0.6931
    """
    p = label_features.mean(dim=0)  # (k,)
    return (p * torch.log((p + _EPSILON) / prior)).sum()


def fast_total_loss(
    label_features: Tensor,
    attention_label_features: Tensor,
    parts: Tensor,
    confidence: Tensor,
    prior: Tensor,
    weights: LossWeights,
) -> Losses:
    """The weighted sum of the four tasks.

    Args:
        label_features: (m, k), of the transformed images.
        attention_label_features: (m, k), of the transformed images.
        parts: (m,), the part of the neighbour graph that each image belongs to.
        confidence: (m,).
        prior: (k,), the sizes of the parts.
        weights: of the tasks.
    """
    relation = weighted_separability_loss(label_features, relation_targets(parts), confidence)
    transformation = log_transformation_loss(label_features, parts, confidence)
    attention = attention_loss(attention_label_features, sharpened_targets(label_features.detach()))
    entropy = prior_entropy_loss(label_features, prior) + prior_entropy_loss(attention_label_features, prior)
    return weighted_losses(relation, transformation, attention, entropy, weights)
