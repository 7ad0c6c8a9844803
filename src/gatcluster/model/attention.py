"""The Gaussian kernel that makes an attention map of three numbers ("Attention mapping task")."""

from __future__ import annotations

import torch
from torch import Tensor

# Keeps the exponent finite when the sigmoid underflows. At this variance the map is narrower than any grid we use.
_LEAST_DELTA = 1e-3


def gaussian_parameters(raw: Tensor) -> tuple[Tensor, Tensor]:
    """The parameters of the Gaussian kernel, Φ = [μ, Σ] with Σ = δI, from three unbounded numbers.

    Each number goes through a sigmoid of its own. (The paper's appendix names a ReLU, which leaves [0, 1] and dies.)

    Args:
        raw: (N, 3), the output of the attention module's linear layer.

    Returns:
        mu: (N, 2), the centre in [0, 1]; ``mu[:, 0]`` runs down the rows (x = 1..H), ``mu[:, 1]`` along the columns.
        delta: (N,), the variance in (0, 1].

    >>> mu, delta = gaussian_parameters(torch.zeros(1, 3))
    >>> mu.tolist(), round(delta.item(), 4)
    ([[0.5, 0.5]], 0.5005)
    """
    squashed = torch.sigmoid(raw)  # (N, 3)
    return squashed[:, :2], _LEAST_DELTA + (1 - _LEAST_DELTA) * squashed[:, 2]


def grid_positions(length: int, like: Tensor) -> Tensor:
    """Coordinates of ``length`` grid lines over [0, 1], both ends included; a single line lies in the middle.

    >>> grid_positions(3, torch.ones(1)).tolist()
    [0.0, 0.5, 1.0]
    """
    if length == 1:
        return like.new_full((1,), 0.5)
    return torch.linspace(0, 1, length, dtype=like.dtype, device=like.device)


def gaussian_attention_map(mu: Tensor, delta: Tensor, height: int, width: int, alpha: float) -> Tensor:
    """Eq. "Gaussian kernel": A(x, y) = exp(-(u - μ)ᵀ Σ⁻¹ (u - μ) / α), u = [x, y], Σ = δI.

    Args:
        mu: (N, 2), the centre, rows first.
        delta: (N,), the variance.
        height: H of the map.
        width: W of the map.
        alpha: the paper's α (0.05); the smaller, the narrower the map.

    Returns:
        (N, H, W), 1 at the centre and falling with the distance from it.

    >>> gaussian_attention_map(torch.tensor([[0.0, 0.0]]), torch.tensor([1.0]), 2, 1, alpha=1.0)[0, 0].item()
    0.7788007855415344
    """
    x = grid_positions(height, mu)[None, :, None] - mu[:, 0, None, None]  # (N, H, 1)
    y = grid_positions(width, mu)[None, None, :] - mu[:, 1, None, None]  # (N, 1, W)
    return torch.exp(-(x.square() + y.square()) / (alpha * delta[:, None, None]))  # (N, H, W)
