"""The idx files of MNIST and its kin (Fashion-MNIST, KMNIST, EMNIST, QMNIST): plain or gzipped.

The format is described at http://yann.lecun.com/exdb/mnist: two zero bytes, the type of the values, the number of
axes, the length of each as four bytes, then the values.
"""

from __future__ import annotations

import gzip
import math
import re
import struct
import zlib
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gatcluster.data.names import numbered_names
from gatcluster.data.stored import StoredImages
from gatcluster.errors import InputError

_TYPES: Final = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_IMAGE_FILE: Final = re.compile(r"(?P<set>.*?)[-_.]?images[-_.]idx[34][-_.]ubyte(\.gz)?", re.IGNORECASE)
_SETS: Final = ("train", "t10k", "test")


def idx_images(path: Path) -> StoredImages:
    """The images of one idx file, or of a folder's training and test files. Files that are not gzipped stay on disk."""
    files = idx_image_files(path)
    parts = [_array(file) for file in files]
    for file, part in zip(files, parts, strict=True):
        if part.ndim not in (3, 4):
            raise InputError(f"{file} holds no images: its values have {part.ndim} axes, shape {part.shape}")
    names = [n for file, part in zip(files, parts, strict=True) for n in numbered_names(_set(file), len(part))]
    return StoredImages(parts, names)


def idx_labels(path: Path) -> list[tuple[str, str | None]]:
    """The labels of the images, from the label file beside each image file."""
    labels: list[tuple[str, str | None]] = []
    for file in idx_image_files(path):
        name = re.sub(r"images([-_.])idx[34]", r"labels\1idx1", file.name.removesuffix(".gz"))
        beside = [file.with_name(name), file.with_name(f"{name}.gz")]
        found = [candidate for candidate in beside if candidate.is_file() and candidate != file]
        if not found:
            raise InputError(f"no labels for {file}: there is no {name} beside it; give a CSV file with path and label")
        numbers = _array(found[0])
        if numbers.ndim != 1:
            raise InputError(f"{found[0]} holds no labels: its values have {numbers.ndim} axes")
        labels += zip(numbered_names(_set(file), len(numbers)), map(str, numbers.tolist()), strict=True)
    return labels


def is_idx_file(path: Path) -> bool:
    """Whether a file begins like an idx file of images, whatever its name."""
    try:
        with _opened(path) as file:
            start = file.read(4)
    except (OSError, EOFError, zlib.error):
        return False
    return len(start) == 4 and start[:2] == b"\0\0" and start[2] in _TYPES and start[3] in (3, 4)


def idx_image_files(path: Path) -> list[Path]:
    """The image files of a folder, training before test, plain before gzipped; or the file itself."""
    if path.is_file():
        return [path]
    found: dict[str, Path] = {}
    for file in sorted(path.iterdir()):
        match = _IMAGE_FILE.fullmatch(file.name)
        if match and file.is_file() and not file.name.startswith("."):
            found.setdefault(match["set"].lower(), file)
    if not found:
        raise InputError(f"no idx files in {path}: it holds no file such as train-images-idx3-ubyte.gz")
    usual = [found[name] for name in _SETS if name in found]
    if not usual and len(found) > 1:
        raise InputError(f"{path} holds several sets ({', '.join(found)}): give the image file of one of them")
    return usual or list(found.values())


def _set(file: Path) -> str:
    match = _IMAGE_FILE.fullmatch(file.name)
    return (match["set"] if match else "") or file.name.removesuffix(".gz")


def _array(path: Path) -> NDArray[Any]:
    """The values of an idx file: memory-mapped if it is plain, in memory once if it is gzipped."""
    try:
        with _opened(path) as file:
            kind, shape = _header(path, file)
            start = file.tell()
            count = math.prod(shape)
            if not isinstance(file, gzip.GzipFile):
                if path.stat().st_size != start + count * kind.itemsize:
                    raise EOFError("it is longer or shorter than it says")
                return np.memmap(path, dtype=kind, mode="r", offset=start, shape=shape) if count else np.empty(shape)
            content = file.read(count * kind.itemsize + 1)
            if len(content) != count * kind.itemsize:
                raise EOFError("it is longer or shorter than it says")
            return np.frombuffer(content, dtype=kind).reshape(shape)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {path} as an idx file: {error}; fetch it again") from None


def _header(path: Path, file: gzip.GzipFile | BufferedReader) -> tuple[np.dtype[Any], tuple[int, ...]]:
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _TYPES:
        raise InputError(f"{path} is no idx file: it does not begin like one")
    lengths = file.read(4 * start[3])
    if len(lengths) < 4 * start[3]:
        raise EOFError("it ends within its header")
    return np.dtype(_TYPES[start[2]]), struct.unpack(f">{start[3]}I", lengths)


def _opened(path: Path) -> gzip.GzipFile | BufferedReader:
    """The file, unzipped if it is zipped, whatever its name says."""
    with path.open("rb") as file:
        is_zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if is_zipped else path.open("rb")
