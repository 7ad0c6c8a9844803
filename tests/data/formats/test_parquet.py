from __future__ import annotations

import pickle
import sys

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from gatcluster.data.formats.parquet import parquet_images, parquet_labels
from gatcluster.data.sources import read_images
from gatcluster.errors import InputError


@pytest.fixture
def encoded(write) -> list[bytes]:
    return [write.png(image) for image in write.pixels(5, 8, 8)]


def test_bytes_are_read_row_by_row_across_row_groups(tmp_path, write, encoded):
    path = write.parquet(tmp_path / "x.parquet", {"id": list(range(5)), "image": encoded}, row_group_size=2)
    images = read_images(path)
    assert np.array_equal(images.pixels, write.pixels(5, 8, 8))
    assert images.names == [f"x.parquet:{i}" for i in range(5)]


def test_structs_of_bytes_and_path_are_read_as_hugging_face_writes_them(tmp_path, write, encoded):
    cells = [{"bytes": content, "path": "somewhere.png"} for content in encoded]
    path = write.parquet(tmp_path / "x.parquet", {"img": cells, "label": [3, 1, 4, 1, 5]})
    assert np.array_equal(read_images(path).pixels, write.pixels(5, 8, 8))
    assert parquet_labels(path) == [(f"x.parquet:{i}", label) for i, label in enumerate("31415")]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_paths_are_read_relative_to_the_file_and_name_the_images(tmp_path, write, kind):
    for i, picture in enumerate(write.pixels(3, 8, 8)):
        Image.fromarray(picture).save(tmp_path / f"{i}.png")
    paths = pa.array(["2.png", str(tmp_path / "0.png"), None, "2.png", "gone.png"], kind)
    path = write.parquet(tmp_path / "x.parquet", {"path": paths, "label": list("abcde")})
    images = read_images(path)
    assert images.names == ["2.png", str(tmp_path / "0.png"), "2.png"]
    assert np.array_equal(images.pixels, write.pixels(3, 8, 8)[[2, 0, 2]])
    assert [file.name for file in images.skipped] == ["", "gone.png"]
    assert [label for _, label in parquet_labels(path)] == list("abcde")


def test_a_folder_of_files_is_read_in_the_order_of_their_names(tmp_path, write, encoded):
    write.parquet(tmp_path / "data" / "test-1.parquet", {"image": encoded[3:]})
    write.parquet(tmp_path / "data" / "test-0.parquet", {"image": encoded[:3]})
    write.parquet(tmp_path / ".cache" / "x.parquet", {"image": encoded})
    images = read_images(tmp_path)
    assert np.array_equal(images.pixels, write.pixels(5, 8, 8))
    assert images.names[2:4] == ["data/test-0.parquet:2", "data/test-1.parquet:0"]


def test_empty_and_broken_rows_cost_one_image_each(tmp_path, write, encoded):
    path = write.parquet(tmp_path / "x.parquet", {"image": [encoded[0], None, encoded[2][:40], encoded[3]]})
    images = read_images(path)
    assert images.names == ["x.parquet:0", "x.parquet:3"]
    assert [file.name for file in images.skipped] == ["x.parquet:1", "x.parquet:2"]
    assert images.skipped[0].reason == "the row holds no image"


def test_pickled_images_open_the_same(tmp_path, write, encoded):
    images = parquet_images(write.parquet(tmp_path / "x.parquet", {"image": encoded}, row_group_size=2))
    again = pickle.loads(pickle.dumps(images))
    assert [again.open(i).read() for i in (4, 0, 2)] == [encoded[4], encoded[0], encoded[2]]
    assert again.fingerprint() == images.fingerprint()


def test_the_column_must_be_plain_to_see(tmp_path, write, encoded):
    columns = {"left": encoded, "right": encoded}
    with pytest.raises(InputError, match=r"which column of .*x\.parquet holds the images.*\(left, right\) 'image'"):
        parquet_images(write.parquet(tmp_path / "x.parquet", columns))
    assert parquet_images(write.parquet(tmp_path / "y.parquet", {**columns, "Image": encoded})).column == "Image"


def test_a_file_without_images_lists_its_columns(tmp_path, write):
    with pytest.raises(InputError, match=r"no column of .*x\.parquet holds images.*id int64"):
        parquet_images(write.parquet(tmp_path / "x.parquet", {"id": [1, 2]}))


def test_a_file_without_rows_is_named(tmp_path, write):
    with pytest.raises(InputError, match=r"x\.parquet has no rows"):
        parquet_images(write.parquet(tmp_path / "x.parquet", {"image": pa.array([], pa.binary())}))


def test_files_with_different_columns_are_named(tmp_path, write, encoded):
    write.parquet(tmp_path / "a.parquet", {"image": encoded})
    write.parquet(tmp_path / "b.parquet", {"img": encoded})
    with pytest.raises(InputError, match=r"b\.parquet has no column 'image'"):
        parquet_images(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet file" * 100])
def test_a_file_that_is_no_parquet_file_is_named_on_one_line(tmp_path, content):
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"cannot read .*x\.parquet") as error:
        parquet_images(tmp_path / "x.parquet")
    assert "\n" not in str(error.value)


def test_missing_labels_are_named(tmp_path, write, encoded):
    with pytest.raises(InputError, match=r"x\.parquet carries no labels"):
        parquet_labels(write.parquet(tmp_path / "x.parquet", {"image": encoded}))


def test_without_pyarrow_the_error_says_how_to_install_it(tmp_path, write, encoded, monkeypatch):
    path = write.parquet(tmp_path / "x.parquet", {"image": encoded})
    for name in ("pyarrow", "pyarrow.parquet", "pyarrow.ipc"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r'pip install "gatcluster\[parquet\]"'):
        read_images(path)
