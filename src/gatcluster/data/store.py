"""The cache folder on disk: decoded images, work in progress, and who works on what.

An entry is a folder ``images-KEY`` with ``pixels.npy`` (uint8, memory-mapped when it is read) and ``entry.json``. It
comes into being under the name ``images-KEY.part``, with a ``journal.jsonl`` of the chunks that are decoded, and gets
its name when it is whole. ``images-KEY.lock`` is locked by the process that works on it. ``form-KEY.json`` keeps the
size and channels that were found to suit images. No pickle is written or read.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import inspect
import json
import os
import re
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gatcluster.data.decode import Chunk, Failure, Form
from gatcluster.errors import InputError

PIXELS: Final = "pixels.npy"
ENTRY: Final = "entry.json"
JOURNAL: Final = "journal.jsonl"

_NAME: Final = re.compile(r"images-[0-9a-f]{32}(\.part|\.lock)?|form-[0-9a-f]{32}\.json")
_HEADER_BYTES: Final = 128
_SECONDS_BETWEEN_TRIES: Final = 0.1
_MOVED_AT_ONCE: Final = 1 << 24  # bytes


@dataclass(frozen=True)
class Entry:
    """Decoded images of the cache."""

    pixels: NDArray[np.uint8]  # (n, H, W, C), memory-mapped; without those that failed
    failures: list[Failure]


@dataclass(frozen=True)
class Listed:
    """What the cache folder says of one entry."""

    path: Path
    source: str  # where the images came from
    n_images: int | None  # None while they are being decoded, or if the entry is damaged
    form: Form | None
    n_bytes: int


def default_folder() -> Path | None:
    """The cache folder unless the user names another: that of the environment, or of the platform; None: no cache."""
    named = os.environ.get("GATCLUSTER_CACHE", "")
    if named:
        return None if named == "off" else Path(named).expanduser()
    home = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "gatcluster"
    except RuntimeError:  # there is no home
        return None


def is_named() -> bool:
    """Whether the user chose the cache folder by the environment variable GATCLUSTER_CACHE."""
    return bool(os.environ.get("GATCLUSTER_CACHE"))


def key_of(*parts: Any) -> str:
    """A name for what is determined by ``parts``: plain data."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


