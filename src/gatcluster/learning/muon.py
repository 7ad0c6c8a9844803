"""Muon: momentum, made orthogonal, for the matrices of a network.

An update of a weight matrix is replaced by the orthogonal matrix nearest to it, so that all its directions move at the
same speed (Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024). In the first minutes of a
training, which are all we have, nothing else we measured learns as much per image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import torch
from torch import Tensor, nn

# Coefficients of a quintic whose iteration drives singular values towards 1; steep at 0, so that few steps suffice.
_QUINTIC: Final = (3.4445, -4.7750, 2.0315)
_QUINTIC_STEPS: Final = 3
_TINY: Final = 1e-7
_LARGE: Final = 128  # rows and columns of a matrix from which on 16 bits take less time than 32


def nearly_orthogonal(matrix: Tensor) -> Tensor:
    """A matrix with the singular vectors of ``matrix`` (rows, columns) and singular values roughly 1.

    >>> values = torch.linalg.svdvals(nearly_orthogonal(torch.diag(torch.tensor([4.0, 2.0, 1.0]))))
    >>> bool(values.min() > 0.5), bool(values.max() < 1.3)
    (True, True)
    """
    a, b, c = _QUINTIC
    if matrix.shape[0] > matrix.shape[1]:
        return nearly_orthogonal(matrix.T).T
    x: Tensor = matrix / (matrix.square().sum().sqrt() + _TINY)  # the Frobenius norm bounds every singular value by 1
    for _ in range(_QUINTIC_STEPS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


class Muon(torch.optim.Optimizer):
    """Orthogonalised Nesterov momentum for parameters of two or more dimensions.

    Args:
        parameters: weights; a convolution's are taken as a matrix (out, in · height · width).
        lr: the length of a step.
        momentum: how much of the last update goes into the next.
        in_16_bits: make large updates orthogonal in bfloat16, which is about 1% off; weights and momenta keep theirs.
    """

    def __init__(
        self, parameters: Iterable[Tensor], lr: float, momentum: float = 0.9, in_16_bits: bool = False
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})
        self.in_16_bits = in_16_bits

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Take one step."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(weight.grad)
                momentum = state["momentum"].mul_(group["momentum"]).add_(weight.grad)
                ahead = weight.grad.add(momentum, alpha=group["momentum"]).reshape(len(weight), -1)  # (out, rest)
                rows, columns = ahead.shape
                scale = max(1.0, rows / columns) ** 0.5  # a tall matrix gets the same change of each output
                if self.in_16_bits and min(rows, columns) >= _LARGE:
                    ahead = ahead.bfloat16()
                update = nearly_orthogonal(ahead).to(weight.dtype).reshape(weight.shape)
                weight.add_(update, alpha=-group["lr"] * scale)


def fast_optimizers(module: nn.Module, in_16_bits: bool = False) -> tuple[Muon, torch.optim.Adam]:
    """Muon for the matrices of ``module``, Adam for its biases and normalisations; set their rates before a step."""
    weights = list(module.parameters())
    return (
        Muon([weight for weight in weights if weight.ndim > 1], lr=0.0, in_16_bits=in_16_bits),
        torch.optim.Adam([weight for weight in weights if weight.ndim <= 1], lr=0.0, betas=(0.9, 0.99)),
    )
