"""The decoded cache, through the one function that uses it."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from gatcluster.data import cache
from gatcluster.data.cache import decoded_images, use_cache
from gatcluster.data.decode import decode_chunk
from gatcluster.data.files import ImageFiles, find_image_files
from gatcluster.data.images import ImageSet
from gatcluster.data.store import ENTRY, JOURNAL, PIXELS, Store
from gatcluster.errors import InputError

SIZE = (8, 8)
KINDS = ("jpeg", "png", "webp", "gif", "tiff", "bmp")


def photos(folder: Path, n: int) -> ImageFiles:
    """n flat grey images; the lightness of image i is i."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{i:03}.png" for i in range(n)]
    for i, name in enumerate(names):
        Image.new("L", (10, 10), i).save(folder / name)
    return ImageFiles([folder / name for name in names], names)


def read(encoded: ImageFiles, **choices: object) -> ImageSet:
    return decoded_images(encoded, **{"size": SIZE, "channels": 1, "resize": "crop"} | choices)


def lightness(images: ImageSet) -> dict[str, int]:
    """By name; every pixel of an image must agree."""
    assert images.pixels.reshape(len(images), -1).std(axis=1).max() == 0
    return dict(zip(images.names, images.pixels[:, 0, 0, 0].tolist(), strict=True))


def values(n: int, *without: int) -> dict[str, int]:
    return {f"{i:03}.png": i for i in range(n) if i not in without}


def entry_of(folder: Path) -> Path:
    (entry,) = [path for path in folder.iterdir() if path.is_dir()]
    return entry


@pytest.fixture
def decoded(monkeypatch) -> list[int]:
    """The positions of all images that this process decodes, in order."""
    positions: list[int] = []

    def watched(encoded, indices, form):
        positions.extend(indices)
        return decode_chunk(encoded, indices, form)

    monkeypatch.setattr(cache, "decode_chunk", watched)
    return positions


@pytest.fixture
def many(monkeypatch) -> None:
    """However few, images are decoded by worker processes, three at a time."""
    monkeypatch.setattr(cache, "_FEW", 0)
    monkeypatch.setattr(cache, "_CHUNK_IMAGES", 3)
    monkeypatch.setattr(cache, "_HEADER_CHUNK", 3)


# What is kept.


def test_the_second_run_decodes_nothing_and_reads_no_header(tmp_path, decoded, monkeypatch):
    encoded = photos(tmp_path, 6)
    first = decoded_images(encoded, None, None, "crop")
    assert decoded == list(range(6))
    monkeypatch.setattr(ImageFiles, "open", lambda *_: pytest.fail("a file was opened"))
    second = decoded_images(encoded, None, None, "crop")
    assert decoded == list(range(6))
    assert np.array_equal(first.pixels, second.pixels)
    assert (list(second.names), second.size, second.channels) == (list(first.names), (10, 10), 1)


def test_the_size_that_was_found_to_suit_and_the_same_size_asked_for_share_their_pixels(tmp_path, decoded):
    encoded = photos(tmp_path, 3)
    natural = decoded_images(encoded, None, None, "crop")
    asked_for = decoded_images(encoded, natural.size, natural.channels, "crop")
    assert decoded == [0, 1, 2]
    assert asked_for.pixels.filename == natural.pixels.filename


def test_pixels_are_mapped_from_a_plain_npy_file_and_cannot_be_written_to(tmp_path):
    images = read(photos(tmp_path, 3))
    assert isinstance(images.pixels, np.memmap)
    assert not images.pixels.flags.writeable
    assert np.array_equal(np.load(images.pixels.filename, allow_pickle=False), images.pixels)


@pytest.mark.parametrize(
    "change", [{"size": (9, 8)}, {"channels": 3}, {"resize": "squash"}], ids=["size", "channels", "resize"]
)
def test_other_wishes_are_decoded_anew_and_kept_beside(tmp_path, decoded, change):
    encoded = photos(tmp_path, 2)
    read(encoded)
    read(encoded, **change)
    read(encoded)
    read(encoded, **change)
    assert decoded == [0, 1, 0, 1]


