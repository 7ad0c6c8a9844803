"""The clusters of a run for use elsewhere: a table, folders of images, or an archive of them.

Nothing that exists is overwritten. What is written comes into being under a temporary name beside its destination, and
gets its own name when it is whole.
"""

from __future__ import annotations

import csv
import io
import os
import secrets
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final, Protocol, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gatcluster.choices import ExportKind
from gatcluster.data.formats.tables import import_pyarrow
from gatcluster.errors import InputError
from gatcluster.runs.curation import Curation, Group
from gatcluster.runs.folder import RunFolder
from gatcluster.runs.safe_names import FreeNames, safe_name
from gatcluster.runs.source import RunImages, picture_of, run_images
from gatcluster.spreadsheets import PATH, TEXT, harmless

KINDS: Final[tuple[ExportKind, ...]] = get_args(ExportKind)
SUFFIXES: Final[dict[ExportKind, str]] = {
    "csv": ".csv",
    "parquet": ".parquet",
    "folders": "",
    "links": "",
    "zip": ".zip",
}
INDEX: Final = "images.csv"  # in every export of images: which file is which image

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Row:
    """An image that is exported."""

    index: int  # in clusters.csv
    path: str  # as there
    group: Group
    name: str  # of the group: what a person called it, or cluster-3
    confidence: float


@dataclass(frozen=True)
class ExportedGroup:
    """What was exported of clusters that a person takes for one."""

    number: int
    clusters: list[int]
    name: str
    n_images: int


@dataclass(frozen=True)
class Exported:
    """What an export did."""

    destination: str
    kind: ExportKind
    n_images: int
    groups: list[ExportedGroup]
    left_out_unsure: int  # below the confidence that was asked for
    left_out_wrong: int  # marked by a person
    missing: list[str]  # images that are no longer where they were
    written_as: str | None  # how images were written: "copies", "links", "stored" (bytes as in the source) or "png"


def export_run(
    run: RunFolder,
    kind: ExportKind,
    destination: Path,
    curation: Curation,
    min_confidence: float = 0.0,
    on_progress: OnProgress = lambda done, total: None,
) -> Exported:
    """Write the clusters of a run to a new file or folder.

    Args:
        run: the run.
        kind: of export.
        destination: must not exist.
        curation: a person's corrections, or :func:`~gatcluster.runs.curation.no_curation`.
        min_confidence: images of which the network is less sure are left out.
        on_progress: called with (images written, images in all).
    """
    if os.path.lexists(destination):
        raise InputError(f"{destination} exists, and an export overwrites nothing: give another destination with -o")
    names, _ = run.clusters()
    rows, unsure, wrong = _selected(names, run.label_features(), curation, min_confidence)
    if not rows:
        raise InputError(
            f"nothing is left to export: {unsure} of {len(names)} images are less sure than {min_confidence:g}, "
            f"{wrong} are marked wrong"
        )
    missing: list[str] = []
    written_as = None
    if kind in ("csv", "parquet"):
        content = csv_table(rows) if kind == "csv" else parquet_table(rows)
        with _new_file(destination) as file:
            file.write(content)
        on_progress(len(rows), len(rows))
    else:
        images = run_images(run)
        written_as = _way(images, kind)
        missing = [row.path for row in rows if not _can_be_read(images, row.index)]
        gone = set(missing)
        rows = [row for row in rows if row.path not in gone]
        if not rows:
            raise InputError(f"none of the {len(missing)} images to export is there any more, such as {missing[0]}")
        with _sink(kind, destination) as sink:
            _write_images(rows, images, sink, on_progress)
    n_clusters = sum(len(group.clusters) for group in curation.groups)
    sizes = dict.fromkeys((group.number for group in curation.groups), 0)
    for row in rows:
        sizes[row.group.number] += 1
    groups = [
        ExportedGroup(group.number, list(group.clusters), group_name(group, n_clusters), sizes[group.number])
        for group in curation.groups
    ]
    return Exported(str(destination), kind, len(rows), groups, unsure, wrong, missing, written_as)


def _selected(
    names: Sequence[str], features: NDArray[np.float32], curation: Curation, min_confidence: float
) -> tuple[list[Row], int, int]:
    """The images to export in the order of ``clusters.csv``; how many are too unsure; how many are marked wrong."""
    clusters, confidence = features.argmax(axis=1), features.max(axis=1)
    of_cluster = curation.group_of_clusters()
    rows: list[Row] = []
    unsure = wrong = 0
    for index, name in enumerate(names):
        if name in curation.wrong:
            wrong += 1
        elif confidence[index] < min_confidence:
            unsure += 1
        else:
            group = of_cluster[int(clusters[index])]
            rows.append(Row(index, name, group, group_name(group, len(of_cluster)), float(confidence[index])))
    return rows, unsure, wrong


