"""Which format lies at a path, from what is there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, get_args

from gatcluster.choices import Format
from gatcluster.data.files import is_image_name, iterate_image_files
from gatcluster.data.formats.cifar import CIFAR10_BATCHES
from gatcluster.data.formats.huggingface import is_huggingface_folder
from gatcluster.data.formats.idx import is_idx_file
from gatcluster.data.formats.listing import is_pattern
from gatcluster.errors import InputError

# Formats that come as files, not as a folder; the others may be either.
_FILES_ONLY: Final[frozenset[Format]] = frozenset({"list", "csv", "numpy"})
_BY_SUFFIX: Final[dict[str, Format]] = {
    ".npy": "numpy",
    ".npz": "numpy",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "list",
    ".lst": "list",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "huggingface",
    ".tar": "webdataset",
}
# What the publishers' archives unpack to, so that the folder around it may be named as well.
_PUBLISHED_FOLDERS: Final = (
    "cifar-10-batches-bin",
    "cifar-10-batches-py",
    "cifar-100-binary",
    "cifar-100-python",
    "stl10_binary",
)
_IDX_NAME: Final = re.compile(r".*images[-_.]idx[34][-_.]ubyte(\.gz)?", re.IGNORECASE)


def check_format(name: str) -> Format:
    """A format by its name; unknown names are answered with the known ones."""
    for known in get_args(Format):
        if name == known:
            return known  # type: ignore[no-any-return]
    raise InputError(f"unknown format '{name}'; the formats are: {', '.join(get_args(Format))}")


def located_format(path: Path, wanted: str | None = None) -> tuple[Path, Format]:
    """Where the images lie, which may be a folder below ``path``, and in which format.

    Args:
        path: what the user names.
        wanted: the format that the user names; by default it is told from what is there.
    """
    chosen = check_format(wanted) if wanted is not None else None
    if chosen == "glob" or (chosen is None and is_pattern(path)):
        return path, "glob"
    if not path.exists():
        raise InputError(f"no such file or folder: {path}")
    if not (path.is_dir() or path.is_file()):
        raise InputError(f"cannot read {path}: it is neither a file nor a folder")
    if chosen in _FILES_ONLY and path.is_dir():
        raise InputError(f"{path} is a folder, but format '{chosen}' is a file: name the file, or leave the format out")
    if path.is_file():
        return path, chosen or _format_of_file(path)
    if chosen == "folder":
        return path, chosen
    inner = _published_folder(path)
    return inner, chosen or _format_of_folder(inner)


def _format_of_file(path: Path) -> Format:
    by_suffix = _BY_SUFFIX.get(path.suffix.lower())
    if by_suffix is not None:
        return by_suffix
    if is_image_name(path.name):
        return "folder"
    by_name = _format_of_names({path.name})
    if by_name is not None:
        return by_name
    if is_idx_file(path):
        return "idx"
    raise InputError(
        f"cannot read {path}: give a folder of images, a .csv, .txt, .npy, .npz, .parquet or .tar file, "
        "or say what it is with the format"
    )


def _format_of_folder(path: Path) -> Format:
    """Published sets by the names of their files; else images, wherever they lie; else shards."""
    try:
        entries = sorted(path.iterdir())
    except OSError as error:
        raise InputError(f"cannot look into {path}: {error.strerror or error}") from None
    files = {entry.name for entry in entries if entry.is_file()}
    by_name = _format_of_names(files)
    if by_name is not None:
        return by_name
    if is_huggingface_folder(path):
        return "huggingface"
    if next(iterate_image_files(path), None) is not None:
        return "folder"
    if _any_suffix(files, ".tar"):
        return "webdataset"
    if any(next(path.rglob(f"*{suffix}"), None) is not None for suffix in (".parquet", ".pq")):
        return "parquet"
    return "folder"


def _format_of_names(files: set[str]) -> Format | None:
    """The published set to which files of these names belong, if any."""
    stems = {name.removesuffix(".bin") for name in files}
    if stems & set(CIFAR10_BATCHES):
        return "cifar10"
    if {"train_X.bin", "test_X.bin", "unlabeled_X.bin"} & files:
        return "stl10"
    if {"train.bin", "test.bin"} & files or {"train", "test", "meta"} <= files:
        return "cifar100"
    if any(_IDX_NAME.fullmatch(name) for name in files):
        return "idx"
    return None


def _any_suffix(names: Iterable[str], suffix: str) -> bool:
    return any(name.lower().endswith(suffix) and not name.startswith(".") for name in names)


def _published_folder(path: Path) -> Path:
    """The folder that a publisher's archive unpacked to, if ``path`` holds exactly one of them; else ``path``."""
    inner = [path / name for name in _PUBLISHED_FOLDERS if (path / name).is_dir()]
    return inner[0] if len(inner) == 1 else path
