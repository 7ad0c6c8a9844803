"""A run folder: ``config.json``, ``model.safetensors``, ``clusters.csv``, ``label_features.npy``, ``history.jsonl``.

``skipped.csv`` is there if files could not be read, ``metrics.json`` once the run was evaluated. Nothing in a run
folder is a pickle, and none is read.
"""

from __future__ import annotations

import csv
import io
import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError

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
from gatcluster.model.network import GATNetwork, build_network
from gatcluster.runs.files import csv_text, named_write_errors, write_bytes, write_csv, write_json
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
from gatcluster.runs.snapshots import read_snapshots, write_snapshots

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
    """Rows (path, cluster, confidence), one for each image, in the order of the images."""
    clusters, confidence = label_features.argmax(axis=1), label_features.max(axis=1)
    for name, cluster, sure in zip(names, clusters, confidence, strict=True):
        yield name, int(cluster), f"{sure:.6f}"


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
            write_bytes(self.path, _history_lines(history))

    def on_record(self, record: Record) -> None:
        """Append one line."""
        with named_write_errors(self.path), self.path.open("ab") as file:
            file.write(_history_lines([record]))


def _history_lines(history: Sequence[Record]) -> bytes:
    return "".join(json.dumps(record.as_json()) + "\n" for record in history).encode()


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
        weights = {name: tensor.contiguous() for name, tensor in result.network.state_dict().items()}
        write_bytes(self.path / MODEL, safetensors.torch.save(weights))
        features = io.BytesIO()
        np.save(features, result.label_features)
        write_bytes(self.path / LABEL_FEATURES, features.getvalue())
        write_csv(self.path / CLUSTERS, CLUSTERS_HEADER, cluster_rows(names, result.label_features))
        write_bytes(self.path / HISTORY, _history_lines(result.history))
        if result.snapshots is not None:
            write_snapshots(self.path / SNAPSHOTS, result.snapshots)
        if skipped:
            write_csv(self.path / SKIPPED, ("path", "reason"), [(file.name, file.reason) for file in skipped])
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
        try:
            tree = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(tree, dict):
                raise ValueError("it holds no settings")
            if tree.get("format", FORMAT) != FORMAT:
                raise InputError(
                    f"{self.path} has run format {tree['format']}, of {_writer(tree)}; "
                    f"this version, {version('gatcluster')}, reads format {FORMAT}"
                )
            for key, kinds in _CONFIG_KINDS.items():
                if not isinstance(tree.get(key), kinds):
                    raise ValueError(f"no proper '{key}' in it")
        except InputError:
            raise
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is damaged: {error}") from None
        return tree

    def source_format(self) -> Format | None:
        """The format in which the source was read, if the run knows it."""
        name = self.config().get("source_format")
        try:
            return None if name is None else check_format(name)
        except InputError as error:
            raise InputError(f"{self.path / CONFIG} is damaged: {error}") from None

    def settings(self) -> Settings:
        """The run's settings."""
        tree = self.config()
        try:
            return checked_settings(tree["settings"])
        except InputError as error:
            if tree["versions"].get("gatcluster") != version("gatcluster"):
                raise InputError(
                    f"{self.path} was written by {_writer(tree)}; this version, {version('gatcluster')}, "
                    f"cannot read its settings: {error}"
                ) from None
            raise InputError(f"{self.path / CONFIG} is damaged: {error}") from None

    def network(self) -> GATNetwork:
        """The trained network."""
        network = build_network(self.settings())
        try:
            network.load_state_dict(safetensors.torch.load_file(self.path / MODEL))
        except (OSError, SafetensorError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{self.path / MODEL} cannot be read as this run's model: {reason[:200]}") from None
        return network.eval()

    def clusters(self) -> tuple[list[str], list[int]]:
        """Names and clusters of the images, in the order of ``clusters.csv``."""
        path = self.path / CLUSTERS
        try:
            with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
                rows = list(csv.DictReader(file))
            if len(rows) != self.config()["n_images"]:
                raise ValueError(f"it has {len(rows)} rows, but the run has {self.config()['n_images']} images")
            return [row["path"] for row in rows], [int(row["cluster"]) for row in rows]
        except (OSError, KeyError, ValueError, TypeError, csv.Error) as error:
            raise InputError(f"cannot read {path}: {error}") from None

    def label_features(self) -> NDArray[np.float32]:
        """Label features (N, k) of the images, in the order of ``clusters.csv``."""
        try:
            features: NDArray[np.float32] = np.load(self.path / LABEL_FEATURES, allow_pickle=False)
        except (OSError, ValueError, EOFError, BadZipFile) as error:
            raise InputError(f"cannot read {self.path / LABEL_FEATURES}: {error}") from None
        return features

    def history(self) -> list[Record]:
        """One record for each outer iteration."""
        path = self.path / HISTORY
        try:
            return [Record(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"cannot read {path}: {error}") from None

    def snapshots(self) -> Snapshots | None:
        """Label features of a sample of the images at several moments of training, if the run kept them."""
        return read_snapshots(self.path / SNAPSHOTS, self.config()["n_images"], self.settings().n_clusters)

    def metrics(self) -> dict[str, Any] | None:
        """The scores, if the run was evaluated."""
        path = self.path / METRICS
        if not path.is_file():
            return None
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"cannot read {path}: {error}") from None


def _writer(config: dict[str, Any]) -> str:
    """The program that wrote a run."""
    versions = config.get("versions")
    return f"gatcluster {versions.get('gatcluster', 'unknown') if isinstance(versions, dict) else 'unknown'}"


def load_run(path: Path) -> RunFolder:
    """An existing run folder; anything else is an error that says what is missing."""
    if not path.is_dir():
        raise InputError(f"{path} is not a run folder: there is no such folder")
    run = RunFolder(path)
    run.config()
    return run
