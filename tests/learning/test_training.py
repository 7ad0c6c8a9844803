"""What both recipes share: what a record says of clusters."""

import numpy as np
import pytest
import torch

from gatcluster.learning.training import Training


def test_changed_and_cluster_sizes_follow_each_images_last_cluster(bars, paper_settings):
    training = Training(bars(4), paper_settings(4, k=2, batch_size=4, sub_batch=2))
    first = training.clustering_figures(np.array([0, 1]), torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
    assert first["changed"] is None
    assert first["cluster_sizes"] == [1, 1]
    second = training.clustering_figures(np.array([0, 1, 2]), torch.tensor([[0.4, 0.6], [0.3, 0.7], [0.6, 0.4]]))
    assert second["changed"] == 0.5  # image 0 of the two that were seen before
    assert second["cluster_sizes"] == [1, 2]
    assert second["mean_confidence"] == pytest.approx((0.6 + 0.7 + 0.6) / 3)
