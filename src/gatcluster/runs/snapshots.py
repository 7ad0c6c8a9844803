"""``snapshots.npz``: label features of a sample of the images at several moments of training."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import numpy as np

from gatcluster.learning.snapshots import Snapshots
from gatcluster.runs.files import write_bytes
from gatcluster.runs.untrusted import read_npz, refused

_MOST: Final = 1 << 31  # bytes, unpacked: twelve moments of 2,000 images with 40,000 clusters


def write_snapshots(path: Path, snapshots: Snapshots) -> None:
    """Write the file, whole or not at all."""
    content = io.BytesIO()
    np.savez_compressed(content, **snapshots._asdict())
    write_bytes(path, content.getvalue())


def read_snapshots(path: Path, n_images: int, n_clusters: int) -> Snapshots | None:
    """The snapshots of a run of N images and k clusters; None where it kept none."""
    if not path.exists():
        return None
    with refused(f"cannot read {path}"):
        file = read_npz(
            path,
            _MOST,
            images=("<i8", (None,)),
            stages=("<U[0-9]+", (None,)),
            progress=("<f8", (None,)),
            features=("<f2", (None, None, n_clusters)),
        )
        images, features = file["images"], file["features"]
        stages, progress = file["stages"].tolist(), file["progress"].tolist()
        if features.shape[:2] != (len(stages), len(images)) or len(progress) != len(stages):
            raise ValueError("its parts do not fit together")
        if not ((images >= 0) & (images < n_images)).all():
            raise ValueError("it names images that the run does not have")
        if not all(0 <= share <= 1 for share in progress):
            raise ValueError("it has moments before or after the training")
        return Snapshots(images, [str(stage) for stage in stages], progress, features)
