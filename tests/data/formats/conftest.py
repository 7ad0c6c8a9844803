"""Small files in the formats of the publishers, written here byte by byte."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image


def pixels(n: int, height: int = 32, width: int = 32, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Noise, (n, height, width, channels)."""
    return np.random.default_rng(seed).integers(0, 256, (n, height, width, channels), dtype=np.uint8)


def png(image: np.ndarray) -> bytes:
    content = io.BytesIO()
    Image.fromarray(image.squeeze()).save(content, "PNG")
    return content.getvalue()


def planes(images: np.ndarray) -> np.ndarray:
    """(n, H, W, 3) as rows of a red, a green and a blue plane."""
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def cifar_binary(path: Path, images: np.ndarray, *labels: list[int]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = np.array(labels, dtype=np.uint8).T
    path.write_bytes(np.concatenate([columns, planes(images)], axis=1).tobytes())
    return path


def cifar_python(path: Path, images: np.ndarray, **labels: list[int]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    batch = {b"batch_label": b"batch 1 of 5", b"data": planes(images), b"filenames": [b"a.png"] * len(images)}
    batch |= {name.encode(): numbers for name, numbers in labels.items()}
    path.write_bytes(pickle.dumps(batch, protocol=2))
    return path


def stl(folder: Path, name: str, images: np.ndarray, labels: list[int] | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}_X.bin").write_bytes(images.transpose(0, 3, 2, 1).tobytes())
    if labels is not None:
        (folder / f"{name}_y.bin").write_bytes(bytes(labels))


def idx(path: Path, values: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def tar(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as file:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return path


def parquet(path: Path, columns: dict[str, list[object]], **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **options)
    return path


def arrow(path: Path, columns: dict[str, list[object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return path


def saved_dataset(folder: Path, columns: dict[str, list[object]]) -> Path:
    """As ``Dataset.save_to_disk`` leaves it."""
    arrow(folder / "data-00000-of-00001.arrow", columns)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


@pytest.fixture(scope="session")
def write() -> SimpleNamespace:
    """Functions that write small files."""
    functions: list[Callable[..., object]] = [
        pixels, png, planes, cifar_binary, cifar_python, stl, idx, tar, parquet, arrow, saved_dataset,
    ]  # fmt: skip
    return SimpleNamespace(**{function.__name__: function for function in functions})