def test_another_version_of_the_decoder_does_not_believe_this_one(tmp_path, decoded, monkeypatch):
    encoded = photos(tmp_path, 2)
    read(encoded)
    monkeypatch.setattr(cache, "DECODER_VERSION", cache.DECODER_VERSION + 1)
    read(encoded)
    assert decoded == [0, 1, 0, 1]


def change_content(folder: Path) -> None:
    Image.new("L", (10, 10), 99).save(folder / "001.png")
    status = (folder / "001.png").stat()
    os.utime(folder / "001.png", ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def test_a_changed_file_is_seen(tmp_path):
    encoded = photos(tmp_path, 3)
    read(encoded)
    change_content(tmp_path)
    assert lightness(read(encoded)) == {**values(3), "001.png": 99}


def test_a_file_that_could_not_be_opened_then_is_read_once_it_can(tmp_path, monkeypatch):
    encoded = photos(tmp_path, 4)
    original = ImageFiles.open
    forbidden = {2}

    def guarded(self, index):
        if index in forbidden:
            raise PermissionError(13, "Permission denied")
        return original(self, index)

    monkeypatch.setattr(ImageFiles, "open", guarded)
    images = read(encoded)
    assert lightness(images) == values(4, 2)
    assert [(file.name, file.reason) for file in images.skipped] == [("002.png", "[Errno 13] Permission denied")]
    assert lightness(read(encoded)) == values(4, 2)
    forbidden.clear()
    assert lightness(read(encoded)) == values(4)


def test_a_damaged_file_is_not_tried_again_until_it_changes(tmp_path, decoded):
    encoded = photos(tmp_path, 3)
    encoded.paths[1].write_text("no image")
    assert [file.name for file in read(encoded).skipped] == ["001.png"]
    again = read(encoded)
    assert decoded == [0, 1, 2]
    assert [(file.name, file.reason) for file in again.skipped] == [("001.png", "not an image that can be decoded")]
    assert lightness(again) == values(3, 1)


# Where it is kept.


def test_the_folder_that_is_named_is_used_and_no_other(tmp_path, cache_folder):
    with use_cache(tmp_path / "mine"):
        images = read(photos(tmp_path / "photos", 2))
    assert Path(images.pixels.filename).is_relative_to(tmp_path / "mine")
    assert not cache_folder.exists()


def test_without_a_cache_nothing_stays_and_the_images_can_be_used(tmp_path, cache_folder, monkeypatch, many):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    with use_cache(None):
        images = read(photos(tmp_path / "photos", 5))
    assert lightness(images) == values(5)
    assert not cache_folder.exists()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_the_environment_can_switch_it_off(tmp_path, monkeypatch):
    monkeypatch.setenv("GATCLUSTER_CACHE", "off")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert lightness(read(photos(tmp_path / "photos", 2))) == values(2)
    assert not (tmp_path / "xdg").exists()


def test_by_default_it_is_the_users_cache_folder_and_where_that_is_forbidden_there_is_none(tmp_path, monkeypatch):
    monkeypatch.delenv("GATCLUSTER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    images = read(photos(tmp_path / "photos", 2))
    assert Path(images.pixels.filename).parent.parent == tmp_path / "xdg" / "gatcluster"
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert lightness(read(photos(tmp_path / "photos", 2))) == values(2)


def test_a_folder_that_was_named_and_cannot_be_used_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with use_cache(tmp_path / "file" / "cache"), pytest.raises(InputError, match=r"file/cache.*--no-cache"):
        read(photos(tmp_path / "photos", 2))


def test_too_little_space_is_said_before_anything_is_decoded(tmp_path, cache_folder, monkeypatch, decoded):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage._replace(free=100_000))
    with pytest.raises(InputError, match=r"not enough space.*2\.0 MB are needed, 0\.1 MB are free") as caught:
        read(photos(tmp_path, 30), size=(256, 256))
    assert str(cache_folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert decoded == []


# Damage.


def cut(path: Path) -> None:
    (path / PIXELS).write_bytes((path / PIXELS).read_bytes()[:-1])


def lengthen(path: Path) -> None:
    with (path / PIXELS).open("ab") as file:
        file.write(b"x")


def spoil_header(path: Path) -> None:
    with (path / PIXELS).open("r+b") as file:
        file.seek(20)
        file.write(b"\xff")


def make_a_pickle(path: Path) -> None:
    content = io.BytesIO()
    np.save(content, np.array([{}] * 30, dtype=object), allow_pickle=True)
    (path / PIXELS).write_bytes(content.getvalue())


def spoil_json(path: Path) -> None:
    (path / ENTRY).write_bytes((path / ENTRY).read_bytes()[:-5])


def change_json(**fields: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        (path / ENTRY).write_text(json.dumps({**json.loads((path / ENTRY).read_text()), **fields}))

    return change


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        lengthen,
        spoil_header,
        make_a_pickle,
        spoil_json,
        change_json(images=4),
        change_json(form=[[9, 8], 1, "crop"]),
        change_json(failures=[[0, "a lie", False]]),
        change_json(failures=[[7, "a lie", False]]),
        change_json(failures=[None]),
        change_json(failures=None),
        lambda path: (path / ENTRY).unlink(),
        lambda path: (path / PIXELS).unlink(),
        lambda path: (path / ENTRY).write_text("[]"),
    ],
)
def test_a_damaged_entry_is_decoded_anew(tmp_path, cache_folder, decoded, damage):
    encoded = photos(tmp_path, 5)
    read(encoded)
    damage(entry_of(cache_folder))
    assert lightness(read(encoded)) == values(5)
    assert len(decoded) == 10
    assert lightness(read(encoded)) == values(5)  # and is whole again
    assert len(decoded) == 10


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"size": [0, 8], "channels": 1}', '{"size": 8, "channels": 1}']
)
def test_a_damaged_note_of_the_form_is_not_believed(tmp_path, cache_folder, content):
    encoded = photos(tmp_path, 2)
    decoded_images(encoded, None, None, "crop")
    (note,) = cache_folder.glob("form-*.json")
    note.write_text(content)
    assert decoded_images(encoded, None, None, "crop").size == (10, 10)


