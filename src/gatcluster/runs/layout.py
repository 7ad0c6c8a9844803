"""What lies in a run folder, and whether a folder may become one.

Light on imports, so that the command line can ask before it imports anything slow.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from gatcluster.errors import InputError

CONFIG: Final = "config.json"  # all settings, the seed, versions; written last, because it makes the folder a run
MODEL: Final = "model.safetensors"
CLUSTERS: Final = "clusters.csv"
LABEL_FEATURES: Final = "label_features.npy"
HISTORY: Final = "history.jsonl"
SNAPSHOTS: Final = "snapshots.npz"  # label features of a sample, at moments of training
SKIPPED: Final = "skipped.csv"  # only if files could not be read
METRICS: Final = "metrics.json"  # once evaluated, and the next
LABELS: Final = "evaluated-labels.csv"
CONTACT_SHEET: Final = "clusters.png"
REPORT: Final = "report"  # a folder with a web page
DEMO_IMAGES: Final = "demo-images"  # a folder; only the demo's run has it, and the next
DEMO_LABELS: Final = "demo-labels.csv"
PREVIOUS: Final = ".previous-run"  # a folder; a run that is being replaced, until the new one is whole
MOVING: Final = ".previous-run.part"  # a folder; part of a run that is on its way there or back
RESUME: Final = "resume.json"  # what is needed to go on with a run; gone once it is whole
CHECKPOINTS: Final = "checkpoints"  # a folder; gone once the run is whole
LOCK: Final = ".lock"  # locked by the process that writes to the folder

RUN_ENTRIES: Final = frozenset(
    {
        CONFIG,
        MODEL,
        CLUSTERS,
        LABEL_FEATURES,
        HISTORY,
        SNAPSHOTS,
        SKIPPED,
        METRICS,
        LABELS,
        CONTACT_SHEET,
        REPORT,
        DEMO_IMAGES,
        DEMO_LABELS,
        PREVIOUS,
        MOVING,
        RESUME,
        CHECKPOINTS,
        LOCK,
    }
)


def is_run_entry(name: str) -> bool:
    """Whether a run writes an entry of this name, be it the temporary file that a killed run left of it."""
    temporary = re.fullmatch(r"\.(.+)\.\d+\.tmp", name)
    return name in RUN_ENTRIES or (temporary is not None and temporary[1] in RUN_ENTRIES)


def is_temporary(name: str) -> bool:
    """Whether an entry of this name is what a killed run left of something that it was writing."""
    return is_run_entry(name) and name not in RUN_ENTRIES


def check_free(path: Path, overwrite: bool) -> None:
    """Refuse a folder that cannot be written to, or that holds something.

    With ``overwrite`` a folder may hold a run, whole or broken off, but nothing that a run does not write.
    """
    nearest = path.absolute()
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        raise InputError(f"cannot write to {path}: {nearest} is not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"cannot write to {path}: no permission to write in {nearest}")
    for name in (PREVIOUS, MOVING):
        if (path / name).is_symlink():  # a run never makes one; a stranger's might lead to another folder's files
            raise InputError(f"{path / name} is a link, and no run makes one: remove it")
    entries = [entry.name for entry in path.iterdir() if entry.name != LOCK] if path.exists() else []
    if RESUME in entries and not overwrite:
        raise InputError(
            f"{path} holds a run that is not finished: `gatcluster fit --resume {path}` goes on with it, "
            "--overwrite starts again"
        )
    if entries and not overwrite:
        raise InputError(f"{path} exists and is not empty: give another folder, or --overwrite to replace a run in it")
    foreign = sorted(name for name in entries if not is_run_entry(name))
    if foreign:
        raise InputError(f"{path} holds {foreign[0]}, which no run writes: --overwrite replaces only runs")
