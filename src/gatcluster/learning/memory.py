"""A memory budget: the sub-batches m₁ and m₂ that fit into it, found by measuring real steps at two small sizes.

Peak memory is what a process has before training, plus something fixed, plus so much for each image of a sub-batch.
The last two are told from the peaks of real steps of two sizes; nothing is assumed of the network. On a CPU it is the
resident memory of this process that counts, on a GPU what is allocated there.
"""

from __future__ import annotations

import ctypes
import gc
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch

from gatcluster.config import Settings
from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError
from gatcluster.learning.budget import StageBudget
from gatcluster.learning.fast import PRIMING_IMAGES, FastLearner, images_of_step
from gatcluster.learning.fast_course import Cut
from gatcluster.learning.neighbours import Partition
from gatcluster.learning.outer_iteration import Targets
from gatcluster.learning.trainer import Trainer
from gatcluster.model.inference import infer

# Kept back of a budget: memory is given out in pieces, and the pieces do not lie as close in a long run as in a short
# one. A run ends with a report and a picture, which take some of it, too.
_RESERVE_BYTES: Final = 96 << 20
_SLACK: Final = 1.2

_SIZES: Final = (4, 12)  # of the measured sub-batches
_LEAST: Final = {"paper": 2, "fast": 16}  # m₂: `fast` tells each image from the others of its batch
_STATUS: Final = Path("/proc/self/status")
_CLEAR_REFS: Final = Path("/proc/self/clear_refs")


class Cost(NamedTuple):
    """Bytes that sub-batches take at their peak."""

    fixed: float
    per_image: float

    def of(self, n_images: int) -> float:
        """The peak for so many images."""
        return _SLACK * (self.fixed + self.per_image * n_images)

    def most_images(self, n_bytes: float) -> int:
        """How many images such a peak allows; 0 or less where not even one does."""
        return int((n_bytes / _SLACK - self.fixed) // self.per_image)


def parsed_memory(text: str | int) -> int:
    """Bytes from a number with a unit.

    >>> parsed_memory("2GB"), parsed_memory("1.5 GiB"), parsed_memory("800MB"), parsed_memory(10**9)
    (2000000000, 1610612736, 800000000, 1000000000)
    """
    units = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30}
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]{0,3})\s*", str(text).lower())
    unit = units.get(match[2]) if match else None
    if match is None or unit is None or not 1 <= float(match[1]) * unit <= 2**50:
        raise InputError(f"cannot use memory {str(text)[:40]!r}: give a number with a unit, such as 2GB or 800MB")
    return int(float(match[1]) * unit)


def within_memory(
    images: ImageSet, settings: Settings, memory: int, m2_is_chosen: bool, tell: Callable[[str], None]
) -> Settings:
    """The settings with sub-batches that keep a run within ``memory`` bytes.

    Sub-batches only ever shrink. m₁ never changes what Algorithm 1 computes. m₂ does, so a smaller one is told, and one
    that the user chose is refused instead.

    Args:
        images: of the run.
        settings: complete settings.
        memory: bytes.
        m2_is_chosen: whether the user chose m₂.
        tell: called with what the user should know.

    Raises:
        InputError: the budget is too small even for the least sub-batch; the message says what would do.
    """
    probe = _Probe(images, settings)
    inference = probe.cost_of_inference(memory)
    step = probe.cost_of_step(memory)
    taken = probe.in_use() + _held_bytes(images, settings, probe.map_bytes, probe.channels) + _RESERVE_BYTES
    room = memory - taken
    training = settings.training
    wanted = training.sub_batch if settings.fast is None else images_of_step(training.sub_batch, len(images))
    least = min(_LEAST[settings.recipe], wanted)
    needed = taken + max(step.of(least), inference.of(1))
    if needed > memory:
        raise InputError(
            f"a memory of {memory / 1e9:.2f} GB is too little for images of {images.size[0]}x{images.size[1]}: "
            f"at least {_rounded_up(needed)} is needed; give that, or a smaller size"
        )
    m2 = min(wanted, step.most_images(room))
    m1 = min(training.target_sub_batch, max(1, inference.most_images(room)))
    if m2 < wanted and m2_is_chosen:
        raise InputError(
            f"a sub-batch of {wanted} images takes {_rounded_up(taken + step.of(wanted))}, more "
            f"than the memory of {memory / 1e9:.2f} GB: at most {m2} fit"
        )
    if m2 < wanted:
        tell(f"to stay within {memory / 1e9:.2f} GB, a step takes {m2} images and not {wanted}")
    chosen = training.model_copy(
        update={"sub_batch": m2 if m2 < wanted else training.sub_batch, "target_sub_batch": m1}
    )
    return settings.model_copy(update={"training": chosen, "memory": memory})


def _rounded_up(n_bytes: float) -> str:
    """Such as 1.4GB: as the option takes it, never less than what was asked for."""
    return f"{-(-n_bytes // 10**8) / 10:g}GB"