# Interruption.

KILLED = """
import os, pathlib, signal, sys
from gatcluster.data import cache
from gatcluster.data.files import ImageFiles, find_image_files

folder, kill_after, few = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
cache._FEW, cache._CHUNK_IMAGES, cache._SLOW_SECONDS = few, 3, 1000

def on_progress(done, total):
    if done >= kill_after:
        os.kill(os.getpid(), signal.SIGKILL)

paths = sorted(folder.iterdir())
cache.decoded_images(ImageFiles(paths, [path.name for path in paths]), (8, 8), 1, "crop", on_progress)
"""


def killed(folder: Path, kill_after: int, few: int = 0) -> None:
    """A process that decodes the images of a folder, and is killed in the middle."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder), str(kill_after), str(few)], check=False)
    assert done.returncode == -signal.SIGKILL


def test_after_a_kill_only_the_rest_is_decoded(tmp_path, cache_folder, decoded, monkeypatch):
    encoded = photos(tmp_path, 40)
    encoded.paths[1].write_text("no image")
    killed(tmp_path, kill_after=20)
    part = entry_of(cache_folder)
    assert part.name.endswith(".part")
    lines = [json.loads(line) for line in (part / JOURNAL).read_text().splitlines()[1:]]
    before = {position for line in lines for position in range(line["start"], line["stop"])}
    assert 20 <= len(before) < 40

    monkeypatch.setattr(cache, "Workers", None_workers)  # so that this process decodes, and is watched
    images = read(encoded)
    assert sorted(decoded) == sorted(set(range(40)) - before)
    assert lightness(images) == values(40, 1)
    assert [file.name for file in images.skipped] == ["001.png"]
    assert not entry_of(cache_folder).name.endswith(".part")


def None_workers(encoded: object) -> None:
    raise cache.NoWorkersError


def test_pixels_that_a_power_failure_lost_are_decoded_again(tmp_path, cache_folder, decoded, monkeypatch):
    encoded = photos(tmp_path, 40)
    killed(tmp_path, kill_after=30)
    part = entry_of(cache_folder)
    lines = (part / JOURNAL).read_text().splitlines()
    lost = json.loads(lines[1])
    with (part / PIXELS).open("r+b") as file:
        file.seek(128 + lost["start"] * 64)
        file.write(b"\xaa")
    (part / JOURNAL).write_text("\n".join(lines)[:-7])  # and half of the last line
    monkeypatch.setattr(cache, "Workers", None_workers)
    assert lightness(read(encoded)) == values(40)
    assert {lost["start"], json.loads(lines[-1])["start"]} <= set(decoded)
    assert len(decoded) < 25


@pytest.mark.parametrize("content", [b"", b"{}\n", b'{"images": 39, "form": [[8, 8], 1, "crop"]}\n', b"\xff\n"])
def test_a_damaged_journal_costs_the_work_but_not_the_result(tmp_path, cache_folder, content):
    encoded = photos(tmp_path, 4)
    read(encoded)
    entry = entry_of(cache_folder)
    part = entry.rename(entry.with_name(entry.name + ".part"))
    (part / JOURNAL).write_bytes(content)
    assert lightness(read(encoded)) == values(4)


def test_an_image_that_killed_this_process_is_left_to_a_worker_in_the_next(tmp_path, monkeypatch):
    encoded = photos(tmp_path, 40)
    killed(tmp_path, kill_after=16, few=1000)
    monkeypatch.setattr(cache._Job, "_decode_here", lambda *args, **kwargs: pytest.fail("decoded in this process"))
    assert lightness(read(encoded)) == values(40)


def test_two_processes_at_once_share_the_work_of_one(tmp_path, cache_folder):
    encoded = photos(tmp_path / "photos", 60)
    script = textwrap.dedent("""
        import os, pathlib, sys
        from gatcluster.data import cache
        from gatcluster.data.files import ImageFiles
        cache._FEW, cache._CHUNK_IMAGES = 0, 3
        paths = sorted(pathlib.Path(sys.argv[1]).iterdir())
        add = cache.Unfinished.add
        def watched(self, indices, chunk):
            add(self, indices, chunk)
            pathlib.Path(sys.argv[2]).open("a").write("".join(f"{index}\\n" for index in indices))
        cache.Unfinished.add = watched
        sys.stdin.readline()
        images = cache.decoded_images(ImageFiles(paths, [path.name for path in paths]), (8, 8), 1, "crop")
        assert images.pixels[:, 0, 0, 0].tolist() == list(range(60)), images.pixels[:, 0, 0, 0]
        """)
    command = [sys.executable, "-c", script, str(tmp_path / "photos"), str(tmp_path / "decoded")]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(2)]
    for process in processes:
        process.stdin.write(b"\n")
        process.stdin.flush()
    assert [process.wait() for process in processes] == [0, 0]
    for process in processes:
        process.stdin.close()
    assert sorted(map(int, (tmp_path / "decoded").read_text().split())) == list(range(60))
    assert sorted(path.suffix for path in cache_folder.iterdir()) == [""]
    assert lightness(read(encoded)) == values(60)


# Broken input, by worker processes.


def damaged_files(folder: Path) -> dict[str, str]:
    """Broken files between the good ones, with what the reason must say."""
    jpeg = io.BytesIO()
    Image.new("L", (100, 100), 3).save(jpeg, "jpeg")
    (folder / "000b.jpg").write_bytes(jpeg.getvalue()[:-30])
    (folder / "001b.png").touch()
    (folder / "002b.jpg").write_text("I am a text file.")
    (folder / "003b.png").symlink_to(folder / "nowhere")
    (folder / "004b.png").write_bytes(bomb())
    (folder / "005b.png").mkdir()
    return {
        "000b.jpg": "truncated",
        "001b.png": "not an image",
        "002b.jpg": "not an image",
        "003b.png": "No such file",
        "004b.png": "bomb",
        "005b.png": "directory",
    }


def bomb() -> bytes:
    """A PNG of 30,000 x 30,000 pixels in some kilobytes."""

    def part(kind: bytes, content: bytes) -> bytes:
        return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")

    size = (30_000).to_bytes(4, "big")
    header = part(b"IHDR", size + size + bytes([1, 0, 0, 0, 0]))
    return b"\x89PNG\r\n\x1a\n" + header + part(b"IDAT", zlib.compress(bytes(1_000_000))) + part(b"IEND", b"")


@pytest.mark.parametrize("by_workers", [False, True])
def test_broken_files_are_skipped_with_a_reason_and_the_good_ones_keep_their_names(tmp_path, request, by_workers):
    if by_workers:
        request.getfixturevalue("many")
    photos(tmp_path, 11)
    reasons = damaged_files(tmp_path)
    paths = sorted(tmp_path.iterdir())
    images = decoded_images(ImageFiles(paths, [path.name for path in paths]), None, None, "crop")
    assert images.size == (10, 10)
    assert lightness(images) == values(11)
    assert {file.name for file in images.skipped} == set(reasons)
    for file in images.skipped:
        assert reasons[file.name] in file.reason


def test_a_file_that_vanishes_after_it_was_listed_is_skipped(tmp_path, many):
    encoded = photos(tmp_path, 7)
    encoded.paths[3].unlink()
    images = read(encoded)
    assert lightness(images) == values(7, 3)
    assert "No such file" in images.skipped[0].reason


def test_when_no_image_can_be_read_it_is_an_error_and_nothing_stays(tmp_path, cache_folder, many):
    encoded = photos(tmp_path, 4)
    for path in encoded.paths:
        path.write_text("no image")
    with pytest.raises(InputError, match=r"none of the 4 images could be read; the first, 000\.png: not an image"):
        read(encoded)
    assert list(cache_folder.iterdir()) == []


DEADLY = """
import os
from dataclasses import dataclass
from gatcluster.data.files import ImageFiles, find_image_files

