"""Curation files: what a person corrected, and what is refused."""

from __future__ import annotations

import json

import pytest

from gatcluster.errors import InputError
from gatcluster.runs.curation import Group, no_curation, read_curation

PATHS = ["a/1.png", "2.png", "caf\udce9.png"]


def written(folder, **entries):
    path = folder / "curation.json"
    path.write_text(json.dumps({"format": "gatcluster-curation", "version": 1, **entries}))
    return path


def test_without_corrections_every_cluster_is_its_own(tmp_path):
    assert no_curation(3).groups == [Group((0,), None), Group((1,), None), Group((2,), None)]
    assert read_curation(written(tmp_path), 3, PATHS) == no_curation(3)


def test_names_merges_and_wrong_images(tmp_path):
    path = written(tmp_path, names={"3": " cats "}, merge=[[1, 4], [2, 3]], wrong=["2.png", "caf\udce9.png"])
    curation = read_curation(path, 6, PATHS)
    assert curation.groups == [Group((0,), None), Group((1, 4), None), Group((2, 3), "cats"), Group((5,), None)]
    assert curation.wrong == {"2.png", "caf\udce9.png"}
    assert [group.number for group in curation.group_of_clusters()] == [0, 1, 2, 2, 1, 5]
    assert not curation.notes


def test_merges_that_share_a_cluster_unite(tmp_path):
    curation = read_curation(written(tmp_path, merge=[[5, 4], [0, 1], [4, 1], [3], []]), 6, PATHS)
    assert [group.clusters for group in curation.groups] == [(0, 1, 4, 5), (2,), (3,)]


def test_clusters_of_one_name_are_one(tmp_path):
    curation = read_curation(written(tmp_path, names={"0": "cats", "2": "cats", "1": " "}), 3, PATHS)
    assert curation.groups == [Group((0, 2), "cats"), Group((1,), None)]


def test_of_two_names_in_a_group_the_lowest_counts_and_a_note_says_so(tmp_path):
    curation = read_curation(written(tmp_path, names={"2": "dogs", "0": "cats"}, merge=[[2, 0]]), 3, PATHS)
    assert curation.groups[0] == Group((0, 2), "cats")
    assert curation.notes == ("clusters 0 and 2 are one, but have 2 names: 'cats' is used",)


def test_entries_of_later_pages_are_ignored(tmp_path):
    assert read_curation(written(tmp_path, colour="blue"), 3, PATHS) == no_curation(3)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"names": {"3": "x"}}, "cluster 3, but the run has clusters 0 to 2"),
        ({"merge": [[0, -1]]}, "cluster -1, but the run has"),
        ({"wrong": ["nowhere.png"]}, "marks nowhere.png as wrong, which is no image of this run"),
        ({"names": {"x": "cats"}}, "'names' must"),
        ({"names": {"1": 5}}, "'names' must"),
        ({"names": ["cats"]}, "'names' must"),
        ({"merge": [1, 2]}, "'merge' must"),
        ({"merge": [[True]]}, "'merge' must"),
        ({"wrong": "a/1.png"}, "'wrong' must"),
        ({"format": "other"}, "its 'format' is not"),
        ({"version": 2}, "has curation version 2"),
    ],
)
def test_what_does_not_fit_the_run_is_refused(tmp_path, entries, message):
    with pytest.raises(InputError, match=message.replace("[", r"\[")):
        read_curation(written(tmp_path, **entries), 3, PATHS)


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_files_that_are_no_json_object_are_refused(tmp_path, content):
    path = tmp_path / "curation.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is no curation file"):
        read_curation(path, 3, PATHS)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*none\.json"):
        read_curation(tmp_path / "none.json", 3, PATHS)