class Store:
    """A cache folder. Making one touches nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make_folder(self) -> None:
        """Make the folder, and make sure that it can be written to."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not os.access(self.folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise InputError(
                f"cannot keep decoded images in {self.folder}: {error.strerror or error}; "
                "give another folder with --cache, or --no-cache"
            ) from None

    def form(self, key: str) -> tuple[tuple[int, int], int] | None:
        """The size and channels that were stored under a key."""
        try:
            stored = json.loads((self.folder / f"form-{key}.json").read_bytes())
            (height, width), channels = stored["size"], stored["channels"]
        except (OSError, ValueError, TypeError, KeyError):
            return None
        if not (_are_counts(height, width) and channels in (1, 3)):
            return None
        return (height, width), channels

    def put_form(self, key: str, size: tuple[int, int], channels: int) -> None:
        """Store the size and channels that suit images."""
        _write_json(self.folder / f"form-{key}.json", {"size": size, "channels": channels})

    def find(self, key: str, n_images: int, form: Form) -> Entry | None:
        """The whole entry of that key; None if there is none, or a damaged one."""
        path = self.folder / f"images-{key}"
        try:
            stored = json.loads((path / ENTRY).read_bytes())
            if stored["images"] != n_images or stored["form"] != [list(form.size), form.channels, form.resize]:
                return None
            failures = [Failure(*_checked_failure(failure, n_images)) for failure in stored["failures"]]
            n_kept = n_images - len({failure.position for failure in failures})
            if n_kept < 1 or (path / PIXELS).stat().st_size != _HEADER_BYTES + n_kept * form.image_bytes:
                return None
            with (path / PIXELS).open("rb") as file:
                if file.read(_HEADER_BYTES) != _npy_header((n_kept, *form.size, form.channels)):
                    return None
            return Entry(np.load(path / PIXELS, mmap_mode="r", allow_pickle=False), failures)
        except (OSError, ValueError, TypeError, KeyError, EOFError):
            return None

    @contextmanager
    def locked(self, key: str, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold the right to work on a key; waits while another process has it. It ends with its process."""
        path = self.folder / f"images-{key}.lock"
        while (descriptor := _try_lock(path)) is None:
            on_wait()
            time.sleep(_SECONDS_BETWEEN_TRIES)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)

    def unfinished(self, key: str, n_images: int, form: Form) -> Unfinished:
        """An entry to write, or to go on writing. Only for who holds the lock."""
        return Unfinished(self.folder / f"images-{key}", n_images, form)

    def n_decoded(self, key: str) -> int:
        """How many images of an unfinished entry are decoded, by whomever."""
        try:
            lines = (self.folder / f"images-{key}.part" / JOURNAL).read_bytes().splitlines()
            chunks = [json.loads(line) for line in lines[1:]]
            return sum(int(chunk["stop"]) - int(chunk["start"]) for chunk in chunks)
        except (OSError, ValueError, TypeError, KeyError):
            return 0

    def entries(self) -> list[Listed]:
        """All entries, whole or not, the largest first."""
        paths = [path for path in self._own_paths() if path.is_dir()]
        return sorted((_listed(path) for path in paths), key=lambda entry: (-entry.n_bytes, entry.path))

    def clear(self) -> tuple[int, int]:
        """Remove all entries, and nothing else; those that a process works on stay. Returns bytes freed, and kept."""
        freed = kept = 0
        for entry in self.entries():
            lock = entry.path.with_name(entry.path.name.removesuffix(".part") + ".lock")
            descriptor = _try_lock(lock)
            if descriptor is None:
                kept += entry.n_bytes
                continue
            _remove_entry(entry.path)
            lock.unlink(missing_ok=True)
            os.close(descriptor)
            freed += entry.n_bytes
        for path in self._own_paths():
            if path.suffix == ".json":
                path.unlink(missing_ok=True)
        return freed, kept

    def _own_paths(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return [path for path in self.folder.iterdir() if _NAME.fullmatch(path.name) and not path.is_symlink()]


class Unfinished:
    """An entry that is being written, by one process: chunk by chunk, in any order.

    The journal gets a line after the chunk's pixels are written. What it says is believed only where the pixels have
    the checksum that it names, so a power failure in between, or a kill at any time, costs some chunks and no more.
    """

    def __init__(self, path: Path, n_images: int, form: Form) -> None:
        self.form = form
        self.failures: list[Failure] = []
        self._path, self._part = path, path.with_name(path.name + ".part")
        self._done = np.zeros(n_images, dtype=bool)
        self._head = {"images": n_images, "form": form}
        self.continued = self._take_up()

    @property
    def n_done(self) -> int:
        """Images decoded so far, and those that cannot be."""
        return int(self._done.sum())

    def begin(self, source: str) -> None:
        """Reserve the space for all images; the first thing to do."""
        try:
            self._part.mkdir(exist_ok=True)
            if not self.continued:
                _write_json(self._part / ENTRY, {"source": source, "form": self.form})
                (self._part / JOURNAL).write_text(json.dumps(self._head) + "\n")
            self._reserve()
        except OSError as error:
            raise _cannot_write(self._part, error) from None

    def missing(self, most: int) -> list[range]:
        """What is still to be decoded, in pieces of at most ``most`` images."""
        edges = np.flatnonzero(np.diff(np.concatenate([[True], self._done, [True]]).astype(np.int8)))
        runs = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        return [range(start, min(start + most, end)) for begin, end in runs for start in range(begin, end, most)]

    def add(self, indices: range, chunk: Chunk) -> None:
        """Write some decoded images."""
        line = {
            "start": indices.start,
            "stop": indices.stop,
            "checksum": zlib.crc32(chunk.pixels),
            "failures": chunk.failures,
        }
        try:
            with (self._part / PIXELS).open("r+b") as file:
                file.seek(self._offset(indices.start))
                file.write(chunk.pixels)
            with (self._part / JOURNAL).open("a", encoding="ascii") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise _cannot_write(self._part, error) from None
        self._note(indices, chunk.failures)

    def finish(self) -> None:
        """Give the whole entry its name, once it is safely on disk."""
        failed = {failure.position for failure in self.failures}
        kept = np.array([index for index in range(len(self._done)) if index not in failed], dtype=np.int64)
        entry = json.loads((self._part / ENTRY).read_bytes())
        try:
            if failed:
                self._close_gaps(min(failed), kept)
            with (self._part / PIXELS).open("r+b") as file:
                file.write(_npy_header((len(kept), *self.form.size, self.form.channels)))
                file.truncate(_HEADER_BYTES + len(kept) * self.form.image_bytes)
                os.fsync(file.fileno())
            _write_json(self._part / ENTRY, {**entry, **self._head, "failures": sorted(self.failures)})
            (self._part / JOURNAL).unlink()
            _remove_entry(self._path)  # a damaged one
            self._part.replace(self._path)
            _sync_folder(self._path.parent)
        except OSError as error:
            raise _cannot_write(self._part, error) from None

    def discard(self) -> None:
        """Remove all that was written."""
        _remove_entry(self._part)

    def _take_up(self) -> bool:
        """Take over what an interrupted process has left; whether there was anything of use."""
        try:
            head, *lines = (self._part / JOURNAL).read_bytes().splitlines()
            if json.loads(head) != json.loads(json.dumps(self._head)):
                raise ValueError
            json.loads((self._part / ENTRY).read_bytes())["source"]
        except (OSError, ValueError, TypeError, KeyError):
            self.discard()
            return False
        with suppress(OSError), (self._part / PIXELS).open("rb") as file:
            for line in lines:
                with suppress(ValueError, TypeError, KeyError):  # the last line may be cut off
                    self._take_up_chunk(json.loads(line), file)
        return True

    def _take_up_chunk(self, line: dict[str, Any], file: Any) -> None:
        indices = range(line["start"], line["stop"])
        if not 0 <= indices.start < indices.stop <= len(self._done) or self._done[indices.start : indices.stop].any():
            return
        failures = [Failure(*_checked_failure(failure, len(self._done))) for failure in line["failures"]]
        file.seek(self._offset(indices.start))
        if zlib.crc32(file.read(len(indices) * self.form.image_bytes)) == line["checksum"]:
            self._note(indices, failures)

    def _note(self, indices: range, failures: Sequence[Failure]) -> None:
        self._done[indices.start : indices.stop] = True
        self.failures.extend(failures)

    def _offset(self, index: int) -> int:
        return _HEADER_BYTES + index * self.form.image_bytes

    def _reserve(self) -> None:
        """Take all the space that will be needed now, rather than run out of it later."""
        needed = self._offset(len(self._done))
        with (self._part / PIXELS).open("ab") as file:
            there = os.fstat(file.fileno()).st_blocks * 512
            free = shutil.disk_usage(self._part).free
            if needed - there > free:
                raise OSError(errno.ENOSPC, f"{megabytes(needed)} are needed, {megabytes(free)} are free")
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, needed)
            file.truncate(needed)

    def _close_gaps(self, first: int, kept: NDArray[np.int64]) -> None:
        """Move the images that come after the ``first`` that failed to where they belong among those kept."""
        shape = (len(self._done), self.form.image_bytes)
        rows = np.memmap(self._part / PIXELS, mode="r+", dtype=np.uint8, offset=_HEADER_BYTES, shape=shape)
        step = max(1, _MOVED_AT_ONCE // self.form.image_bytes)
        for start in range(first, len(kept), step):
            part = kept[start : start + step]
            rows[start : start + len(part)] = rows[part]  # indexing with an array copies before it writes
        rows.flush()


def kept_in(pixels: Any) -> tuple[Path, int] | None:
    """The cache folder in which pixels are kept, and their bytes there; None if they are in none."""
    path = Path(pixels.filename) if isinstance(pixels, np.memmap) and pixels.filename is not None else None
    if path is None or path.name != PIXELS or not _NAME.fullmatch(path.parent.name) or not path.exists():
        return None
    return path.parent.parent, int(pixels.nbytes)


def remembered(pixels: Any, function: partial[Any], kind: type) -> Any:
    """What ``function`` says of pixels, kept beside them if they are in the cache; asked again once its code changes.

    Args:
        pixels: of an image set.
        function: gives plain data. It is known by its name, by its arguments other than the image set, which are named
            and plain, and by the files that it is written in.
        kind: what it gives: anything else beside the pixels is not believed.
    """
    if kept_in(pixels) is None:
        return function()
    whole = function.func
    try:
        key = key_of(whole.__name__, function.keywords, _sources(whole.__module__))
    except OSError:  # no sources in this installation
        return function()
    path = Path(pixels.filename).with_name(f"fact-{key}.json")
    with suppress(OSError, ValueError):
        known = json.loads(path.read_bytes())
        if type(known) is kind:
            return known
    found = function()
    with suppress(OSError):  # a cache that cannot be written to any more
        _write_json(path, found)
    return found


def _sources(module: str) -> list[str]:
    """The text of a module's file, and of those files of its package from which it has anything, however far."""
    package = module.partition(".")[0]
    reached, waiting = set[str](), {module}
    while waiting:
        name = waiting.pop()
        reached.add(name)
        used = {getattr(value, "__module__", None) for value in vars(sys.modules[name]).values()}
        waiting |= {other for other in used if isinstance(other, str) and other.partition(".")[0] == package} - reached
    return [inspect.getsource(sys.modules[name]) for name in sorted(reached)]


def megabytes(n_bytes: int) -> str:
    """A number of bytes for people.

    >>> megabytes(400), megabytes(49_152_000), megabytes(2_500_000_000)
    ('0.1 MB', '49.2 MB', '2.5 GB')
    """
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e9 else f"{max(0.1, n_bytes / 1e6):.1f} MB"


def _cannot_write(path: Path, error: OSError) -> InputError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InputError(
            f"not enough space for the decoded images in {path.parent}: {error.strerror}; "
            "give another folder with --cache, a smaller --size, or run `gatcluster data cache clear`"
        )
    return InputError(f"cannot keep decoded images in {path.parent}: {error.strerror or error}")


def _npy_header(shape: tuple[int, ...]) -> bytes:
    """The head of a .npy file of uint8, always of the same length, so that it can be renewed in place."""
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape!r}, }}"
    return b"\x93NUMPY\x01\x00" + (_HEADER_BYTES - 10).to_bytes(2, "little") + text.encode().ljust(117) + b"\n"


