"""The report: a folder with a web page that opens from disk, the data it shows and the thumbnails of all images."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from gatcluster.learning.snapshots import Snapshots
from gatcluster.model.inference import attention_gaussians
from gatcluster.model.map_geometry import map_axes
from gatcluster.report.circular_map import circular_map
from gatcluster.report.columns import in_16_bits, numbers_script, texts_script, values_script
from gatcluster.report.pictures import Pictures
from gatcluster.report.sprites import OnDone, write_sheets
from gatcluster.report.summary import head, scores, training
from gatcluster.runs.files import write_bytes
from gatcluster.runs.folder import RunFolder
from gatcluster.runs.labels import read_labels
from gatcluster.runs.layout import REPORT

INDEX: Final = "index.html"
_DATA: Final = "data"
_THUMBNAILS: Final = "thumbnails"
_NO_LABEL: Final = 65535
_IMAGES_AT_ONCE: Final = 4096  # between two signs of progress


def write_report(run: RunFolder, pictures: Pictures | None, note: str = "", on_done: OnDone | None = None) -> Path:
    """Write the report of a run, in place of an earlier one; returns the page.

    Everything is written beside and moved at the end: a reader finds the old report or the new one, never half of one.

    Args:
        run: the run.
        pictures: its images; None makes a report without thumbnails and attention maps.
        note: what to say on the page of missing pictures.
        on_done: called with (thumbnails written, thumbnails in all).
    """
    target = run.path / REPORT
    scratch = run.path / f".{REPORT}.{os.getpid()}.tmp"
    if scratch.is_symlink():
        scratch.unlink()
    shutil.rmtree(scratch, ignore_errors=True)
    new, old = scratch / "new", scratch / "old"
    try:
        (new / _DATA).mkdir(parents=True)
        (new / _THUMBNAILS).mkdir()
        with as_file(files("gatcluster.report") / "page") as page:
            for file in sorted(page.iterdir()):
                if file.suffix in (".html", ".css", ".js"):
                    shutil.copyfile(file, new / file.name)
        _write_data(new, run, pictures, note, on_done)
        if target.exists():
            target.replace(old)
        try:
            new.replace(target)
        except OSError:
            if old.exists():
                old.replace(target)
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target / INDEX


def has_report(run: RunFolder) -> bool:
    """Whether the run has a report. What a link leads to is none, and nothing is written there."""
    report = run.path / REPORT
    return (report / INDEX).is_file() and not (report.is_symlink() or (report / _DATA).is_symlink())


def renew_scores(run: RunFolder) -> None:
    """Bring the scores and labels of an existing report up to date; nothing else of it depends on labels."""
    _write_scores(run.path / REPORT / _DATA, run)


def _write_data(folder: Path, run: RunFolder, pictures: Pictures | None, note: str, on_done: OnDone | None) -> None:
    names, _ = run.clusters()
    features = run.label_features()
    clusters, confidence = features.argmax(axis=1), features.max(axis=1)
    # By cluster, the surest first: the images that a page shows side by side lie on the same sheets.
    order = np.lexsort((np.arange(len(names)), -confidence, clusters))
    data = folder / _DATA
    _write_scores(data, run)
    snapshots = run.snapshots()
    summary: dict[str, Any] = {
        **head(run, features),
        "id": _identity(names, features),
        "note": note,
        "sheets": None,
        "attention": None,
        "original": None,
        "n_moments": len(snapshots.stages) if snapshots else 0,
    }
    if pictures is not None:
        first_half = None if on_done is None else partial(_report_half, on_done, 0)
        gaussians = _gaussians(run, pictures, first_half)
        write_bytes(data / "attention.js", numbers_script("attention", in_16_bits(gaussians)))
        # Where the rows and columns of the feature map lie in the image, in pixels of what the network saw.
        rows, columns = map_axes(run.network().backbone)
        alpha = run.settings().network.alpha
        summary["attention"] = {"rows": rows._asdict(), "columns": columns._asdict(), "alpha": alpha}
        summary["original"] = _original(run, pictures.folder, names)
        summary["missing"] = int((pictures.places < 0).sum())
        second_half = None if on_done is None else partial(_report_half, on_done, 1)
        sheets = write_sheets(folder / _THUMBNAILS, pictures.images, pictures.places[order], second_half)
        summary["sheets"] = sheets.as_json()
    write_bytes(data / "clusters.js", numbers_script("clusters", clusters.astype(np.uint16)))
    write_bytes(data / "confidence.js", numbers_script("confidence", confidence.astype(np.float32)))
    write_bytes(data / "order.js", numbers_script("order", order.astype(np.uint32)))
    write_bytes(data / "features.js", numbers_script("features", in_16_bits(features)))
    write_bytes(data / "names.js", texts_script("names", names))
    write_bytes(data / "training.js", values_script("training", training(run.history())))
    if snapshots is not None:
        _write_moments(data, snapshots)
    write_bytes(data / "summary.js", values_script("summary", summary))


def _write_scores(data: Path, run: RunFolder) -> None:
    _, clusters = run.clusters()
    labels = read_labels(run.path, run.config()["n_images"])
    tree = scores(run.metrics(), labels, clusters, run.settings().n_clusters)
    if tree is not None and labels is not None:
        places = {name: place for place, name in enumerate(tree["labels"])}
        column = np.array([_NO_LABEL if label is None else places[label] for label in labels], dtype=np.uint16)
        write_bytes(data / "labels.js", numbers_script("labels", column))
    write_bytes(data / "scores.js", values_script("scores", tree))


def _write_moments(data: Path, snapshots: Snapshots) -> None:
    """Where the sample of images lay on the paper's map (A1) at every moment that training kept."""
    places = np.stack([circular_map(features.astype(np.float32)) for features in snapshots.features])  # (S, n, 2)
    write_bytes(data / "moments.js", numbers_script("moments", np.round(places * 32767).astype(np.int16)))
    write_bytes(data / "sample.js", numbers_script("sample", snapshots.images.astype(np.uint32)))
    tree = {"stages": list(snapshots.stages), "progress": [float(share) for share in snapshots.progress]}
    write_bytes(data / "stages.js", values_script("stages", tree))


