"""Image files on disk: which there are below a folder, and how one is opened."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Final

from PIL import Image

_SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".jfif", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif"})
# A folder with both of these is the run of an earlier fit.
RUN_MARKS: Final = frozenset({"config.json", "model.safetensors"})
# Read where the installed Pillow, or the plug-in pillow-heif beside it, knows them.
_MODERN_SUFFIXES: Final = frozenset({".avif", ".heic", ".heif"})


@lru_cache(maxsize=1)
def load_plug_ins() -> None:
    """Let Pillow know of formats that it does not read by itself; its own it loads when it meets one."""
    try:
        import pillow_heif
    except ImportError:
        return
    pillow_heif.register_heif_opener()


@lru_cache(maxsize=1)
def image_suffixes() -> frozenset[str]:
    """The endings, in small letters, of files that are taken for images in this installation."""
    load_plug_ins()
    Image.init()
    readable = {suffix for suffix, kind in Image.registered_extensions().items() if kind in Image.OPEN}
    return _SUFFIXES | (_MODERN_SUFFIXES & readable)


def is_image_name(name: str) -> bool:
    """Whether a file of this name is taken for an image: not hidden, and with an image's ending."""
    base = name.rpartition("/")[2]  # ten times as fast as a Path, for a million names
    stem, dot, ending = base.rpartition(".")
    return bool(stem) and not base.startswith(".") and (dot + ending).lower() in image_suffixes()


@dataclass(frozen=True)
class ImageFiles:
    """Files, each an encoded image."""

    paths: Sequence[Path | str]  # a million strings are made in the time of a hundred thousand paths
    names: Sequence[str]

    def open(self, index: int) -> IO[bytes]:
        """One file."""
        load_plug_ins()  # a worker process, too, must know all of this installation's formats
        return open_regular(self.paths[index])

    def fingerprint(self) -> str:
        """Of the paths, sizes and times of the files."""
        return files_fingerprint(self.paths)


def open_regular(path: Path | str) -> IO[bytes]:
    """Open a file for reading, unless it is a pipe or a device: those may never end, or never even open."""
    file = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115 - a Path has no opener
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError("not a regular file")
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def files_fingerprint(paths: Iterable[Path | str], *also: str) -> str:
    """A digest of the paths, sizes and times of files, and of whatever else decides what is read from them."""
    digest = hashlib.blake2b(digest_size=16)
    for text in also:
        digest.update(os.fsencode(text) + b"\0")
    here = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118
    for given in paths:
        path = os.fspath(given)
        try:
            status = os.stat(path)  # noqa: PTH116
            state = f"{status.st_size} {status.st_mtime_ns}"
        except (OSError, ValueError):  # a name from a list may be no name at all
            state = "unreadable"
        absolute = path if os.path.isabs(path) else here + path  # noqa: PTH117
        digest.update(os.fsencode(f"{absolute}\0{state}\0"))
    return digest.hexdigest()


def find_image_files(folder: Path) -> list[str]:
    """Image files below ``folder``, as sorted paths relative to it; hidden files and folders are left out.

    Links are followed, but every real folder is entered once and every real file listed once: under its own name if
    it lies below ``folder``, else under that of the first link to it. So a loop of links ends. (Hard links are files
    of their own.) Only regular files count; a link to nothing is listed, so that reading it can say what is wrong.
    """
    return sorted(iterate_image_files(folder))


def iterate_image_files(folder: Path) -> Iterator[str]:
    """What :func:`find_image_files` lists, one at a time and in no particular order."""
    real_folders: set[str] = set()  # entered
    linked_folders = [("", os.path.realpath(folder))]
    linked_files: list[tuple[str, str]] = []
    while linked_folders:  # folders behind links come after all that lies before them
        waiting, linked_folders = sorted(linked_folders), []
        for prefix, real in waiting:
            yield from _walk(prefix, real, real_folders, linked_folders, linked_files)
    found: set[str] = set()
    for name, target in sorted(linked_files):
        listed = os.path.dirname(target) in real_folders and is_image_name(target) and os.path.exists(target)  # noqa: PTH110, PTH120
        if not listed and target not in found:
            found.add(target)
            yield name


def _walk(
    prefix: str,
    real: str,
    real_folders: set[str],
    linked_folders: list[tuple[str, str]],
    linked_files: list[tuple[str, str]],
) -> Iterator[str]:
    """Image files of a real folder and all below it, named behind ``prefix``; links are only noted."""
    pending = [(prefix, real)]
    while pending:
        prefix, real = pending.pop()
        if real in real_folders:
            continue
        real_folders.add(real)
        try:
            entries = list(os.scandir(real))
        except OSError:
            continue  # as os.walk does: what may not be looked into holds nothing for this user
        if prefix and {entry.name for entry in entries} >= RUN_MARKS:
            continue  # the run of an earlier fit, whose pictures are results
        for entry in entries:
            name = prefix + entry.name
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                target = os.path.realpath(entry.path)
                if os.path.isdir(target):  # noqa: PTH112
                    linked_folders.append((f"{name}/", target))
                elif is_image_name(name) and (os.path.isfile(target) or not os.path.exists(target)):  # noqa: PTH110, PTH113
                    linked_files.append((name, target))
            elif entry.is_dir():
                pending.append((f"{name}/", entry.path))
            elif entry.is_file() and is_image_name(name):
                yield name
