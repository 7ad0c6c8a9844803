"""``snapshots.npz``: written and read back, and refused when damaged."""

import numpy as np
import pytest

from gatcluster.errors import InputError
from gatcluster.learning.snapshots import Snapshots
from gatcluster.runs.snapshots import read_snapshots, write_snapshots


def made(images=(0, 2, 4), moments=2, k=3) -> Snapshots:
    features = np.random.default_rng(0).random((moments, len(images), k)).astype(np.float16)
    return Snapshots(np.array(images), ["start", "finished"], [0.0, 1.0], features)


def test_what_was_written_is_read(tmp_path):
    write_snapshots(tmp_path / "s.npz", made())
    back = read_snapshots(tmp_path / "s.npz", n_images=5, n_clusters=3)
    np.testing.assert_array_equal(back.images, [0, 2, 4])
    np.testing.assert_array_equal(back.features, made().features)
    assert (back.stages, back.progress) == (["start", "finished"], [0.0, 1.0])


def test_a_run_without_snapshots_has_none(tmp_path):
    assert read_snapshots(tmp_path / "s.npz", n_images=5, n_clusters=3) is None


@pytest.mark.parametrize(
    ("snapshots", "n_images", "n_clusters"),
    [(made(), 4, 3), (made(), 5, 4), (made(moments=3), 5, 3), (made(images=(-1, 2, 4)), 5, 3)],
)
def test_what_does_not_fit_the_run_is_refused(tmp_path, snapshots, n_images, n_clusters):
    write_snapshots(tmp_path / "s.npz", snapshots)
    with pytest.raises(InputError, match="cannot read"):
        read_snapshots(tmp_path / "s.npz", n_images, n_clusters)


@pytest.mark.parametrize("length", [0, 10, 100, 200])
def test_a_file_cut_short_is_refused(tmp_path, length):
    path = tmp_path / "s.npz"
    write_snapshots(path, made())
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(InputError, match="cannot read"):
        read_snapshots(path, 5, 3)
