"""Image files on disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif"})


@dataclass(frozen=True)
class ImageFiles:
    """Files, each an encoded image."""

    paths: Sequence[Path]
    names: Sequence[str]

    def open(self, index: int) -> IO[bytes]:
        """One file."""
        return self.paths[index].open("rb")

    def fingerprint(self) -> str:
        """Of the paths, sizes and times of the files."""
        digest = hashlib.blake2b(digest_size=16)
        for path in self.paths:
            try:
                status = path.stat()
                state = f"{status.st_size} {status.st_mtime_ns}"
            except OSError:
                state = "unreadable"
            digest.update(os.fsencode(path.absolute()) + b"\0" + state.encode() + b"\0")
        return digest.hexdigest()


def find_image_files(folder: Path) -> list[str]:
    """Image files below ``folder``, as sorted paths relative to it; hidden files and folders are left out."""
    found: list[str] = []
    for directory, subfolders, files in os.walk(folder):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        found += [
            (Path(directory) / name).relative_to(folder).as_posix()
            for name in files
            if not name.startswith(".") and Path(name).suffix.lower() in IMAGE_SUFFIXES
        ]
    return sorted(found)