@dataclass(frozen=True)
class DeadlyFiles(ImageFiles):
    deadly: tuple[int, ...] = ()
    parent: int = 0

    def open(self, index):
        if index in self.deadly and os.getpid() != self.parent:
            os._exit(1)
        return super().open(index)
"""


@pytest.mark.parametrize("deadly", [(0,), (4,), (3, 4, 5, 10), (11,)])
@pytest.mark.parametrize("size", [SIZE, None])
def test_an_image_that_kills_its_worker_is_skipped_and_no_other(tmp_path, monkeypatch, many, deadly, size):
    (tmp_path / "deadly_files.py").write_text(DEADLY)
    monkeypatch.syspath_prepend(tmp_path)
    from deadly_files import DeadlyFiles

    good = photos(tmp_path / "photos", 12)
    images = read(DeadlyFiles(good.paths, good.names, deadly), size=size)
    assert images.size == (size or (10, 10))
    assert lightness(images) == values(12, *deadly)
    assert [file.name for file in images.skipped] == [f"{i:03}.png" for i in deadly]
    assert all("ended the process" in file.reason for file in images.skipped)
    sys.modules.pop("deadly_files")


def test_images_that_workers_cannot_load_are_decoded_here(tmp_path, many):
    class Local(ImageFiles):
        """Cannot be pickled."""

    good = photos(tmp_path, 7)
    assert lightness(decoded_images(Local(good.paths, good.names), None, None, "crop")) == values(7)


def noise(kind: str) -> bytes:
    content = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (16, 20, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(content, kind)
    return content.getvalue()


NOISE = {kind: noise(kind) for kind in KINDS}


def check_the_good_between(folder: Path, damaged: list[bytes]) -> None:
    """Every damaged file has a good one on either side; all of these must be there, under their names."""
    good = photos(folder, len(damaged) + 1)
    for i, content in enumerate(damaged):
        (folder / f"{i:03}b.png").write_bytes(content)
    paths = sorted(folder.iterdir())
    images = decoded_images(ImageFiles(paths, [path.name for path in paths]), SIZE, 1, "crop")
    found = dict(zip(images.names, images.pixels.reshape(len(images), -1), strict=True))
    for i, name in enumerate(good.names):
        assert (found[name] == i).all()
    assert sorted([*images.names, *(file.name for file in images.skipped)]) == [path.name for path in paths]


@pytest.mark.parametrize("kind", KINDS)
def test_files_cut_at_many_places_do_not_harm_the_others(tmp_path, kind, many):
    content = NOISE[kind]
    cuts = sorted({*range(0, 40, 3), *range(40, len(content), max(1, len(content) // 40)), len(content) - 1})
    check_the_good_between(tmp_path, [content[:place] for place in cuts])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(KINDS),
            st.floats(0, 1),
            st.lists(st.tuples(st.floats(0, 0.999), st.integers(1, 255)), max_size=4),
        ),
        min_size=1,
        max_size=12,
    )
)
@settings(max_examples=40, deadline=None)
def test_files_cut_and_with_flipped_bytes_do_not_harm_the_others(tmp_path_factory, damages):
    contents = []
    for kind, end, flips in damages:
        content = bytearray(NOISE[kind])
        for position, change in flips:
            content[int(position * len(content))] ^= change
        contents.append(bytes(content[: int(end * len(content))]))
    check_the_good_between(tmp_path_factory.mktemp("damaged"), contents)


def test_files_with_flipped_bytes_do_not_harm_the_others_in_workers_either(tmp_path, many):
    source = random.Random(0)
    contents = []
    for i in range(60):
        content = bytearray(NOISE[KINDS[i % len(KINDS)]])
        for _ in range(source.randint(1, 6)):
            content[source.randrange(min(len(content), 200))] = source.randrange(256)
        contents.append(bytes(content))
    check_the_good_between(tmp_path, contents)


# Progress.


def test_progress_grows_to_the_number_of_images_also_when_nothing_is_left_to_do(tmp_path, many):
    encoded = photos(tmp_path, 10)
    encoded.paths[4].write_text("no image")
    seen: list[tuple[int, int]] = []
    read(encoded, on_progress=lambda *counts: seen.append(counts))
    assert seen[-1] == (10, 10)
    assert len(seen) > 2
    assert seen == sorted(seen)
    seen.clear()
    read(encoded, on_progress=lambda *counts: seen.append(counts))
    assert seen == [(10, 10)]


def test_few_images_that_prove_slow_are_handed_to_workers(tmp_path, monkeypatch):
    handed: list[range] = []
    original = cache.Workers.run

    def watched(self, function, tasks):
        handed.extend(tasks)
        return original(self, function, tasks)

    monkeypatch.setattr(cache.Workers, "run", watched)
    encoded = photos(tmp_path, 40)
    assert lightness(read(encoded)) == values(40)
    assert handed == []
    monkeypatch.setattr(cache, "_SLOW_SECONDS", 0)
    assert lightness(read(encoded, resize="squash")) == values(40)
    assert handed == [range(16, 40)]


def test_the_cache_says_where_its_images_came_from(tmp_path, cache_folder):
    read(photos(tmp_path / "photos", 4))
    (listed,) = Store(cache_folder).entries()
    assert (listed.source, listed.n_images) == (str(tmp_path / "photos"), 4)
    assert listed.n_bytes > 4 * 64


def test_the_form_of_many_images_is_told_from_some_spread_evenly(tmp_path, monkeypatch):
    for i in range(9):
        Image.new("RGB" if i == 8 else "L", (10, 12)).save(tmp_path / f"{i}.png")
    monkeypatch.setattr(cache, "_HEADERS", 3)
    names = find_image_files(tmp_path)
    looked_at: list[int] = []

    class Watched(ImageFiles):
        def open(self, index):
            looked_at.append(index)
            return super().open(index)

    with use_cache(None):
        images = decoded_images(Watched([tmp_path / name for name in names], names), None, None, "crop")
    assert looked_at[:3] == [0, 3, 6]
    assert images.pixels.shape == (9, 12, 10, 1)  # the only image in colour was not among them
