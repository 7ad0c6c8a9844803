from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from gatcluster.data.formats.cifar import (
    cifar10_images,
    cifar10_labels,
    cifar100_coarse_labels,
    cifar100_images,
    cifar100_labels,
)
from gatcluster.data.sources import read_images
from gatcluster.errors import InputError


def test_the_batches_are_read_in_their_order_with_upright_colour_images(tmp_path, write):
    images = write.pixels(7)
    write.cifar_binary(tmp_path / "test_batch.bin", images[5:], [1, 2])
    write.cifar_binary(tmp_path / "data_batch_2.bin", images[3:5], [3, 4])
    write.cifar_binary(tmp_path / "data_batch_1.bin", images[:3], [5, 6, 7])
    read = read_images(tmp_path)
    assert np.array_equal(read.pixels[:], images)
    assert read.names == [f"data_batch_1:{i}" for i in range(3)] + [f"data_batch_2:{i}" for i in range(2)] + [
        "test_batch:0",
        "test_batch:1",
    ]
    assert cifar10_labels(tmp_path) == list(zip(read.names, "5673412", strict=True))


def test_a_pixel_lies_where_the_publisher_says(tmp_path):
    record = bytearray(3073)
    record[0] = 9
    record[1 + 1024 + 2 * 32 + 5] = 200  # the green plane, third row, sixth column
    (tmp_path / "data_batch_1.bin").write_bytes(record)
    pixels = cifar10_images(tmp_path).parts[0]
    assert pixels[0, 2, 5].tolist() == [0, 200, 0]
    assert pixels.sum() == 200


def test_both_versions_give_the_same_images_names_and_labels(tmp_path, write):
    images, labels = write.pixels(4), [3, 1, 4, 1]
    write.cifar_binary(tmp_path / "bin" / "data_batch_1.bin", images, labels)
    write.cifar_python(tmp_path / "py" / "data_batch_1", images, labels=labels)
    binary, python = cifar10_images(tmp_path / "bin"), cifar10_images(tmp_path / "py")
    assert np.array_equal(binary.parts[0], python.parts[0])
    assert np.array_equal(python.parts[0], images)
    assert binary.names == python.names
    assert cifar10_labels(tmp_path / "bin") == cifar10_labels(tmp_path / "py")


def test_cifar_100_has_fine_and_coarse_labels_in_both_versions(tmp_path, write):
    images, coarse, fine = write.pixels(3), [19, 0, 5], [99, 50, 7]
    write.cifar_binary(tmp_path / "bin" / "train.bin", images, coarse, fine)
    write.cifar_python(tmp_path / "py" / "train", images, coarse_labels=coarse, fine_labels=fine)
    for folder in (tmp_path / "bin", tmp_path / "py"):
        assert np.array_equal(cifar100_images(folder).parts[0], images)
        assert [label for _, label in cifar100_labels(folder)] == ["99", "50", "7"]
        assert [label for _, label in cifar100_coarse_labels(folder)] == ["19", "0", "5"]
        assert [name for name, _ in cifar100_labels(folder)] == ["train:0", "train:1", "train:2"]


def test_where_both_versions_lie_in_one_folder_each_batch_is_read_once(tmp_path, write):
    images = write.pixels(4)
    write.cifar_binary(tmp_path / "data_batch_1.bin", images[:2], [0, 1])
    write.cifar_python(tmp_path / "data_batch_1", images[:2], labels=[0, 1])
    write.cifar_python(tmp_path / "test_batch", images[2:], labels=[0, 1])
    assert cifar10_images(tmp_path).names == ["data_batch_1:0", "data_batch_1:1", "test_batch:0", "test_batch:1"]


def test_binary_batches_stay_on_disk(tmp_path, write):
    write.cifar_binary(tmp_path / "data_batch_1.bin", write.pixels(4), [0] * 4)
    part = cifar10_images(tmp_path).parts[0]
    while part.base is not None and not isinstance(part, np.memmap):
        part = part.base
    assert isinstance(part, np.memmap)


@pytest.mark.parametrize("size", [0, 1, 3072, 3074, 2 * 3073 - 1])
def test_a_batch_that_is_cut_off_is_named(tmp_path, size):
    (tmp_path / "data_batch_1.bin").write_bytes(bytes(size))
    with pytest.raises(InputError, match=r"data_batch_1\.bin is not a whole CIFAR batch"):
        cifar10_images(tmp_path)


class Surprise:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
def test_a_pickle_that_wants_to_run_something_is_refused_and_runs_nothing(tmp_path, protocol):
    touched = tmp_path / "touched"
    batch = {b"data": Surprise(touched), b"labels": [1]}
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(batch, protocol=protocol))
    with pytest.raises(InputError, match="refused to read a pickle that asks for"):
        cifar10_images(tmp_path)
    assert not touched.exists()


@pytest.mark.parametrize(
    "name", ["builtins.eval", "os.system", "numpy.load", "numpy.core.multiarray.scalar", "_codecs.lookup"]
)
def test_no_name_beyond_those_of_an_array_of_bytes_is_admitted(tmp_path, name):
    module, _, attribute = name.rpartition(".")
    (tmp_path / "data_batch_1").write_bytes(f"c{module}\n{attribute}\n.".encode())
    with pytest.raises(InputError, match=rf"refused to read a pickle that asks for {name}"):
        cifar10_images(tmp_path)


@pytest.mark.parametrize(
    "batch",
    [
        {b"data": np.zeros((2, 10), np.uint8)},
        {b"data": np.zeros((2, 3072), np.float32)},
        {b"data": np.array([{}, {}], dtype=object)},
        {b"data": [1, 2]},
        {b"labels": [1, 2]},
        [1, 2],
    ],
)
def test_a_pickle_of_something_else_is_named(tmp_path, batch):
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(batch, protocol=2))
    with pytest.raises(InputError, match="data_batch_1"):
        cifar10_images(tmp_path)


def test_a_python_batch_cut_off_anywhere_is_named(tmp_path, write):
    path = write.cifar_python(tmp_path / "data_batch_1", write.pixels(2), labels=[0, 1])
    content = path.read_bytes()
    for keep in [0, 1, 10, 100, len(content) // 2, len(content) - 1]:
        path.write_bytes(content[:keep])
        with pytest.raises(InputError, match="data_batch_1"):
            cifar10_images(tmp_path)


def test_one_batch_may_be_given_by_itself(tmp_path, write):
    path = write.cifar_binary(tmp_path / "data_batch_3.bin", write.pixels(2), [0, 1])
    assert read_images(path).names == ["data_batch_3:0", "data_batch_3:1"]


def test_a_folder_without_batches_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no CIFAR batches in .*data_batch_1\.bin"):
        cifar10_images(tmp_path)
