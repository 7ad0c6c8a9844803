"""A run folder: ``config.json``, ``model.safetensors``, ``clusters.csv``, ``label_features.npy``, ``history.jsonl``.

``skipped.csv`` is there if files could not be read, ``metrics.json`` once the run was evaluated. Nothing in a run
folder is a pickle, and none is read. A run may come from a stranger: whatever is in it, reading it works or is refused
with an :class:`~gatcluster.errors.InputError`.
"""

from __future__ import annotations

import csv
import io
import math
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from gatcluster.choices import Format
from gatcluster.config import Settings, checked_settings
from gatcluster.data.detect import check_format
from gatcluster.data.images import Skipped
from gatcluster.errors import InputError
from gatcluster.evaluation.metrics import Metrics
from gatcluster.learning.callbacks import Callback
from gatcluster.learning.fit import FitResult
from gatcluster.learning.history import Record
from gatcluster.learning.snapshots import Snapshots
from gatcluster.model.network import GATNetwork
from gatcluster.runs.files import csv_text, named_write_errors, write_bytes, write_csv, write_json
from gatcluster.runs.history_file import history_lines, read_history
from gatcluster.runs.layout import (
    CLUSTERS,
    CONFIG,
    HISTORY,
    LABEL_FEATURES,
    METRICS,
    MODEL,
    RESUME,
    SKIPPED,
    SNAPSHOTS,
)
from gatcluster.runs.model_file import read_model, write_model
from gatcluster.runs.snapshots import read_snapshots, write_snapshots
from gatcluster.runs.untrusted import MOST_IMAGES, check_path, lines_of, one_line, read_json, read_npy, refused
from gatcluster.spreadsheets import PATH, TEXT, harmless, original

FORMAT: Final = 1  # of the run folder; grows when older readers could no longer make sense of it

_CONFIG_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "format": (int,),
    "source": (str, type(None)),
    "source_format": (str, type(None)),
    "n_images": (int,),
    "settings": (dict,),
    "versions": (dict,),
    "threads": (int,),
}

CLUSTERS_HEADER: Final = ("path", "cluster", "confidence")


def library_versions() -> dict[str, str]:
    """What a result may depend on."""
    names = ("gatcluster", "torch", "lightning-fabric", "numpy", "scikit-learn", "scipy", "pillow")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def cluster_rows(names: Sequence[str], label_features: NDArray[np.float32]) -> Iterator[tuple[str, int, str]]:
    """Rows (path, cluster, confidence), one for each image, in the order of the images.

    Paths are such that no spreadsheet takes them for formulas.
    """
    clusters, confidence = label_features.argmax(axis=1), label_features.max(axis=1)
    for name, cluster, sure in zip(names, clusters, confidence, strict=True):
        yield harmless(name, PATH), int(cluster), f"{sure:.6f}"


def clusters_csv(names: Sequence[str], label_features: NDArray[np.float32]) -> str:
    """The text of a ``clusters.csv``."""
    return csv_text(CLUSTERS_HEADER, cluster_rows(names, label_features))


