"""Steps that do not fit into the memory of a GPU, computed in parts.

The losses are those of the whole sub-batch, relations between all of its images included: the parts go through the
network one after the other, their outputs are joined, and for the gradient each part goes through once more. Only batch
normalisation looks at each part by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gatcluster.errors import InputError

Result = TypeVar("Result")

_LEAST_PART = 2  # images: of a single one there is no variance to normalise by


class Divided(nn.Module):
    """A network that takes its images in ``n_parts`` parts; with one part, it is the network itself."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.n_parts = 1

    def forward(self, images: Tensor, **options: Any) -> Any:
        """What the network says of images (n, C, H, W)."""
        if self.n_parts == 1:
            return self.network(images, **options)
        n_parts = max(1, min(self.n_parts, len(images) // _LEAST_PART))
        outputs = [
            checkpoint(
                self.network,
                part,
                use_reentrant=False,
                preserve_rng_state=False,
                context_fn=self._contexts,
                **options,
            )
            for part in images.tensor_split(n_parts)
        ]
        return _joined(outputs)

    def _contexts(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), self._statistics_stay()

    @contextmanager
    def _statistics_stay(self) -> Iterator[None]:
        """Running statistics were brought up to date by the first pass, and must not be by the second."""
        layers = [module for module in self.network.modules() if isinstance(module, nn.BatchNorm2d)]
        momenta = [layer.momentum for layer in layers]
        for layer in layers:
            layer.momentum = 0.0
        try:
            yield
        finally:
            for layer, momentum in zip(layers, momenta, strict=True):
                layer.momentum = momentum


def with_room(model: Divided, attempt: Callable[[], Result], n_images: int, tell: Callable[[str], None]) -> Result:
    """The result of a step; while memory does not suffice, the step is tried again in twice as many parts.

    Args:
        model: what the step uses.
        attempt: computes a loss and its gradient, from the same images every time.
        n_images: of the step.
        tell: called with what was done.
    """
    while True:
        try:
            return attempt()
        except torch.OutOfMemoryError:
            if n_images // (2 * model.n_parts) < _LEAST_PART:
                raise InputError(
                    f"the device has too little memory even for {_LEAST_PART} images at a time: give a smaller size"
                ) from None
        # Not within the handler: the error holds on to what the failed attempt computed.
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        model.n_parts *= 2
        tell(
            f"out of memory: steps of {n_images} images are computed in {model.n_parts} parts; losses are those of all "
            "images, batch normalisation looks at each part by itself"
        )


def _joined(outputs: list[Any]) -> Any:
    """Tensors, or tuples of them, one after the other."""
    first = outputs[0]
    if first is None:
        return None
    if isinstance(first, Tensor):
        return torch.cat(outputs)
    joined = [_joined(list(parts)) for parts in zip(*outputs, strict=True)]
    return type(first)(*joined) if hasattr(first, "_fields") else tuple(joined)
