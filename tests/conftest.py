"""What all tests share."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from gatcluster.data.download import RemoteFile


@pytest.fixture(scope="session", autouse=True)
def _cache_of_all_tests(tmp_path_factory) -> Iterator[None]:
    """Nothing is written to the user's cache, not even by what tests share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GATCLUSTER_CACHE", str(tmp_path_factory.mktemp("cache-of-all")))
        yield


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory, monkeypatch) -> Path:
    """A cache folder of each test's own; it is not there yet."""
    folder: Path = tmp_path_factory.mktemp("cache") / "gatcluster"
    monkeypatch.setenv("GATCLUSTER_CACHE", str(folder))
    return folder


# A publisher of data sets, on loopback.


class Request(NamedTuple):
    path: str
    range: str | None  # what the client asked for
    sent: int  # bytes that it got


class Server:
    """An HTTP server on loopback: what it serves, how well, and what it was asked."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.log: list[Request] = []
        self.accepts_ranges = True
        self.tells_length = True
        self.cut_after: int | None = None  # bytes of an answer after which the connection ends
        self.headers: dict[str, str] = {}  # sent with every file
        self.range_start: int | None = None  # answer a range request from here, whatever was asked
        server = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range")
        body = self.files.get(handler.path)
        if body is None:
            self.log.append(Request(handler.path, asked, 0))  # before the client can go on
            handler.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.accepts_ranges else 0
        if start and self.range_start is not None:
            start = self.range_start
        if start >= len(body):
            self.log.append(Request(handler.path, asked, 0))  # before the client can go on
            handler.send_error(416)
            return
        rest = body[start:]
        sent = rest[: self.cut_after]
        self.log.append(Request(handler.path, asked, len(sent)))
        handler.send_response(206 if asked and self.accepts_ranges else 200)
        if asked and self.accepts_ranges:
            handler.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        if self.tells_length:
            handler.send_header("Content-Length", str(len(rest)))
        for name, value in self.headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(sent)
        handler.close_connection = True


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.delenv("GATCLUSTER_MIRROR", raising=False)
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server
    server.http.shutdown()
    server.http.server_close()
    thread.join(timeout=10)


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that do not compress."""
    return random.Random(seed).randbytes(size)


@pytest.fixture
def tar_gz() -> Callable[..., bytes]:
    """Makes archives of names and contents, and of members that are given as they are."""

    def make(files: dict[str, bytes], *members: tarfile.TarInfo) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
            for member in members:
                tar.addfile(member)
        return buffer.getvalue()

    return make


class Publisher(NamedTuple):
    """A server with two small data sets, which stand in the table for the real ones."""

    server: Server
    archive: bytes  # of cifar10
    unpacked: dict[str, bytes]
    idx: dict[str, bytes]  # files of mnist


def remote(name: str, content: bytes) -> RemoteFile:
    from gatcluster.data.download import RemoteFile

    return RemoteFile(name, len(content), hashlib.sha256(content).hexdigest())


@pytest.fixture
def publisher(server, tar_gz, monkeypatch) -> Publisher:
    from gatcluster.data.download import DataSet

    unpacked = {"data_batch_1.bin": noise(200_000, 1), "test_batch.bin": noise(100_000, 2)}
    archive = tar_gz({f"cifar-10-batches-bin/{name}": content for name, content in unpacked.items()})
    idx = {
        "train-images-idx3-ubyte.gz": gzip.compress(noise(50_000, 3)),
        "t10k-images-idx3-ubyte.gz": gzip.compress(noise(20_000, 4)),
    }
    table = {
        "cifar10": DataSet(
            "cifar-10-batches-bin",
            10,
            (f"{server.url}cifar10/",),
            (remote("cifar-10-binary.tar.gz", archive),),
            {name: len(content) for name, content in unpacked.items()},
        ),
        "mnist": DataSet(
            "mnist", 10, (f"{server.url}mnist/",), tuple(remote(name, content) for name, content in idx.items())
        ),
    }
    monkeypatch.setattr("gatcluster.data.download.DATA_SETS", table)
    server.files["/cifar10/cifar-10-binary.tar.gz"] = archive
    server.files |= {f"/mnist/{name}": content for name, content in idx.items()}
    return Publisher(server, archive, unpacked, idx)


# Runs that were never trained: quick to make, for all that only reads a run.


@pytest.fixture(scope="session")
def untrained_run() -> Callable[..., Path]:
    """Makes a run folder with random weights for images of a source; give it label features for other clusters."""
    return _untrained_run


def _untrained_run(path: Path, source: object, k: int = 3, size: tuple[int, int] | None = None, features=None) -> Path:
    import numpy as np

    from gatcluster.data.detect import located_format
    from gatcluster.learning.fit import FitResult
    from gatcluster.learning.history import Record
    from gatcluster.model.network import build_network
    from gatcluster.prepare import prepare
    from gatcluster.runs.create import new_run

    is_path = isinstance(source, (str, Path))
    images, settings = prepare(source, n_clusters=k, seed=0, epochs=2, image_size=size)
    if features is None:
        features = np.random.default_rng(0).dirichlet(np.full(k, 0.3), len(images))
    sizes = np.bincount(np.argmax(features, axis=1), minlength=k).tolist()
    losses = {"relation": 0.2, "transformation": 0.3, "attention": 0.1, "entropy": 0.02, "total": 0.62}
    history = [
        Record("warm-up", 1, 1, {"contrast": 2.5}, 0.02, 0.25, 100.0),
        Record("clustering", 2, 2, {**losses, "contrast": 1.5}, 0.02, 0.5, 99.5, sizes, 0.8, 0.9, None),
        Record("clustering", 3, 3, {**losses, "contrast": 1.2}, 0.01, 0.7, 99.5, sizes, 0.9, 1.0, 0.1),
    ]
    result = FitResult(settings, build_network(settings).eval(), np.asarray(features, np.float32), history)
    with new_run(path, overwrite=False) as run:
        format_ = located_format(Path(source))[1] if is_path else None
        run.write(result, images.names, str(Path(source).resolve()) if is_path else None, images.skipped, format_)
    return path