def _report_half(on_done: OnDone, half: int, done: int, total: int) -> None:
    """Attention maps are the first half of the work, thumbnails the second."""
    on_done((half * total + done) // 2, total)


def _gaussians(run: RunFolder, pictures: Pictures, on_done: OnDone | None) -> NDArray[np.float32]:
    """Centre and variance of every image's attention, (N, 3); zeros where an image is no longer there."""
    network, settings = run.network(), run.settings()
    found = np.flatnonzero(pictures.places >= 0)
    gaussians = np.zeros((len(pictures.places), 3), dtype=np.float32)
    for start in range(0, len(found), _IMAGES_AT_ONCE):
        part = found[start : start + _IMAGES_AT_ONCE]
        gaussians[part] = attention_gaussians(network, pictures.images, settings, pictures.places[part])
        if on_done is not None:
            on_done(start + len(part), len(found))
    return gaussians


def _original(run: RunFolder, folder: Path | None, names: Sequence[str]) -> str | None:
    """The way from the page to the folder with the image files, as the beginning of an address."""
    if folder is None or not names or not (folder / names[0]).is_file():
        return None
    try:
        way = os.path.relpath(folder.resolve(), (run.path / REPORT).resolve())
    except ValueError:  # on another drive
        return None
    return quote(os.fsencode(Path(way).as_posix())) + "/"


def _identity(names: Sequence[str], features: NDArray[np.float32]) -> str:
    """Tells the curation of one run from that of another in the browser's memory."""
    digest = hashlib.blake2b(features.tobytes(), digest_size=8)
    digest.update("\0".join(names).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
