"""The order of images: every epoch has all of them, and an order that was kept goes on."""

import numpy as np
import pytest

from gatcluster.learning.batches import RandomBatches


@pytest.mark.parametrize(("n", "m"), [(12, 4), (14, 4), (5, 5), (7, 2)])
def test_every_epoch_has_all_different_images_in_a_new_order(n, m):
    batches = RandomBatches(n, m, np.random.default_rng(0))
    epochs = [np.stack([next(batches) for _ in range(n // m)]) for _ in range(4)]
    for epoch in epochs:
        assert epoch.shape == (n // m, m)
        assert len(np.unique(epoch)) == epoch.size
        assert 0 <= epoch.min() <= epoch.max() < n
    assert any(not np.array_equal(epochs[0], other) for other in epochs[1:])


@pytest.mark.parametrize("taken", range(8))
def test_an_order_that_was_kept_goes_on_in_the_middle(taken):
    batches = RandomBatches(14, 4, np.random.default_rng(0))
    for _ in range(taken):
        next(batches)
    random = np.random.default_rng()
    random.bit_generator.state = batches._random.bit_generator.state
    again = RandomBatches(14, 4, random)
    again.restore(batches.state())
    for _ in range(8):
        np.testing.assert_array_equal(next(again), next(batches))


@pytest.mark.parametrize(
    "state",
    [
        {"order": np.array([0, 1, 2, 2]), "next": 0},
        {"order": np.array([0, 1, 2]), "next": 0},
        {"order": np.array([0, 1, 2, 3]), "next": 5},
        {"order": np.array([0, 1, 2, 3]), "next": -1},
    ],
)
def test_what_is_no_order_of_these_images_is_refused(state):
    with pytest.raises(ValueError, match=r"no order of 4 images|no position"):
        RandomBatches(4, 2, np.random.default_rng(0)).restore(state)
