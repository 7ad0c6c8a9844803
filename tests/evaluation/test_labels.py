from __future__ import annotations

from pathlib import Path

import pytest

from gatcluster.errors import InputError
from gatcluster.evaluation.labels import labels_from_csv, labels_from_folders


def csv_file(folder: Path, text: str | bytes) -> Path:
    path = folder / "labels.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_the_label_is_the_innermost_folder():
    names = ["cats/1.jpg", "train/dogs/2.jpg", "/data/owls/3.jpg", "a folder/x, y/4.jpg"]
    assert labels_from_folders(names) == ["cats", "dogs", "owls", "x, y"]


@pytest.mark.parametrize("name", ["2.jpg", "7"])
def test_an_image_outside_any_class_folder_is_named(name):
    with pytest.raises(InputError, match=f"{name} lies in no class folder.*CSV"):
        labels_from_folders(["cats/1.jpg", name])


def test_labels_come_in_the_order_of_the_images_and_other_rows_are_ignored(tmp_path):
    path = csv_file(tmp_path, "path,label\nc.png,3\na.png,1\nelse.png,9\nb.png,0\n")
    assert labels_from_csv(path, ["a.png", "b.png", "c.png"]) == ["1", "0", "3"]


def test_columns_may_come_in_any_order_beside_others(tmp_path):
    path = csv_file(tmp_path, "label,width,path\ncat,10,a.png\n")
    assert labels_from_csv(path, ["a.png"]) == ["cat"]


def test_names_with_commas_quotes_and_line_breaks_match(tmp_path):
    path = csv_file(tmp_path, 'path,label\n"a, ""b"".png",x\n"line\nbreak.png",y\n')
    assert labels_from_csv(path, ['a, "b".png', "line\nbreak.png"]) == ["x", "y"]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_file_saved_by_a_spreadsheet_program_is_read(tmp_path, line_end):
    text = line_end.join(["path,label", "käse.png,Käse", ""])
    assert labels_from_csv(csv_file(tmp_path, text.encode("utf-8-sig")), ["käse.png"]) == ["Käse"]


def test_names_that_are_not_valid_unicode_match(tmp_path):
    path = csv_file(tmp_path, b"path,label\n\xff.png,cat\n")
    assert labels_from_csv(path, [b"\xff.png".decode("utf-8", "surrogateescape")]) == ["cat"]


def test_absolute_paths_below_the_source_match(tmp_path):
    source = tmp_path / "photos"
    path = csv_file(tmp_path, f"path,label\n{source}/sub/a.png,cat\nb.png,dog\n")
    assert labels_from_csv(path, ["sub/a.png", "b.png"], str(source)) == ["cat", "dog"]
    with pytest.raises(InputError, match="no label for 1 of 2"):
        labels_from_csv(path, ["sub/a.png", "b.png"])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no such label file: .*gone\.csv"):
        labels_from_csv(tmp_path / "gone.csv", ["a.png"])


@pytest.mark.parametrize(
    ("header", "missing"), [("path,class", "label"), ("file,label", "path"), ("a.png;cat", "label"), ("", "label")]
)
def test_a_missing_column_is_named(tmp_path, header, missing):
    with pytest.raises(InputError, match=rf"labels\.csv has no column '{missing}'"):
        labels_from_csv(csv_file(tmp_path, f"{header}\na.png,cat\n" if header else ""), ["a.png"])


@pytest.mark.parametrize("rows", ["a.png,cat\n", "a.png,cat\nb.png,\nc.png\n", ""])
def test_images_without_a_label_are_counted_and_the_first_is_named(tmp_path, rows):
    missing = 2 if rows else 3
    first = "b.png" if rows else "a.png"
    with pytest.raises(InputError, match=rf"labels\.csv does not match.*{missing} of 3 images.*{first}"):
        labels_from_csv(csv_file(tmp_path, "path,label\n" + rows), ["a.png", "b.png", "c.png"])


def test_a_file_that_is_no_table_is_an_error_that_names_it(tmp_path):
    with pytest.raises(InputError, match=r"labels\.csv"):
        labels_from_csv(csv_file(tmp_path, b"\x89PNG\r\n\x1a\n\x00\x00\x00"), ["a.png"])


def test_an_endless_field_is_an_error_that_names_the_file(tmp_path):
    path = csv_file(tmp_path, 'path,label\n"' + "x" * 200_000)
    with pytest.raises(InputError, match=r"cannot read .*labels\.csv"):
        labels_from_csv(path, ["a.png"])
