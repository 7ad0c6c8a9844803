"""What a result may depend on: the machine, the versions, the commit."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gatcluster.data.workers import usable_cpus
from gatcluster.devices import computes_in_bf16

_REPOSITORY = Path(__file__).resolve().parents[2]


def hardware() -> dict[str, Any]:
    """Processor, cores that may be used, memory, and whether `fast` finds 16-bit floats there."""
    described = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = re.search(r"model name\s*:\s*(.+)", described)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": " ".join(model[1].split()) if model else platform.machine(),
        "cores": usable_cpus(),
        "memory_bytes": memory,
        "computes_in_16_bits": computes_in_bf16(),
    }


def versions() -> dict[str, str]:
    """Of all libraries that a method may use."""
    from gatcluster.runs.folder import library_versions  # brings the recipes along, which peers shall not carry

    known = library_versions()
    for name in ("umap-learn",):
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            known[name] = "not installed"
    return known


def commit() -> str:
    """The commit of the code, with a + if the package differs from it."""
    named = _git("rev-parse", "--short=10", "HEAD")
    return named + ("+" if named and _git("status", "--porcelain", "--", "src") else "") if named else "unknown"


def peak_bytes(process: int | str = "self") -> int | None:
    """Peak resident memory of a process so far: VmHWM, not getrusage, which starts from the parent's peak."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=_REPOSITORY, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
