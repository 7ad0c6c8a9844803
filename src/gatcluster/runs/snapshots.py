"""``snapshots.npz``: label features of a sample of the images at several moments of training."""

from __future__ import annotations

import io
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from gatcluster.errors import InputError
from gatcluster.learning.snapshots import Snapshots
from gatcluster.runs.files import write_bytes


def write_snapshots(path: Path, snapshots: Snapshots) -> None:
    """Write the file, whole or not at all."""
    content = io.BytesIO()
    np.savez_compressed(content, **snapshots._asdict())
    write_bytes(path, content.getvalue())


def read_snapshots(path: Path, n_images: int, n_clusters: int) -> Snapshots | None:
    """The snapshots of a run of N images and k clusters; None where it kept none."""
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            images, features = file["images"].astype(np.int64), file["features"].astype(np.float16)
            stages, progress = file["stages"].tolist(), file["progress"].tolist()
        if features.shape != (len(stages), len(images), n_clusters) or len(progress) != len(stages):
            raise ValueError("its parts do not fit together")
        if images.ndim != 1 or not ((images >= 0) & (images < n_images)).all():
            raise ValueError("it names images that the run does not have")
    except (OSError, KeyError, ValueError, TypeError, EOFError, BadZipFile) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    return Snapshots(images, [str(stage) for stage in stages], [float(share) for share in progress], features)
