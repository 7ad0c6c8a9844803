"""History is data: one record per outer iteration."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Record:
    """What happened in one outer iteration (one batch of M images, step 1 and step 2)."""

    stage: str  # "warm-up", or "clustering" (Algorithm 1)
    epoch: int  # counted from 1, over all stages
    iteration: int  # counted from 1, over all stages
    losses: dict[str, float]  # unweighted means over the sub-batches, and their weighted "total"
    learning_rate: float
    seconds: float  # since training began
    images_per_second: float  # trained in this iteration
    cluster_sizes: list[int] = field(default_factory=list)  # over all images seen so far
    mean_confidence: float | None = None  # mean over the batch of max_h l_h
    entropy: float | None = None  # of the mean label feature, in nats: log k is an even use of the clusters
    changed: float | None = None  # share of the batch that is in another cluster than when last seen
    relation_fallbacks: int = 0  # so far: batches whose relations fell back to identity
    gradient_norm: float | None = None  # the largest of the iteration's steps; None where it is not measured
    skipped_steps: int = 0  # steps of the iteration that were left out because they were not finite
    findings: list[str] = field(default_factory=list)  # what the watch saw, by the names of ``watch.CONDITIONS``
    actions: list[str] = field(default_factory=list)  # what was done about it, in words

    def as_json(self) -> dict[str, Any]:
        """The record as plain data."""
        return asdict(self)
