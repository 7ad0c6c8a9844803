"""CIFAR-10 and CIFAR-100 as published, in the binary and in the python version.

https://www.cs.toronto.edu/~kriz/cifar.html. Both versions give the same images in the same order under the same
names: the training batches, then the test batch, as all work on clustering uses them.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from gatcluster.data.names import numbered_names
from gatcluster.data.stored import StoredImages
from gatcluster.errors import InputError

LabelKind = Literal["labels", "fine_labels", "coarse_labels"]  # as the python version calls them

_SHAPE: Final = (3, 32, 32)  # planes of red, green and blue
_PIXELS: Final = 3 * 32 * 32
CIFAR10_BATCHES: Final = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
CIFAR100_BATCHES: Final = ("train", "test")
# Where the label of each kind lies in a record of the binary version, and in front of how many bytes of pixels.
_LABEL_BYTES: Final[dict[LabelKind, tuple[int, int]]] = {
    "labels": (0, 1),
    "coarse_labels": (0, 2),
    "fine_labels": (1, 2),
}


def cifar10_images(path: Path) -> StoredImages:
    """CIFAR-10 from its folder, or from one batch."""
    return _images(batches(path, CIFAR10_BATCHES), label_bytes=1)


def cifar100_images(path: Path) -> StoredImages:
    """CIFAR-100 from its folder, or from its training or test file."""
    return _images(batches(path, CIFAR100_BATCHES), label_bytes=2)


def cifar10_labels(path: Path) -> list[tuple[str, str | None]]:
    """The ten classes."""
    return _labels(batches(path, CIFAR10_BATCHES), "labels")


def cifar100_labels(path: Path) -> list[tuple[str, str | None]]:
    """The 100 fine classes."""
    return _labels(batches(path, CIFAR100_BATCHES), "fine_labels")


def cifar100_coarse_labels(path: Path) -> list[tuple[str, str | None]]:
    """The 20 coarse classes."""
    return _labels(batches(path, CIFAR100_BATCHES), "coarse_labels")


def batches(path: Path, names: tuple[str, ...]) -> list[Path]:
    """The batch files that are there, in their order; of both versions the binary one."""
    if path.is_file():
        return [path]
    found = [file for name in names for file in (path / f"{name}.bin", path / name) if file.is_file()]
    first_of_each = list({file.stem: file for file in reversed(found)}.values())[::-1]
    if not first_of_each:
        raise InputError(f"no CIFAR batches in {path}: it holds no file {names[0]}.bin and no file {names[0]}")
    return first_of_each


def _images(files: list[Path], label_bytes: int) -> StoredImages:
    parts = [
        _records(file, label_bytes)[:, label_bytes:] if file.suffix == ".bin" else _pixels_of_batch(file)
        for file in files
    ]
    names = [name for file, part in zip(files, parts, strict=True) for name in numbered_names(file.stem, len(part))]
    return StoredImages([part.reshape(-1, *_SHAPE).transpose(0, 2, 3, 1) for part in parts], names)


def _labels(files: list[Path], kind: LabelKind) -> list[tuple[str, str | None]]:
    labels: list[tuple[str, str | None]] = []
    for file in files:
        if file.suffix == ".bin":
            column, label_bytes = _LABEL_BYTES[kind]
            numbers = _records(file, label_bytes)[:, column].tolist()
        else:
            numbers = _load_batch(file).get(kind.encode())
            if not isinstance(numbers, list):
                raise InputError(f"{file} holds no {kind.replace('_', ' ')}")
        labels += zip(numbered_names(file.stem, len(numbers)), map(str, numbers), strict=True)
    return labels


def _records(file: Path, label_bytes: int) -> NDArray[np.uint8]:
    """A binary batch, memory-mapped: records of one or two labels and the planes of an image."""
    length, size = label_bytes + _PIXELS, file.stat().st_size
    if size == 0 or size % length:
        raise InputError(f"{file} is not a whole CIFAR batch: {size} bytes are no multiple of {length}; fetch it again")
    return np.memmap(file, dtype=np.uint8, mode="r", shape=(size // length, length))


def _pixels_of_batch(file: Path) -> NDArray[np.uint8]:
    data = _load_batch(file).get(b"data")
    if not isinstance(data, _PickledArray) or data.array.shape[1:] != (_PIXELS,) or len(data.array) == 0:
        raise InputError(f"{file} is not a CIFAR batch: it holds no array of 32x32 colour images")
    return data.array


def _load_batch(file: Path) -> dict[Any, Any]:
    """The dictionary of a python batch. These files are pickles, so nothing but plain data is let through."""
    try:
        with file.open("rb") as stream:
            batch = _PlainUnpickler(stream, encoding="bytes").load()
    except InputError:
        raise
    except Exception as error:  # on a damaged pickle anything may be raised
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"cannot read {file} as a CIFAR batch: {reason}") from None
    if not isinstance(batch, dict):
        raise InputError(f"{file} is not a CIFAR batch: it holds no dictionary")
    return {key.encode() if isinstance(key, str) else key: value for key, value in batch.items()}


class _PickledType:
    """Stands for ``numpy.dtype`` in a pickle: only bytes are let through."""

    def __init__(self, name: bytes | str, *_: object) -> None:
        if name not in (b"u1", "u1"):
            raise ValueError(f"it holds an array of {name!r} instead of bytes")

    def __setstate__(self, state: object) -> None:
        pass


class _PickledArray:
    """Stands for ``numpy.ndarray`` in a pickle, so that no pickle ever drives NumPy's own code."""

    array: NDArray[np.uint8]

    def __setstate__(self, state: tuple[int, tuple[int, ...], _PickledType, bool, bytes]) -> None:
        _, shape, kind, column_major, content = state
        if not isinstance(kind, _PickledType) or not isinstance(content, bytes):
            raise ValueError("it holds an array that is none of bytes")
        self.array = np.frombuffer(content, np.uint8).reshape(shape, order="F" if column_major else "C")


def _pickled_array(*_: object) -> _PickledArray:
    return _PickledArray()


def _pickled_bytes(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes for Python 2."""
    if encoding not in ("latin1", b"latin1"):
        raise ValueError(f"unexpected encoding {encoding!r}")
    return text.encode("latin1")


class _PlainUnpickler(pickle.Unpickler):
    """Reads numbers, text, bytes, lists, dictionaries and arrays of bytes. Anything else is refused, and not run."""

    _ADMITTED: Final = {
        ("numpy.core.multiarray", "_reconstruct"): _pickled_array,
        ("numpy._core.multiarray", "_reconstruct"): _pickled_array,
        ("numpy", "ndarray"): _PickledArray,
        ("numpy", "dtype"): _PickledType,
        ("_codecs", "encode"): _pickled_bytes,
    }

    def find_class(self, module: str, name: str) -> Any:
        """What a name in the pickle stands for."""
        try:
            return self._ADMITTED[module, name]
        except KeyError:
            raise InputError(
                f"refused to read a pickle that asks for {module}.{name}, which no CIFAR file does: "
                "get the file from its publisher"
            ) from None
