"""Whether this machine has what a run asks for."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import torch

from gatcluster.choices import Recipe
from gatcluster.errors import InputError

_PROCESSORS = Path("/proc/cpuinfo")
_SHORT_FLOATS = re.compile(r"\b(avx512_bf16|amx_bf16|bf16)\b")  # of Intel and AMD; of ARM


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


def chosen_precision(precision: str, recipe: Recipe, device: str) -> str:
    """The precision for "auto"; any other stays as it is.

    `fast` takes 16-bit floats where the processor computes with them: steps take less time. Elsewhere they
    are imitated, and slower. `paper` is the method as published, in 32 bits.
    """
    if precision != "auto":
        return precision
    on_cpu = device == "cpu" or (
        device == "auto" and not torch.cuda.is_available() and not torch.backends.mps.is_available()
    )
    return "bf16-mixed" if recipe == "fast" and on_cpu and computes_in_bf16() else "32-true"


@cache
def computes_in_bf16() -> bool:
    """Whether this processor has instructions for 16-bit floats; known on Linux only."""
    try:
        return _SHORT_FLOATS.search(_PROCESSORS.read_text()) is not None
    except OSError:
        return False
