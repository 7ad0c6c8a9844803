"""The whole job: from a source to a run folder. The command line and the demo are thin around it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gatcluster.choices import Format
from gatcluster.config import Settings
from gatcluster.data.cache import use_cache
from gatcluster.data.detect import check_format, located_format
from gatcluster.data.images import ImageSet
from gatcluster.data.store import kept_in
from gatcluster.errors import ConvergenceWarning, InputError
from gatcluster.evaluation.labels import labels_from_csv, labels_from_folders
from gatcluster.evaluation.metrics import Metrics, evaluate_clusters
from gatcluster.evaluation.source_labels import check_lies_in_folders, labels_from_source
from gatcluster.learning.fit import fit
from gatcluster.learning.state import StateKeeper
from gatcluster.learning.watch import counted, lasting
from gatcluster.model.inference import label_features
from gatcluster.prepare import read_like
from gatcluster.report.contact_sheet import contact_sheet
from gatcluster.report.pictures import all_pictures, pictures_of
from gatcluster.report.progress import LiveProgress, PlainProgress
from gatcluster.report.site import has_report, renew_scores, write_report
from gatcluster.resume import planned_images
from gatcluster.runs.checkpoints import Checkpoints
from gatcluster.runs.create import new_run, reopened_run
from gatcluster.runs.files import named_write_errors, write_bytes
from gatcluster.runs.folder import RunFolder, load_run
from gatcluster.runs.interruption import Interruption
from gatcluster.runs.labels import write_labels
from gatcluster.runs.layout import CONTACT_SHEET
from gatcluster.runs.plan import DEFAULT_CHECKPOINT_MINUTES, Plan, read_plan


@dataclass(frozen=True)
class Summary:
    """What a fit found, in short."""

    run: str
    n_images: int
    n_clusters: int
    cluster_sizes: list[int]
    cluster_confidence: list[float | None]  # mean over each cluster; None where it is empty
    mean_confidence: float
    recipe: str
    seed: int
    epochs: int
    iterations: int
    seconds: float
    skipped: int
    warnings: list[str]
    findings: dict[str, int]  # what the watch found, and in how many iterations
    cache: str | None = None  # the folder in which the decoded images are kept
    cache_bytes: int = 0
    report: str | None = None  # the page to look at

    def as_json(self) -> dict[str, Any]:
        """The summary as plain data."""
        return asdict(self)


def fit_to_run(
    source: Path,
    output: Path,
    overwrite: bool,
    progress: LiveProgress | PlainProgress,
    format: Format | None = None,
    with_report: bool = True,
    checkpoint_minutes: float = DEFAULT_CHECKPOINT_MINUTES,
    interruption: Interruption | None = None,
    cache: str | None = None,
    **choices: Any,
) -> Summary:
    """Read a source, learn its clusters and write the run folder.

    Args:
        source: where the images are: a path, or a glob pattern.
        output: the run folder to make.
        overwrite: whether an earlier run there may be replaced.
        progress: looks on.
        format: of the source; by default it is told from what is there.
        with_report: whether to write the page of the run as well.
        checkpoint_minutes: between two checkpoints.
        interruption: who may want the training to end.
        cache: where decoded images are kept, for a resumed run to find them: a folder, or "off".
        choices: arguments of :func:`~gatcluster.prepare.prepare`.
    """
    began = time.monotonic()
    _, found = located_format(source, format)
    plan = Plan(
        str(source.resolve()),
        found,
        given=str(source),
        choices=choices,
        with_report=with_report,
        cache=cache,
        checkpoint_minutes=checkpoint_minutes,
    )
    with new_run(output, overwrite) as run:
        plan.write(run.path)  # before the images are read: that, too, may take long, and may be resumed
        return _fit_planned(plan, run, progress, began, interruption)


def resume_run(
    path: Path,
    progress: LiveProgress | PlainProgress,
    checkpoint_minutes: float | None = None,
    interruption: Interruption | None = None,
) -> Summary:
    """Go on with a run that was interrupted, from its last checkpoint, and finish it.

    Args:
        path: the run folder.
        progress: looks on.
        checkpoint_minutes: between two checkpoints; as before by default.
        interruption: who may want the training to end.
    """
    began = time.monotonic()
    with reopened_run(path) as run:
        plan = read_plan(path, progress.on_notice)
        if checkpoint_minutes is not None:
            plan = replace(plan, checkpoint_minutes=checkpoint_minutes)
        chosen = nullcontext() if plan.cache is None else use_cache(None if plan.cache == "off" else Path(plan.cache))
        with chosen, plan.same_threads():
            return _fit_planned(plan, run, progress, began, interruption)


def _fit_planned(
    plan: Plan,
    run: RunFolder,
    progress: LiveProgress | PlainProgress,
    began: float,
    interruption: Interruption | None,
) -> Summary:
    """Begin or go on with a run, whichever its plan says."""
    plan, images = planned_images(plan, run, progress.on_images, tell=progress.on_notice)
    assert plan.settings is not None
    keeper = Checkpoints(run.path, plan.identity(), plan.checkpoint_minutes, interruption, progress.on_notice)
    return fit_images(
        images, plan.settings, run, plan.source or "", progress, began, plan.source_format, plan.with_report, keeper
    )


def fit_images(
    images: ImageSet,
    settings: Settings,
    run: RunFolder,
    source: str,
    progress: LiveProgress | PlainProgress,
    began: float,
    source_format: Format | None = None,
    with_report: bool = True,
    keeper: StateKeeper | None = None,
) -> Summary:
    """Learn the clusters of images and write everything to an open run folder."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        result = fit(images, settings, [run.history_writer(), progress], keeper)
    for warning in caught:
        if not issubclass(warning.category, ConvergenceWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    with named_write_errors(run.path):
        write_bytes(run.path / CONTACT_SHEET, contact_sheet(images, result.label_features))
        run.write(result, images.names, source, images.skipped, source_format)  # last: then the run counts as whole
    told = [str(warning.message) for warning in caught if issubclass(warning.category, ConvergenceWarning)]
    told += lasting(result.history)
    page = None
    if with_report:
        try:
            page = write_report(run, all_pictures(images, Path(source)), on_done=progress.on_report)
        except OSError as error:  # hours of training must not be lost for a page
            told.append(f"no report was written: {error.strerror or error}; `gatcluster report {run.path}` tries again")
    sizes, confidence = cluster_figures(result.label_features)
    cache, cache_bytes = kept_in(images.pixels) or (None, 0)
    return Summary(
        run=str(run.path),
        n_images=len(images),
        n_clusters=settings.n_clusters,
        cluster_sizes=sizes,
        cluster_confidence=confidence,
        mean_confidence=float(result.label_features.max(axis=1).mean()),
        recipe=settings.recipe,
        seed=settings.seed,
        epochs=result.history[-1].epoch if result.history else 0,
        iterations=len(result.history),
        seconds=time.monotonic() - began,
        skipped=len(images.skipped),
        warnings=told,
        findings=counted(result.history),
        cache=None if cache is None else str(cache),
        cache_bytes=cache_bytes,
        report=None if page is None else str(page),
    )


def cluster_figures(features: NDArray[np.float32]) -> tuple[list[int], list[float | None]]:
    """Size and mean confidence of each cluster, from label features (N, k)."""
    clusters, confidence = features.argmax(axis=1), features.max(axis=1)
    members = [confidence[clusters == cluster] for cluster in range(features.shape[1])]
    return [len(part) for part in members], [float(part.mean()) if len(part) else None for part in members]


def predict_source(
    run_path: Path, source: Path, progress: LiveProgress | PlainProgress, format: Format | None = None
) -> tuple[ImageSet, NDArray[np.float32]]:
    """Images of a source and their label features (N, k) by the model of a run.

    Without a format, the run's own source is read as it was then, and any other as what it looks like.
    """
    run = load_run(run_path)
    if format is None and str(source.resolve()) == run.config()["source"]:
        format = run.source_format()
    settings, network = run.settings(), run.network()
    images = read_like(source, settings.images, progress.on_images, format)
    return images, label_features(network, images, settings)


def evaluate_run(run_path: Path, labels: str | None, format: Format | None = None) -> Metrics:
    """Score a run against labels and write its ``metrics.json``. Nothing else reads labels.

    Args:
        run_path: the run folder.
        labels: "folders", "source" (the labels that the run's source carries) or the path of a CSV file; None is the
            source if the run knows it, else folders.
        format: of the source, if not that of the run: ``cifar100-20`` for the coarse classes of ``cifar100``.
    """
    run = load_run(run_path)
    names, clusters = run.clusters()
    source, source_format = run.config()["source"], check_format(format) if format else run.source_format()
    known: Sequence[str | None]
    if labels == "folders" or (labels is None and source_format is None):
        check_lies_in_folders(source_format)
        known = labels_from_folders(names)
    elif labels is None or labels == "source":
        known = labels_from_source(source, source_format, names)
    else:
        known = labels_from_csv(Path(labels), names, source)
    scored = [(label, cluster) for label, cluster in zip(known, clusters, strict=True) if label is not None]
    if not scored:
        raise InputError(f"none of the images has a label in {source}")
    metrics = evaluate_clusters([label for label, _ in scored], [cluster for _, cluster in scored])
    run.write_metrics(metrics)
    with named_write_errors(run.path):
        write_labels(run.path, names, known)
        if has_report(run):
            renew_scores(run)
    return metrics


def report_run(run_path: Path, progress: LiveProgress | PlainProgress) -> tuple[Path, str]:
    """Write the report of a run anew; returns its page, and what is missing in it, in words.

    The images are read again from where they were. Where they are gone, the report is written without them.
    """
    run = load_run(run_path)
    pictures, note = pictures_of(run, progress.on_images)
    try:
        return write_report(run, pictures, note, progress.on_report), note
    except OSError as error:
        raise InputError(f"cannot write to {run.path}: {error.strerror or error}") from None
