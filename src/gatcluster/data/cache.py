"""Every image is decoded once: by worker processes, into a file that training reads from.

The file lies in the folder that :func:`use_cache` names, else in that of :func:`~gatcluster.data.store.default_folder`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from gatcluster.choices import Resize
from gatcluster.data.decode import (
    DECODER_VERSION,
    Chunk,
    Failure,
    Form,
    Header,
    decode_chunk,
    natural_form,
    read_headers,
)
from gatcluster.data.encoded import EncodedImages
from gatcluster.data.images import ImageSet, Skipped
from gatcluster.data.store import Entry, Store, Unfinished, default_folder, is_named, key_of
from gatcluster.data.workers import NoWorkersError, Workers
from gatcluster.errors import InputError

OnProgress = Callable[[int, int], None]
Result = TypeVar("Result")

# Fewer images than this are decoded without worker processes, unless that proves slow.
_FEW = 500
_SLOW_SECONDS = 2.0
# A chunk is what a worker decodes at a time, and what an interruption costs.
_CHUNK_IMAGES = 64
_CHUNK_BYTES = 1 << 22
# From the headers of so many images it is told what suits all of them.
_HEADERS = 500
_HEADER_CHUNK = 64

_DEADLY = "decoding it ended the process that did"

_chosen: ContextVar[Path | str | None] = ContextVar("cache folder", default="")  # "": not chosen


@contextmanager
def use_cache(folder: Path | None) -> Iterator[None]:
    """Keep decoded images in ``folder`` for a while; None keeps them only as long as they are in use."""
    token = _chosen.set(folder)
    try:
        yield
    finally:
        _chosen.reset(token)


def decoded_images(
    encoded: EncodedImages,
    size: tuple[int, int] | None,
    channels: int | None,
    resize: Resize,
    on_progress: OnProgress | None = None,
) -> ImageSet:
    """All images at one size, from the cache where they are in it; those that cannot be read are in ``skipped``.

    Args:
        encoded: the images.
        size: height and width; ``None`` takes the images' own size where it is common and small, else 64x64.
        channels: 1 or 3; ``None`` takes 1 where all images are grey.
        resize: "crop" cuts the longer side to the middle, "squash" keeps all of it and changes the shape.
        on_progress: called with (images read, images in all).
    """
    with ExitStack() as stack:
        folder = _cache_folder()
        if folder is None:  # the file goes at the end, and its space once it is no longer read from
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="gatcluster-")))
        store = Store(folder)
        store.make_folder()
        job = _Job(encoded, on_progress or (lambda done, total: None), stack)
        form = job.form(store, size, channels, resize)
        entry = job.entry(store, form)
    skipped = tuple(Skipped(encoded.names[failure.position], failure.reason) for failure in entry.failures)
    failed = {failure.position for failure in entry.failures}
    names = [name for index, name in enumerate(encoded.names) if index not in failed] if failed else encoded.names
    return ImageSet(entry.pixels, list(names), skipped)


def _cache_folder() -> Path | None:
    """The folder to use. Where nobody chose one and the usual one cannot be written to, there is no cache."""
    chosen = _chosen.get()
    if not isinstance(chosen, str):
        return chosen
    folder = default_folder()
    if folder is not None and not is_named():
        try:
            Store(folder).make_folder()
        except InputError:
            return None
    return folder


class _Job:
    """Decoding one set of images. Worker processes, if any are needed, end when ``stack`` is closed."""

    def __init__(self, encoded: EncodedImages, on_progress: OnProgress, stack: ExitStack) -> None:
        self._encoded = encoded
        self._n = len(encoded.names)
        self._fingerprint = encoded.fingerprint()
        self._on_progress = on_progress
        self._stack = stack
        self._workers: Workers | None = None

    def form(self, store: Store, size: tuple[int, int] | None, channels: int | None, resize: Resize) -> Form:
        """What to decode to: what is asked for, and for the rest what suits the images."""
        if size is None or channels is None:
            key = key_of("form", self._fingerprint, DECODER_VERSION)
            natural = store.form(key)
            if natural is None:
                natural = natural_form(self._headers())
                store.put_form(key, *natural)
            size, channels = size or natural[0], channels or natural[1]
        return Form(size, channels, resize)

    def entry(self, store: Store, form: Form) -> Entry:
        """The decoded images, from the cache or made now."""
        key = key_of("images", self._fingerprint, DECODER_VERSION, form)
        entry = self._whole(store, key, form)
        if entry is None:
            with store.locked(key, on_wait=lambda: self._on_progress(store.n_decoded(key), self._n)):
                entry = self._whole(store, key, form)  # of a process that was waited for
                if entry is None:
                    self._decode(store.unfinished(key, self._n, form))
                    entry = store.find(key, self._n, form)
        if entry is None:
            raise InputError(f"the decoded images in {store.folder} vanished while they were read: try again")
        self._on_progress(self._n, self._n)
        return entry

    def _whole(self, store: Store, key: str, form: Form) -> Entry | None:
        """An entry to rely on: a file that was missing or forbidden then may be readable now."""
        entry = store.find(key, self._n, form)
        if entry is None or any(failure.outside and self._opens(failure.position) for failure in entry.failures):
            return None
        return entry

    def _opens(self, index: int) -> bool:
        try:
            self._encoded.open(index).close()
        except Exception:  # whatever an archive raises
            return False
        return True

    def _decode(self, unfinished: Unfinished) -> None:
        """Decode what is missing, and make the entry whole."""
        unfinished.begin(_source(self._encoded))
        # An interrupted process may have died of an image: what is left is not decoded in this one.
        if self._n < _FEW and not unfinished.continued:
            self._decode_here(unfinished, only_while_quick=True)
        if unfinished.n_done < self._n:
            try:
                self._decode_by_workers(unfinished)
            except NoWorkersError:
                self._decode_here(unfinished, only_while_quick=False)
        if len(unfinished.failures) == self._n:
            unfinished.discard()
            first = min(unfinished.failures)
            name = self._encoded.names[first.position]
            raise InputError(f"none of the {self._n} images could be read; the first, {name}: {first.reason}")
        unfinished.finish()

    def _decode_here(self, unfinished: Unfinished, only_while_quick: bool) -> None:
        began, n_before = time.monotonic(), unfinished.n_done
        for indices in unfinished.missing(min(16, _chunk_size(unfinished.form))):
            self._add(unfinished, indices, decode_chunk(self._encoded, indices, unfinished.form))
            pace = (time.monotonic() - began) / (unfinished.n_done - n_before)  # seconds for an image
            if only_while_quick and pace * (self._n - unfinished.n_done) > _SLOW_SECONDS:
                return

    def _decode_by_workers(self, unfinished: Unfinished) -> None:
        form = unfinished.form
        function = partial(decode_chunk, form=form)
        for indices, chunk in self._by_workers(function, unfinished.missing(_chunk_size(form))):
            if chunk is None:
                chunk = Chunk(bytes(form.image_bytes), [Failure(indices.start, _DEADLY, outside=False)])
            self._add(unfinished, indices, chunk)

    def _by_workers(
        self, function: Callable[[EncodedImages, range], Result], tasks: Sequence[range]
    ) -> Iterator[tuple[range, Result | None]]:
        """What a function says of some images at a time; None for a single image that killed two workers."""
        workers = self._started_workers()
        deadly: list[range] = []
        for indices, result in workers.run(function, tasks):
            if result is None:
                deadly += [range(index, index + 1) for index in indices]
            else:
                yield indices, result
        yield from workers.run(function, deadly)

    def _add(self, unfinished: Unfinished, indices: range, chunk: Chunk) -> None:
        unfinished.add(indices, chunk)
        if unfinished.n_done < self._n:  # the end is reported when all is safe on disk
            self._on_progress(unfinished.n_done, self._n)

    def _headers(self) -> list[Header]:
        """Of images spread evenly over the set: to look into every file would take a quarter of decoding it."""
        spread = range(0, self._n, -(-self._n // _HEADERS))
        if self._n < _FEW:
            return read_headers(self._encoded, spread)
        tasks = [spread[start : start + _HEADER_CHUNK] for start in range(0, len(spread), _HEADER_CHUNK)]
        try:
            parts = list(self._by_workers(read_headers, tasks))
        except NoWorkersError:
            return read_headers(self._encoded, spread)
        return [header for _, headers in parts for header in headers or ()]

    def _started_workers(self) -> Workers:
        if self._workers is None:
            self._workers = self._stack.enter_context(Workers(self._encoded))
        return self._workers


def _chunk_size(form: Form) -> int:
    return max(1, min(_CHUNK_IMAGES, _CHUNK_BYTES // form.image_bytes))


def _source(encoded: EncodedImages) -> str:
    """Where images came from, for a person who looks through the cache."""
    files: Sequence[Path | str] = getattr(encoded, "paths", None) or getattr(encoded, "shards", None) or ()
    if files:
        paths = [os.path.abspath(path) for path in files]  # noqa: PTH100 - as above: there may be a million
        return os.path.commonpath([min(paths), max(paths)])
    return encoded.names[0] if len(encoded.names) == 1 else f"{encoded.names[0]} and {len(encoded.names) - 1:,} more"