def group_name(group: Group, n_clusters: int) -> str:
    """What a person called a group, or its number, so that names sort like numbers.

    >>> group_name(Group((3, 7), "cats"), 12), group_name(Group((3, 7), None), 12)
    ('cats', 'cluster-03')
    """
    return group.name or f"cluster-{group.number:0{len(str(n_clusters - 1))}}"


# Tables


def csv_table(rows: Sequence[Row], files: Sequence[str] | None = None) -> bytes:
    """A CSV file that a spreadsheet can open: nothing in it is taken for a formula.

    Text that begins like one gets ``./`` in front if it is a path, which is the same file, and an apostrophe if it is
    a name. All text is quoted, so that no separator of any country's spreadsheet cuts a cell in two.

    Args:
        rows: the images.
        files: the file that each was exported to, if any.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(("path", "cluster", "name", "confidence", *(("file",) if files else ())))
    for place, row in enumerate(rows):
        own = (harmless(files[place], PATH),) if files else ()
        writer.writerow(
            (harmless(row.path, PATH), row.group.number, harmless(row.name, TEXT),
             round(row.confidence, 6), *own)
        )  # fmt: skip
    return buffer.getvalue().encode("utf-8", "surrogateescape")


def parquet_table(rows: Sequence[Row]) -> bytes:
    """The same table as a Parquet file. Of paths that are not valid Unicode the odd bytes are escaped."""
    pyarrow, parquet = import_pyarrow("pyarrow"), import_pyarrow("pyarrow.parquet")
    table = pyarrow.table(
        {
            "path": pyarrow.array([_unicode(row.path) for row in rows], pyarrow.string()),
            "cluster": pyarrow.array([row.group.number for row in rows], pyarrow.int32()),
            "name": pyarrow.array([_unicode(row.name) for row in rows], pyarrow.string()),
            "confidence": pyarrow.array([row.confidence for row in rows], pyarrow.float32()),
        }
    )
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    return buffer.getvalue()


def _unicode(text: str) -> str:
    r"""``text`` without bytes that are no Unicode.

    >>> print(_unicode("caf\udce9"))
    caf\xe9
    """
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


# Images


class _Sink(Protocol):
    """Where images go: by names whose parts are all safe."""

    def add_image(self, name: PurePosixPath, images: RunImages, index: int) -> None: ...

    def add_bytes(self, name: PurePosixPath, content: bytes) -> None: ...


@dataclass(frozen=True)
class _Folder:
    """A folder of copies."""

    path: Path

    def add_image(self, name: PurePosixPath, images: RunImages, index: int) -> None:
        with self._new(name) as file, _opened(images, index) as source:
            shutil.copyfileobj(source, file)

    def add_bytes(self, name: PurePosixPath, content: bytes) -> None:
        with self._new(name) as file:
            file.write(content)

    def _new(self, name: PurePosixPath) -> IO[bytes]:
        target = self.path / name
        target.parent.mkdir(exist_ok=True)
        return target.open("xb")


@dataclass(frozen=True)
class _LinkFolder(_Folder):
    """A folder of symbolic links."""

    def add_image(self, name: PurePosixPath, images: RunImages, index: int) -> None:
        target = self.path / name
        target.parent.mkdir(exist_ok=True)
        file = images.path(index)
        assert file is not None
        target.symlink_to(file)


@dataclass(frozen=True)
class _Archive:
    """A zip file, with all in one folder of its name. Images are compressed already, and are stored as they are."""

    archive: zipfile.ZipFile
    top: str

    def add_image(self, name: PurePosixPath, images: RunImages, index: int) -> None:
        with _opened(images, index) as source, self.archive.open(self._entry(name), "w") as file:
            shutil.copyfileobj(source, file)

    def add_bytes(self, name: PurePosixPath, content: bytes) -> None:
        self.archive.writestr(self._entry(name), content)

    def _entry(self, name: PurePosixPath) -> zipfile.ZipInfo:
        entry = zipfile.ZipInfo(str(self.top / name))  # of a fixed date: the same export is the same file
        entry.external_attr = 0o644 << 16
        return entry


def _way(images: RunImages, kind: ExportKind) -> str:
    """How images are written, from what the source holds."""
    if images.is_pixels:
        way = "png"
    else:
        way = "stored" if images.path(int(np.argmax(images.positions >= 0))) is None else "copies"
    if kind != "links":
        return way
    if way != "copies":
        raise InputError(
            "there are no files to link to: the images of this run lie inside other files; use --to folders"
        )
    return "links"


def _can_be_read(images: RunImages, index: int) -> bool:
    if not images.is_there(index):
        return False
    path = images.path(index) if not images.is_pixels else None
    return path is None or path.is_file()


def _opened(images: RunImages, index: int) -> IO[bytes]:
    """The encoded bytes of an image: those of the source, or, of plain pixels, a PNG."""
    if not images.is_pixels:
        return images.open(index)
    buffer = io.BytesIO()
    picture_of(images.pixels, int(images.positions[index])).save(buffer, format="PNG")
    buffer.seek(0)
    return buffer


def _write_images(rows: Sequence[Row], images: RunImages, sink: _Sink, on_progress: OnProgress) -> None:
    """Every image into the folder of its group, and a table of which is which."""
    folders, free = _folder_names(rows)
    files: list[str] = []
    for done, row in enumerate(rows):
        folder = folders[row.group.number]
        try:
            name = PurePosixPath(folder) / free[folder].take(_file_name(row.path, images, row.index))
            sink.add_image(name, images, row.index)
        except OSError as error:
            raise InputError(f"cannot export {row.path}: {error.strerror or error}") from None
        files.append(str(name))
        on_progress(done + 1, len(rows))
    sink.add_bytes(PurePosixPath(INDEX), csv_table(rows, files))


def _folder_names(rows: Sequence[Row]) -> tuple[dict[int, str], dict[str, FreeNames]]:
    """The folder of each group by its number, and the names that are free in each folder."""
    names = {row.group.number: row.name for row in rows}
    free = FreeNames(INDEX)
    folders = {number: free.take(names[number]) for number in sorted(names)}
    return folders, {folder: FreeNames() for folder in folders.values()}


def _file_name(path: str, images: RunImages, index: int) -> str:
    """What to call the file of an image: its own name, with an ending that says what is in it."""
    base = path.rpartition("/")[2]
    if images.is_pixels:
        return f"{base}.png"
    if images.path(index) is not None:
        return base
    with images.open(index) as file, Image.open(file) as image:
        ending = {"JPEG": "jpg", "TIFF": "tif"}.get(image.format or "", (image.format or "bin").lower())
    return base if base.lower().endswith((f".{ending}", ".jpeg", ".tiff")) else f"{base}.{ending}"


# Coming into being


@contextmanager
def _sink(kind: ExportKind, destination: Path) -> Iterator[_Sink]:
    if kind == "zip":
        with _new_file(destination) as file, zipfile.ZipFile(file, "w") as archive:
            yield _Archive(archive, safe_name(destination.stem))
    else:
        with _new_folder(destination) as folder:
            yield _LinkFolder(folder) if kind == "links" else _Folder(folder)


@contextmanager
def _new_folder(destination: Path) -> Iterator[Path]:
    """A folder to fill, which becomes ``destination`` at the end, or goes if anything fails."""
    temporary = _beside(destination)
    with _named_errors(destination):
        temporary.mkdir()
    try:
        yield temporary
        if os.path.lexists(destination):
            raise InputError(f"{destination} has come to exist meanwhile: give another destination with -o")
        with _named_errors(destination):
            temporary.rename(destination)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


@contextmanager
def _new_file(destination: Path) -> Iterator[IO[bytes]]:
    """A file to write, which becomes ``destination`` at the end, or goes if anything fails."""
    temporary = _beside(destination)
    try:
        with _named_errors(destination), temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with _named_errors(destination):
            _rename_to_new(temporary, destination)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _rename_to_new(temporary: Path, destination: Path) -> None:
    """Rename a file, but never onto another."""
    try:
        os.link(temporary, destination)  # unlike a rename, it fails where something is
    except FileExistsError:
        raise InputError(f"{destination} has come to exist meanwhile: give another destination with -o") from None
    except OSError:  # a file system without hard links
        if os.path.lexists(destination):
            raise InputError(f"{destination} has come to exist meanwhile: give another one with -o") from None
        temporary.rename(destination)
    else:
        temporary.unlink()


def _beside(destination: Path) -> Path:
    parent = destination.parent
    if not parent.is_dir():
        raise InputError(f"cannot write {destination}: there is no folder {parent}")
    return parent / f".gatcluster-export-{secrets.token_hex(8)}.tmp"


@contextmanager
def _named_errors(destination: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {destination}: {error.strerror or error}") from None
