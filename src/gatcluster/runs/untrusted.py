"""Reading files that a stranger may have written: nothing in them decides how much memory or time reading takes.

A file is read only if it is one (no pipe, no device), and if it is no larger than its kind ever is. Arrays say their
shape in a header, which is compared with what is expected and with the size of the file before anything is allocated.
Whatever goes wrong becomes one :class:`~gatcluster.errors.InputError` of one line.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gatcluster.devices import machine_memory
from gatcluster.errors import InputError

MOST_JSON: Final = 1 << 24  # bytes of a config.json, a metrics.json and the like
MOST_LINE: Final = 1 << 22  # bytes of a line of a table or of a history
MOST_IMAGES: Final = 10**9

_MOST_IN_MESSAGE: Final = 200
_MAGIC: Final = b"\x93NUMPY"
_MOST_HEADER: Final = 1 << 13
# numpy writes every header just so. What it cannot be is a pickle, or an expression to be evaluated.
_HEADER: Final = re.compile(
    rb"\{'descr': '([<>|=]?[a-zA-Z]\d{0,4})', 'fortran_order': (False|True), 'shape': \(([\d, ]{0,100})\), \}\s*"
)


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Turn whatever a damaged or hostile file provokes into an error that a user can read.

    Args:
        what: could not be done, such as "cannot read x/clusters.csv".
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # parsers of hostile bytes may raise anything
        raise InputError(f"{what}: {one_line(error)}") from None


def one_line(error: object) -> str:
    r"""A message without line ends, control characters, or the whole of a hostile file.

    >>> one_line("two\nlines\x1b[2J")
    'two lines?[2J'
    """
    text = str(error) if str(error) else type(error).__name__
    line = " ".join("".join(c if c.isprintable() or c.isspace() else "?" for c in text[: 4 * _MOST_IN_MESSAGE]).split())
    return line if len(line) <= _MOST_IN_MESSAGE else line[:_MOST_IN_MESSAGE] + "..."


def size_of(path: Path, most: int | None = None) -> int:
    """The size of a file that can be read into memory.

    Raises:
        ValueError: it is a pipe or a device, or larger than ``most`` or than half of the machine's memory.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a file")
    if most is not None and status.st_size > most:
        raise ValueError(f"it is too large: {status.st_size:,} bytes, of at most {most:,}")
    check_memory(status.st_size)
    return status.st_size


def check_memory(n_bytes: int) -> None:
    """Refuse what takes more than half of the machine's memory."""
    memory = machine_memory()
    if n_bytes > memory // 2:
        raise ValueError(f"it takes {n_bytes / 1e9:.1f} GB, and this machine has {memory / 1e9:.1f} GB of memory")


def check_path(text: str) -> None:
    """Refuse text that no path can be: the operating system would, in a dozen ways."""
    encoded = os.fsencode(text)
    if b"\0" in encoded or len(encoded) > 4096 or any(len(part) > 255 for part in encoded.split(b"/")):
        raise ValueError(f"no path can be '{one_line(text)}'")


def read_json(path: Path) -> Any:
    """Plain data from a file of a few megabytes at most."""
    size_of(path, MOST_JSON)
    return parsed_json(path.read_bytes())


def parsed_json(content: bytes) -> Any:
    """Plain data.

    Raises:
        ValueError: it is no JSON, or nested too deep.
    """
    try:
        return json.loads(content.decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a text file, none of them endless; bytes that are no UTF-8 are kept as surrogates."""
    size_of(path)
    with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        while line := file.readline(MOST_LINE):
            if len(line) == MOST_LINE:
                raise ValueError(f"it has a line of more than {MOST_LINE:,} characters")
            yield line


class _Header(NamedTuple):
    dtype: np.dtype[Any]
    order: Literal["C", "F"]
    shape: tuple[int, ...]
    n_bytes: int  # of the numbers that follow


def read_npy(path: Path, kind: str, shape: Sequence[int | None]) -> NDArray[Any]:
    """The array of a ``.npy`` file, if it is just of this kind and shape.

    Args:
        path: of the file.
        kind: of its numbers, such as "<f4".
        shape: that it must have; None for any number.
    """
    size = size_of(path)
    with path.open("rb") as file:
        return _read_array(file, size, kind, shape)


def read_npz(path: Path, most: int, **expected: tuple[str, Sequence[int | None]]) -> dict[str, NDArray[Any]]:
    """The arrays of a ``.npz`` file by name, if they are just of these kinds and shapes and take ``most`` bytes in all.

    A zip file may unpack to a thousand times its size: what its headers say is compared before a byte is unpacked.
    """
    size_of(path, most)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.getinfo(f"{name}.npy") for name in expected}
        total = sum(member.file_size for member in members.values())
        if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members.values()):
            raise ValueError("it is packed in another way than numpy packs")
        if total > most:
            raise ValueError(f"it would unpack to {total:,} bytes, of at most {most:,}")
        arrays = {}
        for name, (kind, shape) in expected.items():
            with archive.open(members[name]) as file:
                arrays[name] = _read_array(file, members[name].file_size, kind, shape)
        return arrays


def _read_array(file: IO[bytes], size: int, kind: str, shape: Sequence[int | None]) -> NDArray[Any]:
    """The array in a file of ``size`` bytes."""
    header = _read_header(file)
    wanted = ", ".join("any" if side is None else str(side) for side in shape)
    fits = len(header.shape) == len(shape) and all(
        side in (None, own) for side, own in zip(shape, header.shape, strict=True)
    )
    if not re.fullmatch(kind, header.dtype.str) or not fits:
        raise ValueError(
            f"its numbers are of kind {header.dtype.str} and shape {header.shape}, not {kind} and ({wanted})"
        )
    if file.tell() + header.n_bytes != size:
        raise ValueError("its size is not what its header says")
    content = np.empty(header.n_bytes, np.uint8)
    if file.readinto(content.data) != header.n_bytes:  # type: ignore[attr-defined]
        raise ValueError("it is cut off")
    return content.view(header.dtype).reshape(header.shape, order=header.order)


def _read_header(file: IO[bytes]) -> _Header:
    start = file.read(8)
    if start[:6] != _MAGIC or start[6:7] not in (b"\x01", b"\x02", b"\x03"):
        raise ValueError("it is no array of numpy's format")
    length = int.from_bytes(file.read(2 if start[6] == 1 else 4), "little")
    if length > _MOST_HEADER:
        raise ValueError(f"its header is of {length:,} bytes")
    match = _HEADER.fullmatch(file.read(length))
    if match is None:
        raise ValueError("its header is not one that numpy writes")
    dtype = np.dtype(match[1].decode())
    shape = tuple(int(part) for part in match[3].decode().replace(" ", "").split(",") if part)
    return _Header(dtype, "F" if match[2] == b"True" else "C", shape, math.prod(shape) * dtype.itemsize)
