"""Embeddings with their directions made more alike, before neighbours are looked for."""

from __future__ import annotations

import torch
from torch import Tensor

_FLAT = 1e-9  # of the largest variance: a direction of less is noise of the arithmetic
_NOTHING = 1e-30


def whitened(embedding: Tensor, whitening: float) -> Tensor:
    """The embedding around its mean, in the directions of its variance, the wide ones made narrower.

    A few directions hold most of what an embedding learned by contrast varies in, and they alone would decide who is
    near whom. Kinds differ in the other ones, too.

    Args:
        embedding: (N, C).
        whitening: 0 leaves all directions as wide as they are, 1 makes them equally wide; in between, a standard
            deviation s becomes s to the power of 1 - whitening.

    Returns:
        (N, C), all zeros if the embedding is the same for all images.

    >>> whitened(torch.tensor([[16.0, 1.0], [16.0, -1.0], [-16.0, 1.0], [-16.0, -1.0]]), 0.5).abs().tolist()[0]
    [1.0, 4.0]
    """
    centred = embedding - embedding.mean(dim=0)
    variances, directions = torch.linalg.eigh((centred.T @ centred).double() / len(centred))  # (C,), (C, C)
    least = max(_FLAT * float(variances[-1]), _NOTHING)
    narrowing: Tensor = (directions * variances.clamp_min(least).pow(-whitening / 2)).to(embedding)  # (C, C)
    return centred @ narrowing
