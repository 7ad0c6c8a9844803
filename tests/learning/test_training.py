"""What both recipes share: what a record says of clusters."""

import numpy as np
import pytest
import torch

from gatcluster.learning.training import Training
from gatcluster.model.network import build_network


def test_changed_and_cluster_sizes_follow_each_images_last_cluster(bars, paper_settings):
    training = Training(bars(4), paper_settings(4, k=2, batch_size=4, sub_batch=2))
    first = training.clustering_figures(np.array([0, 1]), torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
    assert first["changed"] is None
    assert first["cluster_sizes"] == [1, 1]
    second = training.clustering_figures(np.array([0, 1, 2]), torch.tensor([[0.4, 0.6], [0.3, 0.7], [0.6, 0.4]]))
    assert second["changed"] == 0.5  # image 0 of the two that were seen before
    assert second["cluster_sizes"] == [1, 2]
    assert second["mean_confidence"] == pytest.approx((0.6 + 0.7 + 0.6) / 3)


def test_what_a_stage_changed_without_steps_is_not_lost_when_the_training_goes_back(bars, paper_settings):
    settings = paper_settings(4, k=2, batch_size=4, sub_batch=2)
    training, module = Training(bars(4), settings), build_network(settings)
    weight = next(module.parameters())
    training.take_in(module, torch.optim.Adam(module.parameters()))
    for value in (1.0, 2.0):  # as heads are primed
        with torch.no_grad():
            weight.fill_(value)
        training.end_stage()
    with torch.no_grad():
        weight.fill_(3.0)
    for _ in range(3):
        assert not training.allows_step(torch.tensor(torch.nan))
    assert (weight == 2).all()
