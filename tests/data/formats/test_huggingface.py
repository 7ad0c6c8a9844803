from __future__ import annotations

import json
import pickle

import numpy as np
import pyarrow as pa
import pytest

from gatcluster.data.formats.huggingface import huggingface_images, huggingface_labels
from gatcluster.data.sources import read_images
from gatcluster.errors import InputError


@pytest.fixture
def cells(write) -> list[dict[str, object]]:
    return [{"bytes": write.png(image), "path": None} for image in write.pixels(5, 8, 8)]


def test_a_saved_dataset_is_read_with_its_labels(tmp_path, write, cells):
    folder = write.saved_dataset(tmp_path / "set", {"image": cells, "label": [3, 1, 4, None, 5]})
    images = read_images(folder)
    assert np.array_equal(images.pixels, write.pixels(5, 8, 8))
    assert images.names == [f"data-00000-of-00001.arrow:{i}" for i in range(5)]
    assert [label for _, label in huggingface_labels(folder)] == ["3", "1", "4", None, "5"]
    assert [name for name, _ in huggingface_labels(folder)] == images.names


def test_the_splits_of_a_saved_dictionary_come_in_its_order(tmp_path, write, cells):
    write.saved_dataset(tmp_path / "train", {"image": cells[:3]})
    write.saved_dataset(tmp_path / "test", {"image": cells[3:]})
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    images = read_images(tmp_path)
    assert np.array_equal(images.pixels, write.pixels(5, 8, 8))
    assert images.names[2:4] == ["train/data-00000-of-00001.arrow:2", "test/data-00000-of-00001.arrow:0"]


def test_the_library_s_cache_folder_is_read_without_what_was_computed_from_it(tmp_path, write, cells):
    write.arrow(tmp_path / "mnist-train.arrow", {"image": cells})
    write.arrow(tmp_path / "cache-1234.arrow", {"image": cells})
    (tmp_path / "dataset_info.json").write_text("{}")
    assert len(read_images(tmp_path)) == 5


def test_a_single_arrow_file_in_either_format_is_read(tmp_path, write, cells):
    write.arrow(tmp_path / "stream.arrow", {"image": cells})
    table = pa.table({"image": cells})
    with pa.OSFile(str(tmp_path / "file.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    for name in ("stream.arrow", "file.arrow"):
        assert np.array_equal(read_images(tmp_path / name).pixels, write.pixels(5, 8, 8))


def test_pickled_images_open_the_same(tmp_path, write, cells):
    images = huggingface_images(write.saved_dataset(tmp_path, {"image": cells}))
    again = pickle.loads(pickle.dumps(images))
    assert [again.open(i).read() for i in (4, 0, 3)] == [cells[i]["bytes"] for i in (4, 0, 3)]
    assert again.fingerprint() == images.fingerprint()


def test_a_missing_part_is_named(tmp_path, write, cells):
    write.saved_dataset(tmp_path, {"image": cells})
    (tmp_path / "data-00000-of-00001.arrow").rename(tmp_path / "other.arrow")
    with pytest.raises(InputError, match=r"not whole: .*data-00000-of-00001\.arrow is missing"):
        read_images(tmp_path)


@pytest.mark.parametrize("state", ["{", "[]", '{"_data_files": 3}', '{"_data_files": [{}]}', "{}"])
def test_a_damaged_description_is_named(tmp_path, write, cells, state):
    write.saved_dataset(tmp_path, {"image": cells})
    (tmp_path / "state.json").write_text(state)
    with pytest.raises(InputError, match=r"state\.json is damaged"):
        read_images(tmp_path)


def test_a_damaged_arrow_file_is_named(tmp_path, write, cells):
    write.saved_dataset(tmp_path, {"image": cells})
    (tmp_path / "data-00000-of-00001.arrow").write_bytes(b"no arrow file")
    with pytest.raises(InputError, match=r"cannot read .*\.arrow as an Arrow file"):
        read_images(tmp_path)
