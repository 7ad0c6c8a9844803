"""What follows training takes time as well: it is timed beforehand, and kept back from a budget of minutes."""

from __future__ import annotations

import time

from gatcluster.learning.batches import Indices
from gatcluster.learning.budget import EpochBudget
from gatcluster.learning.normalisation import mixed_sample, refresh_statistics
from gatcluster.learning.training import Training
from gatcluster.model.inference import infer

_FIRST_LOOK = 100  # images, before looks are timed
# A machine may be slower at the end than at the beginning, and there is some more to do than to look.
_LOOKS, _MARGIN = 1.15, 0.03  # the margin is a share of the time


def keep_back_the_end(training: Training, with_statistics: bool) -> float:
    """Keep back what it takes to look at all images once training is over, for their clusters.

    Args:
        training: before its first step.
        with_statistics: whether the statistics of batch normalisation are refreshed before that last look.

    Returns:
        What a look at all images takes, as a share of the budget for training; none where epochs are counted.
    """
    if isinstance(training.budget, EpochBudget):
        return 0.0
    sample = mixed_sample(len(training.images))
    _seconds_of_looking(training, sample[:_FIRST_LOOK])  # the first look at anything takes longer than all others
    refreshing = _seconds_of_refreshing(training) if with_statistics else 0.0
    looking = _seconds_of_looking(training, sample) * len(training.images) / len(sample)
    training.budget.keep_back(refreshing + _LOOKS * looking + _MARGIN * training.budget.seconds)
    return training.budget.share_of(looking)


def _seconds_of_refreshing(training: Training) -> float:
    began = time.monotonic()
    refresh_statistics(training.network, training.images, training.settings, training.note_action)
    return time.monotonic() - began


def _seconds_of_looking(training: Training, chosen: Indices) -> float:
    network, began = training.network, time.monotonic()
    infer(network, network.label_features, training.images, training.settings, chosen, training.note_action)
    return time.monotonic() - began
