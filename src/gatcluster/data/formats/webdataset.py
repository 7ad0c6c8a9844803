"""WebDataset: tar files whose members are images, with a label beside each as ``KEY.cls``.

A tar file is indexed once, from its headers; an image is then read from its place in the file.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Final

from gatcluster.data.files import files_fingerprint, is_image_name, load_plug_ins, open_regular
from gatcluster.errors import InputError

_LABEL_SUFFIX: Final = ".cls"


@dataclass(frozen=True)
class Member:
    """Where an image lies: or, without a place, why what should be there is not."""

    shard: int
    start: int
    size: int
    trouble: str = ""


@dataclass(frozen=True)
class TarImages:
    """Images in tar files."""

    shards: Sequence[Path]
    members: Sequence[Member]
    names: Sequence[str]

    def open(self, index: int) -> IO[bytes]:
        """One image."""
        load_plug_ins()  # a worker process, too, must know all of this installation's formats
        member = self.members[index]
        if member.trouble:
            raise OSError(member.trouble)
        return io.BytesIO(_content(self.shards[member.shard], member))

    def fingerprint(self) -> str:
        """Of the shards; their members follow from them."""
        return files_fingerprint(self.shards, "webdataset", *(f"{m.start} {m.size}" for m in self.members))


def tar_images(path: Path) -> TarImages:
    """All images of a tar file, or of the tar files of a folder, named by their paths in the tar file.

    Of several tar files the names begin with that of the file. If one of them is cut off, the images before the cut
    are used, and the file is named as one that could not be read.
    """
    shards = tar_files(path)
    members: list[Member] = []
    names: list[str] = []
    for number, shard in enumerate(shards):
        prefix = _prefix(path, shard)
        for name, start, size, trouble in _indexed(shard):
            if trouble:
                members.append(Member(number, 0, 0, trouble))
                names.append(shard.name)
            elif is_image_name(name):
                members.append(Member(number, start, size))
                names.append(prefix + name)
    if not any(not member.trouble for member in members):
        trouble = members[0].trouble if members else "they hold no member that ends like an image, such as .jpg"
        raise InputError(f"no images in the tar files of {path}: {trouble}")
    return TarImages(shards, members, names)


def tar_labels(path: Path) -> list[tuple[str, str | None]]:
    """The label of each image: the content of ``KEY.cls``, else the folder in which it lies inside the tar file."""
    labels: list[tuple[str, str | None]] = []
    for number, shard in enumerate(tar_files(path)):
        prefix = _prefix(path, shard)
        entries = [entry for entry in _indexed(shard) if not entry[3]]
        classes = {
            _key(name): _content(shard, Member(number, start, size)).decode(errors="replace").strip()
            for name, start, size, _ in entries
            if name.endswith(_LABEL_SUFFIX)
        }
        for name, *_ in entries:
            if is_image_name(name):
                label = classes.get(_key(name)) or PurePosixPath(name).parent.name
                labels.append((prefix + name, label or None))
    if not any(label for _, label in labels):
        raise InputError(f"{path} carries no labels: its images have neither a {_LABEL_SUFFIX} file nor a folder")
    return labels


def tar_files(path: Path) -> list[Path]:
    """The file itself, or the tar files of a folder, sorted."""
    if path.is_file():
        return [path]
    found = sorted(file for file in path.glob("*.tar") if file.is_file() and not file.name.startswith("."))
    if not found:
        raise InputError(f"no tar files in {path}")
    return found


def _prefix(path: Path, shard: Path) -> str:
    return "" if path.is_file() else f"{shard.name}/"


def _key(name: str) -> str:
    """What the files of one sample have in common: the path up to the first dot of the file name.

    >>> _key("a.b/0001.seg.png")
    'a.b/0001'
    """
    folder, slash, base = name.rpartition("/")
    return folder + slash + base.partition(".")[0]


def _indexed(shard: Path) -> Sequence[tuple[str, int, int, str]]:
    status = shard.stat()
    return _index(shard, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1024)
def _index(shard: Path, size: int, changed: int) -> Sequence[tuple[str, int, int, str]]:
    """Name, place, size of the regular members of a tar file, with any trouble as the last entry."""
    entries: list[tuple[str, int, int, str]] = []
    try:
        for member in _members(shard):
            if member.offset_data + member.size > size:
                raise tarfile.ReadError("unexpected end of data")
            entries.append((member.name.removeprefix("./"), member.offset_data, member.size, ""))
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        with open_regular(shard) as file:
            if file.read(2) == b"\x1f\x8b":
                raise InputError(f"{shard} is compressed, and so its images cannot be picked out: unzip it") from None
        entries.append(("", 0, 0, f"the tar file is damaged or cut off after {len(entries)} members: {error}"))
    return entries


def _members(shard: Path) -> Iterator[tarfile.TarInfo]:
    with open_regular(shard) as file, tarfile.open(fileobj=file, mode="r:") as tar:
        for member in tar:
            tar.members = []  # type: ignore[attr-defined] # or the headers of a million images stay in memory
            if member.isreg() and not member.issparse():
                yield member


def _content(shard: Path, member: Member) -> bytes:
    with open_regular(shard) as file:
        file.seek(member.start)
        content = file.read(member.size)
    if len(content) < member.size:
        raise OSError("the tar file became shorter while it was read")
    return content
