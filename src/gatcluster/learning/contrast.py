"""Contrast: two views of an image find each other among the views of others."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_HIDDEN = 512
_OUTPUT = 64


def projection_head(channels: int) -> nn.Sequential:
    """What contrast puts on top of the pooled image features, and clustering throws away: (n, C) to (n, 64)."""
    return nn.Sequential(
        nn.Linear(channels, _HIDDEN),
        nn.BatchNorm1d(_HIDDEN),
        nn.ReLU(inplace=True),
        nn.Linear(_HIDDEN, _OUTPUT),
    )


def contrastive_loss(views: Tensor, temperature: float, parts: Tensor | None = None) -> Tensor:
    """How badly each image's two views find each other among all views of the batch.

    This is the normalised, temperature-scaled cross entropy of contrastive learning.

    Args:
        views: (2n, d), projections of one transformation of n images, then of another.
        temperature: of the softmax over cosines.
        parts: (2n,), views of the same part need not be told apart; negative: of no part.

    Returns:
        A scalar >= 0.

    >>> views = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    >>> round(contrastive_loss(views, temperature=1.0).item(), 4)  # log(e + 2) - 1
    0.5514
    """
    unit = nn.functional.normalize(views, dim=1)
    similarities = unit @ unit.T / temperature  # (2n, 2n)
    every = torch.arange(len(views), device=views.device)
    partner = every.roll(len(views) // 2)
    ignored = torch.eye(len(views), dtype=torch.bool, device=views.device)
    if parts is not None:
        ignored |= (parts[:, None] == parts[None, :]) & (parts >= 0)
        ignored[every, partner] = False
    return nn.functional.cross_entropy(similarities.masked_fill(ignored, -torch.inf), partner)