def _checked_failure(failure: Any, n_images: int) -> tuple[int, str, bool]:
    index, reason, outside = failure
    if not (isinstance(index, int) and 0 <= index < n_images and isinstance(reason, str) and isinstance(outside, bool)):
        raise ValueError("not a failure")
    return index, reason, outside


def _are_counts(*numbers: Any) -> bool:
    return all(isinstance(number, int) and number > 0 for number in numbers)


def _try_lock(path: Path) -> int | None:
    """Lock a file, making it; its descriptor, or None if another process holds it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise InputError(f"cannot keep decoded images in {path.parent}: {error.strerror or error}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == path.stat().st_ino:  # not one that was unlinked meanwhile
            return descriptor
    except BlockingIOError:
        pass
    except FileNotFoundError:
        pass
    except OSError as error:
        os.close(descriptor)
        raise InputError(
            f"cannot lock files in {path.parent}: {error.strerror or error}; give another folder with --cache"
        ) from None
    os.close(descriptor)
    return None


def _write_json(path: Path, tree: Any) -> None:
    """By way of a temporary file, so that no reader finds half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="ascii") as file:  # odd names become JSON's escapes
        json.dump(tree, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_entry(path: Path) -> None:
    """Remove an entry's own files, and its folder unless someone put something else there."""
    own = [path / name for name in (ENTRY, PIXELS, JOURNAL)]  # without its description an entry does not count
    for file in [*own, *path.glob("fact-*.json")]:
        with suppress(FileNotFoundError, NotADirectoryError):
            file.unlink()
    with suppress(OSError):
        path.rmdir()


def _listed(path: Path) -> Listed:
    n_bytes = sum(file.stat().st_blocks * 512 for file in path.iterdir() if file.is_file())
    source, n_images, form = "unknown", None, None
    with suppress(OSError, ValueError, TypeError, KeyError):
        stored = json.loads((path / ENTRY).read_bytes())
        source = str(stored["source"])
        size, channels, resize = stored["form"]
        form = Form((size[0], size[1]), channels, resize)
        if not path.name.endswith(".part"):
            n_images = stored["images"] - len(stored["failures"])
    return Listed(path, source, n_images, form, n_bytes)
