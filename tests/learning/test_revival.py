"""Reviving empty clusters: when, with what, and when not."""

import numpy as np
import pytest
import torch

from gatcluster.config import ImageSettings, make_settings
from gatcluster.learning.neighbours import Partition
from gatcluster.learning.revival import EmptyClusters, revive_output, with_all_parts
from gatcluster.model.network import build_network


def revived(sizes_at: list[list[int]], begin: float, distance: float) -> list[list[int]]:
    empty = EmptyClusters()
    return [empty.to_revive(sizes, begin + i * distance) for i, sizes in enumerate(sizes_at)]


def test_a_cluster_that_stays_empty_is_revived_in_the_second_half_and_again_only_after_as_long():
    found = revived([[95, 0, 5]] * 100, 0.0, 0.01)
    when = [i for i, clusters in enumerate(found) if clusters]
    assert when == [50, 76]
    assert found[50] == [1]


def test_one_that_fills_by_itself_or_is_empty_for_a_short_time_is_left_alone():
    sizes = [[95, 0, 5] if i % 20 else [94, 1, 5] for i in range(100)]
    assert not any(revived(sizes, 0.0, 0.01))


def test_while_others_hold_groups_of_their_own_an_empty_one_is_left_alone():
    assert not any(revived([[60, 0, 40]] * 100, 0.0, 0.01))


@pytest.mark.parametrize(("begin", "distance"), [(0.0, 0.004), (0.91, 0.001), (0.6, 0.03)])
def test_not_early_not_late_and_not_after_few_iterations(begin, distance):
    n = 12 if distance == 0.03 else 90
    assert not any(revived([[95, 0, 5]] * n, begin, distance))


def test_the_count_goes_on_from_its_state():
    first, second = EmptyClusters(), EmptyClusters()
    for i in range(40):
        first.to_revive([95, 0, 5], 0.01 * i)
    second.restore(first.state())
    found = [second.to_revive([95, 0, 5], 0.01 * i) for i in range(40, 60)]
    assert [i for i, clusters in enumerate(found, 40) if clusters] == [50]


def test_a_revived_output_shares_the_images_of_the_largest():
    images = ImageSettings(size=(8, 8), channels=1, grey=False, augment="none")
    network = build_network(make_settings(n_clusters=3, n_images=100, images=images, seed=0, epochs=1)).eval()
    last = network.label_head.classifier[4]
    with torch.no_grad():
        last.weight[2] *= 4  # all images in cluster 2, none in cluster 0
        last.bias.copy_(torch.tensor([-50.0, 0.0, 20.0]))
    inputs = torch.rand(200, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    before = network.label_features(inputs).argmax(dim=1)
    assert (before == 2).all()
    revive_output(network, empty=0, largest=2, seed=0)
    with torch.no_grad():
        features = network.label_features(inputs)
    assert features[:, 0].mean() > 0.05
    assert features[:, 2].mean() > 0.05
    assert features[:, 1].max() < 0.01
    assert torch.isfinite(features).all()


def test_an_empty_part_gets_one_half_of_the_largest():
    embedding = torch.tensor([[1.0, 0.0]] * 6 + [[0.0, 1.0]] * 4 + [[-1.0, 0.0]] * 3)
    parts = np.array([0] * 10 + [1] * 3)
    confidence = np.ones(13, np.float32)
    whole, which = with_all_parts(Partition(parts, confidence), embedding, 3, seed=0)
    assert which == [2]
    assert sorted(np.bincount(whole.parts, minlength=3).tolist()) == [3, 4, 6]
    assert len(set(whole.parts[:6])) == len(set(whole.parts[6:10])) == 1
    np.testing.assert_array_equal(whole.parts[10:], 1)
    np.testing.assert_array_equal(parts, [0] * 10 + [1] * 3)  # what was given is left as it was


def test_images_that_are_all_alike_are_not_torn_apart():
    partition = Partition(np.zeros(10, np.int64), np.ones(10, np.float32))
    whole, which = with_all_parts(partition, torch.ones(10, 4), 3, seed=0)
    assert which == []
    np.testing.assert_array_equal(whole.parts, 0)


def test_a_partition_without_empty_parts_is_left_as_it_is():
    partition = Partition(np.array([0, 1, 2, 0]), np.ones(4, np.float32))
    whole, which = with_all_parts(partition, torch.rand(4, 4), 3, seed=0)
    assert which == []
    assert whole.parts is partition.parts
