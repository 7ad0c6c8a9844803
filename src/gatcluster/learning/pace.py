"""How wide a backbone the time allows, told from real steps on this machine.

A wider backbone learns more from each step and makes fewer of them. Two machines may differ tenfold in how many: so
steps are timed, not assumed.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from gatcluster.config import Settings
from gatcluster.data.images import ImageSet
from gatcluster.learning.budget import StageBudget
from gatcluster.learning.fast import FastLearner
from gatcluster.learning.training import Training

_WIDER = (64, 128)  # channels of the first layer, rising; the lean backbone has 32
_ENOUGH_STEPS = 2000  # of the warm-up: with far fewer, a narrower backbone learns as much or more
# A step is timed with growing parts of its images, so that a machine that is far too slow is found out soon.
_PARTS = (16, 4, 1)


def with_affordable_width(images: ImageSet, settings: Settings) -> Settings:
    """The settings with the widest backbone that makes enough steps in its time.

    Only `fast` is asked for photos, and only where minutes are given: glyphs have long been learned by then, and so
    many epochs are to be the same on every machine. To find out takes less than a hundredth of the time.

    Args:
        images: of the run.
        settings: complete settings.
    """
    minutes, fast = settings.training.minutes, settings.fast
    if minutes is None or fast is None or settings.images.augment != "photo" or settings.network.preset is not None:
        return settings
    most_seconds = 60 * minutes * fast.warm_up_share / _ENOUGH_STEPS
    for width in _WIDER:
        network = settings.network.model_copy(update={"width": width})
        wider = settings.model_copy(update={"network": network})
        if not takes_at_most(most_seconds, images, wider):
            break
        settings = wider
    return settings


def takes_at_most(seconds: float, images: ImageSet, settings: Settings) -> bool:
    """Whether a step of the warm-up takes no longer than that."""
    n = settings.training.sub_batch
    return all(seconds_of_step(images, settings, max(1, n // part)) <= seconds for part in _PARTS)


def seconds_of_step(images: ImageSet, settings: Settings, n_images: int) -> float:
    """How long a step of the warm-up takes with so many images; it is made and forgotten."""
    fast = settings.fast
    assert fast is not None
    # Few images are trained on in smaller batches: with four times as many, a batch is what it is to be.
    chosen = np.arange(4 * n_images) % len(images)
    few = replace(images, pixels=images.pixels[chosen], names=[""] * len(chosen))
    lengths = {"batch_size": n_images, "sub_batch": n_images, "patience": None, "epochs": 1, "minutes": None}
    training = Training(
        few,
        settings.model_copy(update={"training": settings.training.model_copy(update=lengths), "watch": False}),
    )
    learner = FastLearner(training, fast)
    began = 0.0
    for end in (0.25, 0.5):  # one step each; the first of a kind takes longer than all others
        began = time.monotonic()
        learner.warm_up(StageBudget(training.budget, end))
    return time.monotonic() - began
