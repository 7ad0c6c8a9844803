from __future__ import annotations

import os
from pathlib import Path

import pytest

from gatcluster.errors import InputError
from gatcluster.runs.layout import CONFIG, HISTORY, RUN_ENTRIES, check_free, is_run_entry


def entries(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_is_not_there_or_is_empty_is_free_and_is_not_made(tmp_path, overwrite):
    check_free(tmp_path / "deep" / "er" / "run", overwrite)
    assert entries(tmp_path) == []
    check_free(tmp_path, overwrite)


def test_a_relative_path_is_free(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_free(Path("run"), overwrite=False)


def test_a_folder_that_holds_anything_needs_overwrite_and_the_error_says_so(tmp_path):
    (tmp_path / HISTORY).touch()
    with pytest.raises(InputError, match=r"exists and is not empty.*--overwrite"):
        check_free(tmp_path, overwrite=False)


def test_with_overwrite_a_whole_run_and_a_broken_off_one_may_be_replaced(tmp_path):
    (tmp_path / HISTORY).touch()
    check_free(tmp_path, overwrite=True)
    for name in RUN_ENTRIES:
        (tmp_path / name).touch()
    check_free(tmp_path, overwrite=True)


def test_the_temporary_file_of_a_killed_run_does_not_bar_its_folder_for_ever(tmp_path):
    (tmp_path / f".{CONFIG}.4711.tmp").touch()
    check_free(tmp_path, overwrite=True)


@pytest.mark.parametrize("name", ["thesis.docx", ".bashrc", ".thesis.docx.12.tmp", ".config.json.tmp", "a.config.json"])
def test_overwrite_never_takes_files_that_no_run_writes(tmp_path, name):
    (tmp_path / CONFIG).touch()
    (tmp_path / name).touch()
    assert not is_run_entry(name)
    with pytest.raises(InputError, match=f"holds {name}, which no run writes"):
        check_free(tmp_path, overwrite=True)


@pytest.mark.parametrize("below", ["", "run", "run/deeper"])
def test_a_file_in_the_way_is_named(tmp_path, below):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write to .*file is not a folder"):
        check_free(tmp_path / "file" / below, overwrite=True)


@pytest.mark.parametrize("below", ["", "run", "deep/er/run"])
def test_a_folder_without_permission_to_write_is_named(tmp_path, monkeypatch, below):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(InputError, match=f"cannot write to .*no permission to write in {tmp_path}"):
        check_free(tmp_path / below, overwrite=False)
