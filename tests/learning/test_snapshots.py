"""Snapshots: which images, how many moments, and that looking changes nothing."""

import numpy as np
import pytest

from gatcluster.config import ImageSettings, make_settings
from gatcluster.data.images import ImageSet
from gatcluster.learning.fit import fit
from gatcluster.learning.snapshots import MOST_IMAGES, SnapshotKeeper
from gatcluster.model.inference import label_features
from gatcluster.model.network import build_network


def settings_for(n: int, side: int = 8, **choices):
    form = ImageSettings(size=(side, side), channels=1, grey=False, augment="none")
    return make_settings(n_clusters=3, n_images=n, images=form, seed=0, device="cpu", **choices)


@pytest.mark.parametrize(("n", "side", "count"), [(48, 8, 48), (3000, 8, MOST_IMAGES), (600, 96, 2**21 // 96**2)])
def test_a_sample_is_bounded_in_images_and_in_pixels(n, side, count):
    images = ImageSet(np.zeros((n, side, side, 1), np.uint8), [str(i) for i in range(n)])
    keeper = SnapshotKeeper(images, settings_for(n, side, epochs=1))
    sample = keeper.finished(np.zeros((n, 3), np.float32)).images
    assert len(sample) == len(np.unique(sample)) == count
    assert (np.diff(sample) > 0).all()
    assert sample.max() < n


def test_a_snapshot_holds_the_label_features_of_the_sample(bars):
    images, settings = bars(), settings_for(48, epochs=1, recipe="paper")
    network = build_network(settings)
    keeper = SnapshotKeeper(images, settings)
    keeper.look(network, "start", 0.0)
    keeper.look(network, "clustering", 0.05)  # not due yet
    keeper.look(network, "clustering", 0.11)
    features = label_features(network, images, settings)
    snapshots = keeper.finished(1 - features)
    assert snapshots.stages == ["start", "clustering", "finished"]
    assert snapshots.progress == [0.0, 0.11, 1.0]
    np.testing.assert_allclose(snapshots.features[0], features[snapshots.images], atol=1e-3)
    np.testing.assert_allclose(snapshots.features[2], 1 - features[snapshots.images], atol=1e-3)


@pytest.mark.filterwarnings("ignore:only . of the 3 clusters")  # of a run this short
@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_a_fit_keeps_snapshots_from_the_start_to_the_finished_network(bars, recipe):
    result = fit(bars(), settings_for(48, epochs=12, recipe=recipe))
    snapshots = result.snapshots
    assert snapshots.stages[0] == "start"
    assert snapshots.stages[-1] == "finished"
    assert "clustering" in snapshots.stages
    assert 4 <= len(snapshots.stages) <= 13
    assert snapshots.progress == sorted(snapshots.progress)
    assert (snapshots.progress[0], snapshots.progress[-1]) == (0.0, 1.0)
    np.testing.assert_allclose(snapshots.features.sum(axis=2), 1, atol=2e-3)
    np.testing.assert_allclose(snapshots.features[-1], result.label_features[snapshots.images], atol=1e-3)