def _held_bytes(images: ImageSet, settings: Settings, map_bytes: int, channels: int) -> int:
    """What a run holds beside its sub-batches: figures of all images, and in `fast` features and a graph of them."""
    n_images, k = len(images), settings.n_clusters
    held = 3 * 4 * n_images * k  # label features; those of a batch; a copy on the way to the file
    if settings.fast is not None:
        held = 3 * 8 * n_images * k  # or memberships, in 64 bits, while they spread from the landmarks
        neighbours = max(settings.fast.neighbours)
        held += n_images * (3 * 4 * channels + 3 * 12 * neighbours) + min(n_images, PRIMING_IMAGES) * 2 * map_bytes
    return held


class _Probe:
    """Real steps on a few of the images, which are measured and forgotten."""

    def __init__(self, images: ImageSet, settings: Settings) -> None:
        self._images = images
        self._settings = settings
        trainer = self._trainer(2, 2)
        self._device = trainer.fabric.device
        if self._device.type not in ("cpu", "cuda") or (self._device.type == "cpu" and not _STATUS.is_file()):
            raise InputError("a memory budget needs Linux, or a CUDA device: leave out the memory")
        backbone = trainer.network.backbone
        self.channels = backbone.channels
        self.map_bytes = 4 * backbone.channels * backbone.map_size[0] * backbone.map_size[1]

    def cost_of_step(self, memory: int) -> Cost:
        """Of step 2, or of a step of `fast`."""
        return self._cost(self._step, memory)

    def cost_of_inference(self, memory: int) -> Cost:
        """Of step 1, and of all else that only looks at images."""
        return self._cost(self._look, memory)

    def in_use(self) -> int:
        """Bytes that are taken before training."""
        if self._device.type == "cuda":
            return torch.cuda.memory_allocated(self._device)
        _give_back()
        return _status("VmRSS")

    def _cost(self, run: Callable[[int], None], memory: int) -> Cost:
        small, large = _SIZES
        first = self._peak(lambda: run(small))
        # To measure must not take what is not there; where all of it is taken already, what would do is to be told.
        if self.in_use() < memory < self.in_use() + first * large / small:
            large = small + 2
        run(large)  # what is made once, such as threads and plans of convolutions, is no cost of an image
        peak = self._peak(lambda: run(small))
        growth = (self._peak(lambda: run(large)) - peak) / (large - small)
        per_image = max(growth, 4.0 * int(np.prod(self._images.pixels.shape[1:])))
        return Cost(max(0.0, peak - small * per_image), per_image)

    def _peak(self, run: Callable[[], None]) -> int:
        """By how much memory grows, at most, while something runs."""
        if self._device.type == "cuda":
            before = torch.cuda.memory_allocated(self._device)
            torch.cuda.reset_peak_memory_stats(self._device)
            run()
            return torch.cuda.max_memory_allocated(self._device) - before
        _give_back()
        _forget_peak()
        before = _status("VmRSS")
        run()
        return max(0, _status("VmHWM") - before)

    def _trainer(self, n_images: int, sub_batch: int) -> Trainer:
        training = self._settings.training.model_copy(
            update={
                "batch_size": sub_batch,
                "sub_batch": sub_batch,
                "target_sub_batch": 1,
                "passes": 1,
                "patience": None,
                "epochs": 1,
                "minutes": None,
            }
        )
        chosen = np.arange(n_images) % len(self._images)
        few = replace(self._images, pixels=self._images.pixels[chosen], names=[""] * n_images)
        return Trainer(few, self._settings.model_copy(update={"training": training, "watch": False}))

    def _step(self, n: int) -> None:
        if self._settings.fast is not None:
            # Few images are trained on in smaller batches: with four times as many, a batch is what it is to be.
            trainer = self._trainer(4 * n, n)
            everywhere = Partition(np.zeros(4 * n, np.int64), np.ones(4 * n, np.float32))
            cut = Cut(np.zeros((4 * n, 1), np.int64), everywhere)
            one_step = StageBudget(trainer.budget, end=0.25)
            FastLearner(trainer, self._settings.fast).learn_partition(cut, one_step, is_last=True)
        else:
            trainer = self._trainer(n, n)
            trainer.algorithm_1(
                lambda batch, features: Targets(features, features, torch.zeros(n, dtype=torch.int64)),
                trainer.budget,
                learning_rate=lambda spent: 1e-3,
            )

    def _look(self, n: int) -> None:
        trainer = self._trainer(n, max(2, n))
        settings = trainer.settings.model_copy(
            update={"training": trainer.settings.training.model_copy(update={"target_sub_batch": n})}
        )
        infer(trainer.network, trainer.network.label_features, trainer.images, settings)


def _status(entry: str) -> int:
    """A figure of this process, in bytes."""
    match = re.search(rf"{entry}:\s+(\d+) kB", _STATUS.read_text())
    assert match is not None
    return int(match[1]) * 1024


def _forget_peak() -> None:
    """Let the peak of resident memory begin anew. If it cannot, every step would seem to cost nothing."""
    try:
        _CLEAR_REFS.write_text("5")
    except OSError as error:
        raise InputError(
            f"memory cannot be measured here, {_CLEAR_REFS} cannot be written ({error.strerror}): leave out the memory"
        ) from None


def _give_back() -> None:
    """Return what is free to the system, so that what is taken next shows."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
