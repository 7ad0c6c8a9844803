"""Archives, unpacked whole or not at all."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

from gatcluster.data.destination import OnBytes
from gatcluster.errors import InputError


def unpack(archive: Path, folder: Path, on_bytes: OnBytes) -> None:
    """Unpack a .tar.gz file, and of it keep the folder that is called like ``folder``.

    It is unpacked beside ``folder`` and renamed in the end, so that ``folder`` is whole as soon as it exists. An
    archive with anything but plain files and folders inside is refused.
    """
    temporary = folder.with_name(f".{folder.name}.unpacking")
    shutil.rmtree(temporary, ignore_errors=True)  # of a run that was killed
    try:
        with _Watched(archive, on_bytes) as file, tarfile.open(fileobj=file, mode="r:gz") as tar:
            # Early releases of Python 3.10 and 3.11 have no filters; the check of each member does not rely on them.
            tar.extraction_filter = getattr(tarfile, "data_filter", None)
            for member in tar:
                _check(member)
                tar.extract(member, temporary)
        if not (temporary / folder.name).is_dir():
            raise InputError(f"cannot unpack {archive}: no folder {folder.name} in it")
        (temporary / folder.name).rename(folder)
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"cannot unpack {archive}: {error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _check(member: tarfile.TarInfo) -> None:
    """Refuse what would be written outside, or could lead there."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or "\\" in member.name:
        raise tarfile.TarError(f"member {member.name!r} would lie outside")
    if not (member.isreg() or member.isdir()):
        raise tarfile.TarError(f"member {member.name!r} is neither a file nor a folder")


class _Watched(io.FileIO):
    """A file that tells how far it has been read."""

    def __init__(self, path: Path, on_bytes: OnBytes) -> None:
        super().__init__(path)
        self._work, self._size, self._on_bytes = f"unpacking {path.name}", path.stat().st_size, on_bytes

    def read(self, size: int | None = -1, /) -> Any:
        content = super().read(-1 if size is None else size)
        self._on_bytes(self._work, self.tell(), self._size)
        return content
