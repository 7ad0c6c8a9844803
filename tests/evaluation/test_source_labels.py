from __future__ import annotations

import pytest

from gatcluster.errors import InputError
from gatcluster.evaluation.source_labels import check_lies_in_folders, labels_from_source


def test_labels_come_in_the_order_of_the_images_and_skipped_ones_are_left_out(tmp_path):
    (tmp_path / "x.csv").write_text("path,label\na.png,1\nbroken.png,2\nc.png,3\n")
    assert labels_from_source(str(tmp_path / "x.csv"), "csv", ["a.png", "c.png"]) == ["1", "3"]


def test_a_path_that_is_listed_twice_keeps_both_labels_in_order(tmp_path):
    (tmp_path / "x.csv").write_text("path,label\na.png,1\nb.png,\na.png,2\n")
    names = ["a.png", "b.png", "a.png"]
    assert labels_from_source(str(tmp_path / "x.csv"), "csv", names) == ["1", None, "2"]


def test_of_image_files_the_folder_is_the_label(tmp_path):
    assert labels_from_source(str(tmp_path), "folder", ["cats/1.png", "dogs/2.png"]) == ["cats", "dogs"]
    with pytest.raises(InputError, match=r"3\.png lies in no class folder"):
        labels_from_source(str(tmp_path), "folder", ["3.png"])


def test_a_source_that_changed_is_an_error_that_counts_what_is_missing(tmp_path):
    (tmp_path / "x.csv").write_text("path,label\na.png,1\n")
    with pytest.raises(InputError, match=r"changed since the run: .*2 of 3 images.*first of them b\.png"):
        labels_from_source(str(tmp_path / "x.csv"), "csv", ["a.png", "b.png", "c.png"])


def test_a_source_that_is_gone_or_unknown_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        labels_from_source(str(tmp_path / "gone"), "cifar10", ["data_batch_1:0"])
    with pytest.raises(InputError, match="does not know where its images came from"):
        labels_from_source(None, None, ["0"])


@pytest.mark.parametrize("name", ["webdataset", "parquet", "cifar10"])
def test_shards_are_not_taken_for_class_folders(name):
    with pytest.raises(InputError, match=f"'{name}' lie in no class folders"):
        check_lies_in_folders(name)


@pytest.mark.parametrize("name", ["folder", "glob", "list", "csv", None])
def test_folders_of_files_may_be_labels(name):
    check_lies_in_folders(name)
