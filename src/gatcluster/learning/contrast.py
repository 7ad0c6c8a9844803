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


def contrastive_loss(views: Tensor, temperature: float, n_views: int = 2, parts: Tensor | None = None) -> Tensor:
    """How badly the views of each image find one another among the views of the others.

    For every two views of an image: the normalised, temperature-scaled cross entropy of contrastive learning, in which
    the image's further views, if there are any, are left out. With more than two views, a batch of as many pictures
    says more: it holds more pairs to be brought together.

    Args:
        views: (v·n, d), projections of one transformation of n images, then of another, v in all.
        temperature: of the softmax over cosines.
        n_views: v.
        parts: (v·n,), views of the same part need not be told apart; negative: of no part.

    Returns:
        A scalar >= 0.

    >>> views = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    >>> round(contrastive_loss(views, temperature=1.0).item(), 4)  # log(e + 2) - 1
    0.5514
    """
    unit = nn.functional.normalize(views, dim=1)
    similarities = unit @ unit.T / temperature  # (m, m) with m = v·n
    every = torch.arange(len(views), device=views.device)
    n_images = len(views) // n_views
    own = every[:, None] % n_images == every[None, :] % n_images  # (m, m), views of the same image
    ignored = own if parts is None else own | ((parts[:, None] == parts[None, :]) & (parts >= 0))
    # Not -∞: where nothing is left to be told apart from, the gradient would be no number.
    among = similarities.masked_fill(ignored, torch.finfo(similarities.dtype).min / 2).logsumexp(dim=1)  # (m,)
    steps = n_images * torch.arange(1, n_views, device=views.device)
    partners = (every[:, None] + steps) % len(views)  # (m, v - 1)
    return nn.functional.softplus(among[:, None] - similarities.gather(1, partners)).mean()