class HistoryWriter(Callback):
    """Appends every record to ``history.jsonl`` while the network learns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.on_resume([])

    def on_resume(self, history: Sequence[Record]) -> None:
        """Begin with what happened before the interruption."""
        with named_write_errors(self.path):
            write_bytes(self.path, history_lines(history))

    def on_record(self, record: Record) -> None:
        """Append one line."""
        with named_write_errors(self.path), self.path.open("ab") as file:
            file.write(history_lines([record]))


@dataclass(frozen=True)
class RunFolder:
    """A run on disk."""

    path: Path

    def history_writer(self) -> HistoryWriter:
        """A callback that keeps ``history.jsonl``."""
        return HistoryWriter(self.path / HISTORY)

    def write(
        self,
        result: FitResult,
        names: Sequence[str],
        source: str | None,
        skipped: Sequence[Skipped] = (),
        source_format: Format | None = None,
    ) -> None:
        """Write everything about a finished fit; ``config.json`` last, because it makes the folder a run."""
        with named_write_errors(self.path):
            self._write(result, names, source, skipped, source_format)

    def _write(
        self,
        result: FitResult,
        names: Sequence[str],
        source: str | None,
        skipped: Sequence[Skipped],
        source_format: Format | None,
    ) -> None:
        write_model(self.path / MODEL, result.network)
        features = io.BytesIO()
        np.save(features, result.label_features)
        write_bytes(self.path / LABEL_FEATURES, features.getvalue())
        write_csv(self.path / CLUSTERS, CLUSTERS_HEADER, cluster_rows(names, result.label_features))
        write_bytes(self.path / HISTORY, history_lines(result.history))
        if result.snapshots is not None:
            write_snapshots(self.path / SNAPSHOTS, result.snapshots)
        if skipped:
            rows = [(harmless(file.name, PATH), harmless(file.reason, TEXT)) for file in skipped]
            write_csv(self.path / SKIPPED, ("path", "reason"), rows)
        write_json(
            self.path / CONFIG,
            {
                "format": FORMAT,
                "source": source,
                "source_format": source_format,
                "n_images": len(names),
                "settings": result.settings.model_dump(mode="json"),
                "versions": library_versions(),
                "threads": torch.get_num_threads(),
            },
        )

    def write_metrics(self, metrics: Metrics) -> None:
        """Write ``metrics.json``."""
        with named_write_errors(self.path / METRICS):
            write_json(self.path / METRICS, metrics.as_json())

    def config(self) -> dict[str, Any]:
        """The content of ``config.json``, checked."""
        path = self.path / CONFIG
        if not path.is_file():
            if (self.path / RESUME).is_file():
                raise InputError(f"{self.path} is not finished: `gatcluster fit --resume {self.path}` goes on with it")
            raise InputError(f"{self.path} is not a run folder: it has no {CONFIG}")
        with refused(f"{path} is damaged"):
            tree = read_json(path)
            if not isinstance(tree, dict):
                raise ValueError("it holds no settings")
            if tree.get("format", FORMAT) != FORMAT:
                raise InputError(
                    f"{self.path} has run format {one_line(tree['format'])}, of {_writer(tree)}; "
                    f"this version, {version('gatcluster')}, reads format {FORMAT}"
                )
            for key, kinds in _CONFIG_KINDS.items():
                if not isinstance(tree.get(key), kinds) or isinstance(tree[key], bool):
                    raise ValueError(f"no proper '{key}' in it")
            if not 1 <= tree["n_images"] <= MOST_IMAGES:
                raise ValueError(f"it speaks of {one_line(tree['n_images'])} images")
            if not all(isinstance(number, str) for number in tree["versions"].values()):
                raise ValueError("no proper 'versions' in it")
            if tree["source"] is not None:
                check_path(tree["source"])
            return dict(tree)

    def source_format(self) -> Format | None:
        """The format in which the source was read, if the run knows it."""
        name = self.config().get("source_format")
        try:
            return None if name is None else check_format(name)
        except InputError as error:
            raise InputError(f"{self.path / CONFIG} is damaged: {one_line(error)}") from None

    def settings(self) -> Settings:
        """The run's settings."""
        tree = self.config()
        try:
            settings = checked_settings(tree["settings"])
            if settings.n_clusters > tree["n_images"]:
                raise InputError(f"{one_line(settings.n_clusters)} clusters of {tree['n_images']} images")
            return settings
        except InputError as error:
            if tree["versions"].get("gatcluster") != version("gatcluster"):
                raise InputError(
                    f"{self.path} was written by {_writer(tree)}; this version, {version('gatcluster')}, "
                    f"cannot read its settings: {one_line(error)}"
                ) from None
            raise InputError(f"{self.path / CONFIG} is damaged: {one_line(error)}") from None

    def network(self) -> GATNetwork:
        """The trained network."""
        return read_model(self.path / MODEL, self.settings())

    def clusters(self) -> tuple[list[str], list[int]]:
        """Names and clusters of the images, in the order of ``clusters.csv``."""
        path = self.path / CLUSTERS
        n_images, k = self.config()["n_images"], self.settings().n_clusters
        names: list[str] = []
        clusters: list[int] = []
        with refused(f"cannot read {path}"):
            for row in csv.DictReader(lines_of(path)):
                name, cluster = row.get("path"), int(row.get("cluster") or "")
                if name is None or not 0 <= cluster < k:
                    raise ValueError(f"row {len(names) + 1} has no path, or no cluster from 0 to {k - 1}")
                names.append(original(name, PATH))
                clusters.append(cluster)
                if len(names) > n_images:
                    break
            if len(names) != n_images:
                counted = f"more than {n_images}" if len(names) > n_images else str(len(names))
                raise ValueError(f"it has {counted} rows, but the run has {n_images} images")
        return names, clusters

    def label_features(self) -> NDArray[np.float32]:
        """Label features (N, k) of the images, in the order of ``clusters.csv``."""
        shape = (self.config()["n_images"], self.settings().n_clusters)
        with refused(f"cannot read {self.path / LABEL_FEATURES}"):
            return read_npy(self.path / LABEL_FEATURES, "<f4", shape)

    def history(self) -> list[Record]:
        """One record for each outer iteration."""
        # A run under way has a history, but no settings yet.
        n_clusters = self.settings().n_clusters if (self.path / CONFIG).is_file() else None
        with refused(f"cannot read {self.path / HISTORY}"):
            return read_history(self.path / HISTORY, n_clusters)

    def snapshots(self) -> Snapshots | None:
        """Label features of a sample of the images at several moments of training, if the run kept them."""
        return read_snapshots(self.path / SNAPSHOTS, self.config()["n_images"], self.settings().n_clusters)

    def metrics(self) -> dict[str, Any] | None:
        """The scores, if the run was evaluated."""
        path = self.path / METRICS
        if not path.exists():
            return None
        with refused(f"cannot read {path}"):
            tree = read_json(path)
            if not isinstance(tree, dict) or set(tree) != {field.name for field in fields(Metrics)}:
                raise ValueError("it holds no scores")
            if not all(isinstance(score, (int, float)) and math.isfinite(score) for score in tree.values()):
                raise ValueError("a score in it is no number")
            return tree


def _writer(config: dict[str, Any]) -> str:
    """The program that wrote a run."""
    versions = config.get("versions")
    return f"gatcluster {one_line(versions.get('gatcluster', 'unknown')) if isinstance(versions, dict) else 'unknown'}"


def load_run(path: Path) -> RunFolder:
    """An existing run folder; anything else is an error that says what is missing."""
    if not path.is_dir():
        raise InputError(f"{path} is not a run folder: there is no such folder")
    run = RunFolder(path)
    run.config()
    return run
