from __future__ import annotations

import gzip
import random
import socket

import pytest

from gatcluster.data.transfer import ResumingDownloader
from gatcluster.errors import InputError

CONTENT = random.Random(0).randbytes(300_000)
HALF = len(CONTENT) // 2


@pytest.fixture
def part(tmp_path):
    return tmp_path / "file.bin.part"


@pytest.fixture
def fetch(server, part, tmp_path):
    """Fetches the file; returns what was told of the progress."""
    server.files["/file.bin"] = CONTENT

    def call(content: bytes = CONTENT, on_bytes=lambda *_: None) -> list[int]:
        told: list[int] = []

        def listen(work: str, done: int, total: int) -> None:
            assert work == "downloading file.bin"
            assert total == len(content)
            told.append(done)
            on_bytes(work, done, total)

        ResumingDownloader(part, len(content), listen)(f"{server.url}file.bin", str(tmp_path / "out"), None)
        return told

    return call


def test_a_file_arrives_whole_and_leaves_no_part(server, fetch, part, tmp_path):
    told = fetch()
    assert (tmp_path / "out").read_bytes() == CONTENT
    assert not part.exists()
    assert [request.range for request in server.log] == [None]
    assert told[0] == 0
    assert told[-1] == len(CONTENT)
    assert told == sorted(told)


def test_after_a_cut_only_the_rest_is_sent(server, fetch, part, tmp_path):
    server.cut_after = HALF
    with pytest.raises(InputError, match=r"cut off at 150\.0 kB of 300\.0 kB: run the same command again to resume"):
        fetch()
    assert part.read_bytes() == CONTENT[:HALF]
    assert not (tmp_path / "out").exists()

    server.cut_after = None
    told = fetch()
    assert (tmp_path / "out").read_bytes() == CONTENT
    assert server.log[-1].range == f"bytes={HALF}-"
    assert server.log[-1].sent == len(CONTENT) - HALF
    assert told[0] == HALF


def test_a_transfer_can_be_cut_off_again_and_again(server, fetch, part, tmp_path):
    server.cut_after = 70_000
    for _ in range(4):
        with pytest.raises(InputError, match="cut off"):
            fetch()
    fetch()
    assert (tmp_path / "out").read_bytes() == CONTENT
    assert [request.sent for request in server.log] == [70_000] * 4 + [20_000]


def test_a_server_that_closes_early_without_a_length_has_cut_off_too(server, fetch, part):
    server.tells_length = False
    server.cut_after = HALF
    with pytest.raises(InputError, match="cut off"):
        fetch()
    assert part.read_bytes() == CONTENT[:HALF]


def test_control_c_leaves_what_arrived(server, fetch, part, tmp_path):
    def interrupt(work: str, done: int, total: int) -> None:
        if done >= HALF:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(on_bytes=interrupt)
    held = part.stat().st_size
    assert held >= HALF
    fetch()
    assert (tmp_path / "out").read_bytes() == CONTENT
    assert server.log[-1] == ("/file.bin", f"bytes={held}-", len(CONTENT) - held)


def test_a_server_that_knows_no_ranges_sends_everything_and_the_part_begins_anew(server, fetch, part, tmp_path):
    part.write_bytes(b"?" * HALF)  # if it were kept, the result would be wrong
    server.accepts_ranges = False
    told = fetch()
    assert (tmp_path / "out").read_bytes() == CONTENT
    assert server.log == [("/file.bin", f"bytes={HALF}-", len(CONTENT))]
    assert told[0] == 0


def test_a_server_that_continues_elsewhere_is_asked_for_everything(server, fetch, part, tmp_path):
    part.write_bytes(CONTENT[:HALF])
    server.range_start = HALF + 10
    fetch()
    assert (tmp_path / "out").read_bytes() == CONTENT
    assert [request.range for request in server.log] == [f"bytes={HALF}-", None]


def test_a_range_beyond_the_end_is_asked_for_everything(server, fetch, part):
    part.write_bytes(CONTENT[:HALF])
    server.files["/file.bin"] = CONTENT[: HALF - 10]
    with pytest.raises(InputError, match="has 149,990 bytes, not 300,000"):
        fetch()
    assert [request.range for request in server.log] == [f"bytes={HALF}-", None]
    assert part.read_bytes() == CONTENT[:HALF]  # a good part outlives a bad server


def test_a_complete_part_needs_no_server(server, fetch, part, tmp_path):
    part.write_bytes(CONTENT)
    fetch()
    assert (tmp_path / "out").read_bytes() == CONTENT
    assert server.log == []


def test_a_part_that_is_too_long_is_of_another_file(server, fetch, part, tmp_path):
    part.write_bytes(CONTENT + b"?")
    fetch()
    assert (tmp_path / "out").read_bytes() == CONTENT


def test_an_archive_that_the_server_calls_encoded_stays_packed(server, fetch, tmp_path):
    packed = gzip.compress(b"some text" * 1000)
    server.files["/file.bin"] = packed
    server.headers["Content-Encoding"] = "gzip"
    fetch(packed)
    assert (tmp_path / "out").read_bytes() == packed


def test_a_page_of_another_length_is_refused_before_it_is_stored(server, fetch, part):
    server.files["/file.bin"] = b"<html>Please log in</html>"
    with pytest.raises(InputError, match="not the published file: it has 26 bytes, not 300,000"):
        fetch()
    assert not part.exists()


def test_more_than_was_published_is_not_stored(server, fetch, tmp_path):
    server.tells_length = False
    server.files["/file.bin"] = CONTENT + b"?" * 200_000
    fetch()
    assert (tmp_path / "out").read_bytes() == CONTENT


def test_a_missing_file_is_named_with_its_status(server, fetch, part):
    del server.files["/file.bin"]
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:\d+/file\.bin answered 404 Not Found"):
        fetch()
    assert not part.exists()


def test_no_server(server, part, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound but not listening: nobody else can answer
        port = free.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot reach 127.0.0.1:{port}: Connection refused"):
            ResumingDownloader(part, 10, lambda *_: None)(f"http://127.0.0.1:{port}/file.bin", str(tmp_path), None)
    assert not part.exists()


def test_a_silent_server_is_given_up(server, part, tmp_path, monkeypatch):
    monkeypatch.setattr("gatcluster.data.transfer._SECONDS_OF_SILENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(InputError, match=f"no answer from 127.0.0.1:{port}"):
            ResumingDownloader(part, 10, lambda *_: None)(f"http://127.0.0.1:{port}/file.bin", str(tmp_path), None)
