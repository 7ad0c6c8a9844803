from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatcluster.runs.files import csv_text, write_bytes, write_csv, write_json


def read_csv(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        return list(csv.reader(file))


def entries(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_bytes_are_written_and_replace_what_was_there(tmp_path):
    path = tmp_path / "x"
    write_bytes(path, b"old and longer")
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert entries(tmp_path) == ["x"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_when_writing_fails_the_old_file_stays_whole_and_nothing_else_is_left(tmp_path, monkeypatch, failing, error):
    path = tmp_path / "x"
    write_bytes(path, b"old")

    def fail(*args):
        raise error

    monkeypatch.setattr(*((os, "fsync") if failing == "fsync" else (Path, "replace")), fail)
    with pytest.raises(type(error)):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert entries(tmp_path) == ["x"]


def test_a_reader_never_sees_a_half_written_file(tmp_path, monkeypatch):
    path = tmp_path / "x"
    write_bytes(path, b"old")
    seen: list[bytes] = []
    flush_to_disk = os.fsync

    def look(descriptor):  # all bytes are written, the file is not yet closed
        seen.append(path.read_bytes())
        flush_to_disk(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    write_bytes(path, b"new")
    assert seen == [b"old", b"new"]  # once for the file, once for the folder that names it
    assert path.read_bytes() == b"new"


def test_a_table_that_breaks_off_leaves_the_old_one(tmp_path):
    path = tmp_path / "x.csv"
    write_csv(path, ("path",), [("a",)])

    def rows():
        yield ("b",)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_csv(path, ("path",), rows())
    assert path.read_text() == "path\na\n"
    assert entries(tmp_path) == ["x.csv"]


def test_plain_tables_look_plain():
    assert csv_text(("path", "cluster"), [("a/b c.png", 1), ("é.png", 2)]) == "path,cluster\na/b c.png,1\né.png,2\n"


def test_odd_names_come_back_as_they_were(tmp_path):
    names = ["a,b", 'quo"te', "line\nbreak", "carriage\rreturn", "both\r\n", " space ", "", "日本", "'", ";", "\t", "#"]
    write_csv(tmp_path / "x.csv", ("path", "cluster"), [(name, 7) for name in names])
    assert read_csv(tmp_path / "x.csv") == [["path", "cluster"], *([name, "7"] for name in names)]


def test_names_that_are_not_valid_unicode_keep_their_bytes(tmp_path):
    name = os.fsdecode(b"caf\xe9.png")
    write_csv(tmp_path / "x.csv", ("path",), [(name,)])
    assert (tmp_path / "x.csv").read_bytes() == b"path\ncaf\xe9.png\n"
    assert read_csv(tmp_path / "x.csv") == [["path"], [name]]


@given(st.lists(st.tuples(st.binary(max_size=12), st.binary(max_size=12)), max_size=5))
@settings(max_examples=100, deadline=None)
def test_any_file_name_round_trips(tmp_path_factory, rows):
    texts = [[os.fsdecode(part.replace(b"\x00", b"")) for part in row] for row in rows]
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    write_csv(path, ("a", "b"), texts)
    assert read_csv(path) == [["a", "b"], *texts]


def test_json_is_readable_by_people_and_comes_back(tmp_path):
    tree = {"source": "/fotos/Käse 日本", "k": 10, "nothing": None}
    write_json(tmp_path / "x.json", tree)
    text = (tmp_path / "x.json").read_text(encoding="utf-8")
    assert "Käse 日本" in text
    assert text.endswith("\n")
    assert json.loads(text) == tree


def test_json_with_a_name_that_is_not_valid_unicode_is_valid_and_comes_back(tmp_path):
    tree = {"source": os.fsdecode(b"/fotos/caf\xe9")}
    write_json(tmp_path / "x.json", tree)
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8")) == tree


def test_what_json_cannot_hold_leaves_the_old_file(tmp_path):
    write_json(tmp_path / "x.json", 1)
    with pytest.raises(TypeError):
        write_json(tmp_path / "x.json", {"not": object()})
    assert json.loads((tmp_path / "x.json").read_text()) == 1
