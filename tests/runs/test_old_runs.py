"""A run that this version wrote is kept here: later versions must load it, or refuse it by the name of its version."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from gatcluster import GATCluster
from gatcluster.errors import InputError
from gatcluster.runs.folder import load_run

FIXTURES = Path(__file__).parents[1] / "fixtures"


def test_a_run_of_version_1_loads_and_predicts_its_clusters():
    run = FIXTURES / "run-v1"
    images = np.load(FIXTURES / "run-v1-images.npy")
    model = GATCluster.load(run)
    _, clusters = load_run(run).clusters()
    assert sorted(np.bincount(clusters)) == [8, 8, 8]
    np.testing.assert_array_equal(model.predict(images), clusters)
    np.testing.assert_allclose(model.predict_proba(images), load_run(run).label_features(), atol=1e-4)
    assert [record.epoch for record in model.history_][-1] == 12
    assert model.snapshots_.features.shape[1:] == (24, 3)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99, "versions": {"gatcluster": "9.9.9"}},
        {"settings": {"a": "setting of the future"}, "versions": {"gatcluster": "9.9.9"}},
    ],
)
def test_what_a_later_version_wrote_is_refused_by_the_name_of_that_version(tmp_path, change):
    shutil.copytree(FIXTURES / "run-v1", tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=r"gatcluster 9\.9\.9"):
        GATCluster.load(tmp_path / "run")
