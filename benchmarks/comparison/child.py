"""One measurement, in a process of its own: ``python -m comparison.child JOB OUTPUT``.

JOB is a job as JSON. OUTPUT gets a line when the clock starts, one when it stops, and one with the result; the parent
watches it.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from comparison.job import BEGUN, STOPPED, Job
from comparison.machine import peak_bytes
from comparison.methods import Work, cluster, load
from comparison.sets import SETS, find_source, subset, true_labels
from gatcluster.data.sources import read_images
from gatcluster.evaluation.metrics import evaluate_clusters


def measure(job: Job, report: Callable[[str], None]) -> dict[str, Any]:
    """Run a job; the clock runs from the source, its images decoded and cached before, to the clusters.

    Args:
        job: what to measure.
        report: is told when the clock starts and when it stops.
    """
    chosen = SETS[job.set]
    load(job.method)
    began = time.monotonic()
    whole = find_source(chosen, Path(job.data) if job.data else None)
    source, indices = subset(whole, job.n_images, job.seed)
    n_images = len(read_images(source))
    reading = time.monotonic() - began

    report(BEGUN)
    began = time.monotonic()
    found = cluster(job.method, Work(source, chosen.n_clusters, job.seed, job.minutes, job.epochs))
    seconds = time.monotonic() - began
    report(STOPPED)
    peak = peak_bytes()

    labels = np.asarray(true_labels(whole, read_images(whole)))
    scores = evaluate_clusters(list(labels if indices is None else labels[indices]), found.clusters)
    sizes = np.bincount(found.clusters, minlength=chosen.n_clusters)
    return {
        "status": "done",
        "accuracy": scores.accuracy,
        "nmi_geometric": scores.nmi_geometric,
        "ari": scores.ari,
        "seconds": seconds,
        "seconds_reading": reading,
        "peak_bytes": peak,
        "images": n_images,
        "cluster_sizes": sizes.tolist(),
        "empty_clusters": int((sizes == 0).sum()),
        "label_free": dict(found.label_free()),
        "details": dict(found.details),
    }


def main() -> None:
    job, output = Job(**json.loads(sys.argv[1])), Path(sys.argv[2])
    warnings.simplefilter("ignore")

    def report(text: str) -> None:
        with output.open("a") as file:
            file.write(text + "\n")

    try:
        result = measure(job, report)
    except Exception as error:  # whatever went wrong with one measurement, the others go on
        result = {"status": "failed", "error": f"{type(error).__name__}: {error}".splitlines()[0][:500]}
    report(json.dumps(result))


if __name__ == "__main__":
    main()
