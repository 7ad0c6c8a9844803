"""Whether this machine has what a run asks for."""

from __future__ import annotations

import os

import torch

from gatcluster.errors import InputError


def machine_memory() -> int:
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_device(device: str, precision: str) -> None:
    """Refuse, before an image is read, a device that is not there."""
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device 'cuda' was asked for, but no CUDA device is available: give 'auto' or 'cpu'")
    if device == "mps" and not torch.backends.mps.is_available():
        raise InputError("device 'mps' was asked for, but is not available: give 'auto' or 'cpu'")
    if precision == "16-mixed" and not torch.cuda.is_available():
        raise InputError("precision '16-mixed' needs a CUDA device: give '32-true' or 'bf16-mixed'")
