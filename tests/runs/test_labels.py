"""The labels that a run was scored against."""

from __future__ import annotations

import pytest

from gatcluster.data.images import Skipped
from gatcluster.errors import InputError
from gatcluster.runs.labels import read_labels, write_labels
from gatcluster.runs.layout import LABELS, SKIPPED
from gatcluster.runs.skipped import read_skipped


def test_labels_come_back_in_their_rows_whatever_the_names_are(tmp_path, names):
    names = [*names, names[0]]  # one name twice
    labels = ["cat", None, 'a "b", c', "line\nbreak", "", "caf\udce9", "dog"]
    write_labels(tmp_path, names, labels)
    assert read_labels(tmp_path, len(names)) == labels


def test_a_run_that_was_not_evaluated_has_none(tmp_path):
    assert read_labels(tmp_path, 3) is None


@pytest.mark.parametrize("text", ["path,label\na,b\n", "path,row,label\na,9,b\n", "path,row,label\na,x,b\n"])
def test_a_damaged_list_is_an_error_that_names_it(tmp_path, text):
    (tmp_path / LABELS).write_text(text)
    with pytest.raises(InputError, match=LABELS):
        read_labels(tmp_path, 3)


def test_skipped_files_come_back(run_path, tmp_path):
    assert read_skipped(run_path) == [Skipped("bad, one.jpg", "not an image")]
    assert read_skipped(tmp_path) == []
    (run_path / SKIPPED).write_text("nothing\n1\n")
    with pytest.raises(InputError, match=SKIPPED):
        read_skipped(run_path)
