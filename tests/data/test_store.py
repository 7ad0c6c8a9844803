"""The cache folder: what it lists, what it removes, what it remembers."""

from __future__ import annotations

import inspect
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gatcluster import cli
from gatcluster.data import auto, ink
from gatcluster.data.decode import Chunk, Failure, Form
from gatcluster.data.images import ImageSet
from gatcluster.data.store import Store, default_folder, kept_in, key_of, remembered
from gatcluster.errors import InputError

FORM = Form((2, 3), 1, "crop")
KEY, OTHER = key_of("a"), key_of("b")


def write(store: Store, key: str = KEY, n: int = 4, failed: tuple[int, ...] = (), finish: bool = True) -> None:
    """An entry whose image i is all i."""
    store.make_folder()
    unfinished = store.unfinished(key, n, FORM)
    unfinished.begin("/photos")
    for i in range(n):
        failures = [Failure(i, "broken", False)] if i in failed else []
        unfinished.add(range(i, i + 1), Chunk(bytes([i]) * FORM.image_bytes, failures))
    if finish:
        unfinished.finish()


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "cache")


def test_what_was_written_is_found(store):
    write(store)
    entry = store.find(KEY, 4, FORM)
    assert entry.pixels.shape == (4, 2, 3, 1)
    assert entry.pixels[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    assert store.find(OTHER, 4, FORM) is None


@pytest.mark.parametrize("failed", [(0,), (3,), (1, 2), (0, 2), (0, 1, 3)])
@pytest.mark.parametrize("moved_at_once", [1, 12, 1 << 24])
def test_images_that_failed_leave_no_gap(store, monkeypatch, failed, moved_at_once):
    monkeypatch.setattr("gatcluster.data.store._MOVED_AT_ONCE", moved_at_once)
    write(store, failed=failed)
    entry = store.find(KEY, 4, FORM)
    assert entry.pixels[:, 1, 2, 0].tolist() == [i for i in range(4) if i not in failed]
    assert [failure.position for failure in entry.failures] == list(failed)


def test_what_is_missing_is_told_in_pieces(store):
    store.make_folder()
    unfinished = store.unfinished(KEY, 10, FORM)
    unfinished.begin("/photos")
    assert unfinished.missing(4) == [range(4), range(4, 8), range(8, 10)]
    unfinished.add(range(2, 4), Chunk(bytes(12), []))
    unfinished.add(range(9, 10), Chunk(bytes(6), []))
    assert unfinished.missing(4) == [range(2), range(4, 8), range(8, 9)]
    assert unfinished.n_done == store.n_decoded(KEY) == 3


def test_entries_are_listed_with_their_source_and_state(store):
    write(store, failed=(1,))
    write(store, OTHER, finish=False)
    (store.folder / f"images-{key_of('c')}").mkdir()
    whole, part, damaged = sorted(store.entries(), key=lambda entry: (entry.form is None, entry.n_images is None))
    assert (whole.source, whole.n_images, whole.form) == ("/photos", 3, FORM)
    assert (part.source, part.n_images, part.form) == ("/photos", None, FORM)
    assert (damaged.source, damaged.n_images, damaged.form) == ("unknown", None, None)


def test_a_folder_that_is_not_there_has_no_entries_and_is_not_made(store):
    assert store.entries() == []
    assert store.clear() == (0, 0)
    assert not store.folder.exists()


def test_clearing_removes_the_entries_and_only_them(store):
    store.make_folder()
    mine = ["thesis.tex", "images-of-mine", "images-123.part", "form.json", f"images-{KEY}.txt"]
    for name in mine:
        (store.folder / name).write_text("years of work")
    outside = store.folder.parent / "outside"
    outside.mkdir()
    (outside / "entry.json").write_text("years of work")
    (store.folder / f"images-{key_of('link')}").symlink_to(outside)
    write(store)
    write(store, OTHER, finish=False)
    store.put_form(KEY, (2, 3), 1)
    freed, kept = store.clear()
    assert freed > 0
    assert kept == 0
    left = {path.name for path in store.folder.iterdir()}
    assert left == {*mine, f"images-{key_of('link')}"}
    assert (outside / "entry.json").exists()


def test_what_someone_put_into_an_entry_stays(store):
    write(store)
    note = store.folder / f"images-{KEY}" / "note.txt"
    note.write_text("mine")
    store.clear()
    assert [path.name for path in note.parent.iterdir()] == ["note.txt"]


def test_an_entry_in_the_making_is_not_cleared(store):
    write(store, finish=False)
    with store.locked(KEY):
        freed, kept = store.clear()
        assert freed == 0
        assert kept > 0
    assert store.n_decoded(KEY) == 4
    assert store.clear()[1] == 0


def test_pixels_in_use_survive_clearing(store):
    write(store)
    pixels = store.find(KEY, 4, FORM).pixels
    assert kept_in(pixels) == (store.folder, 24)
    store.clear()
    assert pixels[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    assert kept_in(pixels) is None


def test_a_lock_waits_and_leaves_no_file(store):
    store.make_folder()
    waits = []

    class EnoughError(Exception):
        pass

    def on_wait() -> None:
        waits.append(1)
        if len(waits) == 2:
            raise EnoughError

    with store.locked(KEY), store.locked(OTHER), pytest.raises(EnoughError), store.locked(KEY, on_wait):
        pytest.fail("locked twice")
    assert list(store.folder.iterdir()) == []
    with store.locked(KEY, on_wait):
        pass


# What is remembered beside pixels.

asked: list[int] = []


def lightest(pixels: np.ndarray, times: int = 1) -> float:
    asked.append(1)
    return float(pixels.max()) * times


def test_what_was_found_of_kept_pixels_is_not_asked_again(store):
    write(store)
    pixels = store.find(KEY, 4, FORM).pixels
    asked.clear()
    assert [remembered(pixels, partial(lightest, pixels), float) for _ in range(3)] == [3.0, 3.0, 3.0]
    assert len(asked) == 1
    (fact,) = Path(pixels.filename).parent.glob("fact-*.json")
    for damage in ("", '"3.0"', "[3.0]", "null"):
        fact.write_text(damage)
        assert remembered(pixels, partial(lightest, pixels), float) == 3.0
        assert json.loads(fact.read_text()) == 3.0
    store.clear()
    assert list(store.folder.iterdir()) == []


def test_a_question_with_other_arguments_is_another_question(store):
    write(store)
    pixels = store.find(KEY, 4, FORM).pixels
    for _ in range(2):
        assert [remembered(pixels, partial(lightest, pixels, times=times), float) for times in (1, 2)] == [3.0, 6.0]


def test_what_was_found_is_asked_again_once_a_file_that_was_used_changes(store, monkeypatch):
    write(store)
    pixels = store.find(KEY, 4, FORM).pixels
    images = ImageSet(pixels, [str(number) for number in range(len(pixels))])
    facts = Path(pixels.filename).parent
    source = inspect.getsource
    for changed, n_facts in ((None, 1), (None, 1), (ink, 2), (auto, 3), (cli, 3)):
        name = getattr(changed, "__name__", None)
        monkeypatch.setattr(
            inspect, "getsource", lambda module, name=name: source(module) + "#" * (module.__name__ == name)
        )
        assert remembered(images.pixels, partial(auto.mean_lightness, images), float) >= 0
        assert len(list(facts.glob("fact-*.json"))) == n_facts


def test_of_other_pixels_nothing_is_remembered():
    pixels = np.arange(4)
    asked.clear()
    assert [remembered(pixels, partial(lightest, pixels), float) for _ in range(2)] == [3.0, 3.0]
    assert len(asked) == 2


# Where it lies.


def test_the_folder_comes_from_the_environment_else_from_the_platform(monkeypatch, tmp_path):
    monkeypatch.setenv("GATCLUSTER_CACHE", "~/mine")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / "mine"
    monkeypatch.setenv("GATCLUSTER_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert default_folder() == tmp_path / ".cache" / "gatcluster"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the standard
    assert default_folder() == tmp_path / ".cache" / "gatcluster"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert default_folder() == Path("/elsewhere/gatcluster")
    monkeypatch.setenv("GATCLUSTER_CACHE", "off")
    assert default_folder() is None


def test_a_full_disk_is_an_error_in_one_line(store, monkeypatch):
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(InputError, match=r"not enough space.*No space left.*--cache"):
        write(store)
