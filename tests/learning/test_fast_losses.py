"""The tasks as `fast` poses them, against loops: what a doubtful target may and may not do."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gatcluster.config import LossWeights
from gatcluster.learning.fast_losses import (
    fast_total_loss,
    log_transformation_loss,
    prior_entropy_loss,
    weighted_separability_loss,
)
from gatcluster.learning.losses import attention_loss, entropy_loss
from gatcluster.learning.targets import relation_targets, sharpened_targets


@st.composite
def batches(draw):
    """Label features (m, k), parts and confidences (m,)."""
    m, k = draw(st.integers(1, 7)), draw(st.integers(2, 5))
    logits = draw(st.lists(st.lists(st.floats(-5, 5), min_size=k, max_size=k), min_size=m, max_size=m))
    parts = draw(st.lists(st.integers(0, k - 1), min_size=m, max_size=m))
    confidence = draw(st.lists(st.floats(0, 1), min_size=m, max_size=m))
    features = torch.softmax(torch.tensor(logits, dtype=torch.float64), dim=1)
    return features, torch.tensor(parts), torch.tensor(confidence, dtype=torch.float64)


def separability_by_loop(features, parts, confidence):
    rows, m = features.tolist(), len(features)
    sums, weights = {True: 0.0, False: 0.0}, {True: 0.0, False: 0.0}
    for i in range(m):
        for j in range(m):
            related = i == j or parts[i] == parts[j]
            d = sum(a * b for a, b in zip(rows[i], rows[j], strict=True)) / (
                math.hypot(*rows[i]) * math.hypot(*rows[j])
            )
            likelihood = min(max(d if related else 1 - d, 0), 1 - 1e-4)
            weight = confidence[i] * confidence[j]
            sums[related] -= weight * math.log(likelihood + 1e-4)
            weights[related] += weight
    return sum(sums[related] / max(1, weights[related]) for related in (True, False)) / 2


@settings(deadline=None, max_examples=60)
@given(batches())
def test_log_transformation_loss_is_the_weighted_mean_of_the_logarithms(batch):
    features, parts, confidence = batch
    summed = sum(-c * math.log(row[p] + 1e-6) for row, p, c in zip(*(x.tolist() for x in batch), strict=True))
    expected = summed / max(1, sum(confidence.tolist()))
    assert log_transformation_loss(features, parts, confidence).item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(batches())
def test_weighted_separability_loss_is_its_definition_at_every_pair(batch):
    features, parts, confidence = batch
    expected = separability_by_loop(features, parts.tolist(), confidence.tolist())
    loss = weighted_separability_loss(features, relation_targets(parts).double(), confidence)
    assert loss.item() == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert loss.item() >= 0


@settings(deadline=None, max_examples=60)
@given(batches(), st.data())
def test_prior_entropy_loss_is_the_divergence_from_the_prior(batch, data):
    features, _, _ = batch
    m, k = features.shape
    sizes = data.draw(st.lists(st.integers(1, 50), min_size=k, max_size=k))
    prior = [size / sum(sizes) for size in sizes]
    p = [sum(row[h] for row in features.tolist()) / m for h in range(k)]
    expected = sum(p[h] * math.log((p[h] + 1e-6) / prior[h]) for h in range(k))
    loss = prior_entropy_loss(features, torch.tensor(prior, dtype=torch.float64))
    assert loss.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert loss.item() >= -1e-9


def test_log_transformation_worked_by_hand():
    features = torch.tensor([[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]])
    parts, confidence = torch.tensor([0, 1, 1]), torch.tensor([1.0, 1.0, 0.5])
    expected = (math.log(1 / 0.5) + math.log(1 / 0.8) + 0.5 * math.log(1 / 0.1)) / 2.5
    assert log_transformation_loss(features, parts, confidence).item() == pytest.approx(expected, rel=1e-4)


def test_separability_worked_by_hand():
    # Cosines 0.6 (1 and 2), 0 (1 and 3), 0.8 (2 and 3). Images 1 and 2 are related.
    features = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    relations = relation_targets(torch.tensor([0, 0, 1]))
    related = -2 * math.log(0.6) / 5  # of 5 related pairs, 3 with themselves
    unrelated = -2 * math.log(0.2) / 4
    loss = weighted_separability_loss(features, relations, torch.ones(3))
    assert loss.item() == pytest.approx((related + unrelated) / 2, abs=1e-3)


@settings(deadline=None, max_examples=40)
@given(batches())
def test_with_an_even_prior_the_paper_s_entropy_is_what_is_left(batch):
    features, _, _ = batch
    k = features.shape[1]
    even = torch.full((k,), 1 / k, dtype=torch.float64)
    assert prior_entropy_loss(features, even).item() == pytest.approx(entropy_loss(features).item() + math.log(k))


def test_clusters_used_as_expected_cost_nothing():
    prior = torch.tensor([0.7, 0.2, 0.1])
    assert prior_entropy_loss(prior.expand(5, 3), prior).item() == pytest.approx(0, abs=1e-5)
    one_hot = torch.eye(3)[[0] * 7 + [1] * 2 + [2]]
    assert prior_entropy_loss(one_hot, prior).item() == pytest.approx(0, abs=1e-4)
    assert prior_entropy_loss(one_hot, prior.flip(0)) > 0.5


@settings(deadline=None, max_examples=40)
@given(batches(), st.data())
def test_images_of_no_confidence_are_ignored(batch, data):
    features, parts, confidence = batch
    k = features.shape[1]
    strangers = data.draw(st.lists(st.integers(0, k - 1), min_size=1, max_size=4))
    more_features = torch.cat([features, torch.eye(k, dtype=torch.float64)[strangers]])
    more_parts = torch.cat([parts, (torch.tensor(strangers) + 1) % k])
    more_confidence = torch.cat([confidence, torch.zeros(len(strangers), dtype=torch.float64)])
    torch.testing.assert_close(
        log_transformation_loss(more_features, more_parts, more_confidence),
        log_transformation_loss(features, parts, confidence),
    )
    torch.testing.assert_close(
        weighted_separability_loss(more_features, relation_targets(more_parts).double(), more_confidence),
        weighted_separability_loss(features, relation_targets(parts).double(), confidence),
    )


def test_the_few_related_pairs_count_as_much_as_the_many_unrelated_ones():
    # Even features: every cosine is 1. One image in each of ten parts: 10 related pairs, right; 90 unrelated, wrong.
    even = torch.full((10, 10), 0.1)
    apart = weighted_separability_loss(even, torch.eye(10), torch.ones(10))
    assert apart.item() == pytest.approx(-math.log(1e-4) / 2, rel=1e-3)
    # The other way round: one-hot features of images that all belong together.
    together = weighted_separability_loss(torch.eye(10), torch.ones(10, 10), torch.ones(10))
    assert together.item() == pytest.approx(-math.log(1e-4) * 0.9 / 2, rel=1e-3)


def test_a_pair_that_is_good_enough_no_longer_pulls():
    features = torch.eye(2)[[0, 0, 1]].requires_grad_()
    weighted_separability_loss(features, relation_targets(torch.tensor([0, 0, 1])), torch.ones(3)).backward()
    torch.testing.assert_close(features.grad, torch.zeros(3, 2))


def test_the_task_pulls_harder_the_farther_an_image_is_from_its_part():
    features = torch.tensor([[0.999, 0.001], [0.5, 0.5]], requires_grad=True)
    log_transformation_loss(features, torch.tensor([1, 1]), torch.ones(2)).backward()
    assert features.grad[0, 1] < 100 * features.grad[1, 1] < 0


def test_total_is_the_weighted_sum_of_the_four_tasks():
    logits = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    features, attended = torch.softmax(logits, dim=2)
    parts, confidence = torch.tensor([0, 1, 2, 0, 1, 1]), torch.tensor([1.0, 0.5, 0.0, 0.9, 0.3, 1.0])
    prior = torch.tensor([0.5, 0.3, 0.2])
    weights = LossWeights(relation=2, transformation=3, attention=5, entropy=7)
    losses = fast_total_loss(features, attended, parts, confidence, prior, weights)
    torch.testing.assert_close(
        losses.relation, weighted_separability_loss(features, relation_targets(parts), confidence)
    )
    torch.testing.assert_close(losses.transformation, log_transformation_loss(features, parts, confidence))
    torch.testing.assert_close(losses.attention, attention_loss(attended, sharpened_targets(features)))
    both = prior_entropy_loss(features, prior) + prior_entropy_loss(attended, prior)
    torch.testing.assert_close(losses.entropy, both)
    summed = 2 * losses.relation + 3 * losses.transformation + 5 * losses.attention + 7 * losses.entropy
    torch.testing.assert_close(losses.total, summed)


def test_the_attention_task_teaches_the_attention_head_alone():
    logits = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    features, attended = (torch.softmax(x, dim=1).requires_grad_() for x in logits)
    parts, prior = torch.tensor([0, 1, 2, 0]), torch.full((3,), 1 / 3)
    only_attention = LossWeights(relation=0, transformation=0, attention=1, entropy=0)
    fast_total_loss(features, attended, parts, torch.ones(4), prior, only_attention).total.backward()
    assert features.grad is None or not features.grad.any()
    assert attended.grad.any()


HARD = {
    "one-hot, right": (torch.eye(3), torch.tensor([0, 1, 2])),
    "one-hot, wrong": (torch.eye(3), torch.tensor([1, 2, 0])),
    "one-hot, one part": (torch.eye(3), torch.tensor([1, 1, 1])),
    "all in one cluster, three parts": (torch.eye(3)[[0, 0, 0]], torch.tensor([0, 1, 2])),
    "uniform": (torch.full((3, 3), 1 / 3), torch.tensor([0, 0, 1])),
}


@pytest.mark.parametrize("trust", [0.0, 1e-4, 1.0])
@pytest.mark.parametrize("case", HARD)
def test_values_and_gradients_are_finite_at_the_edges(case, trust):
    corners, parts = HARD[case]
    features, attended = corners.clone().requires_grad_(), corners.clone().requires_grad_()
    prior = torch.tensor([0.98, 0.01, 0.01])
    losses = fast_total_loss(features, attended, parts, torch.full((3,), trust), prior, LossWeights())
    losses.total.backward()
    assert all(torch.isfinite(loss) for loss in losses)
    assert torch.isfinite(features.grad).all()
    assert torch.isfinite(attended.grad).all()
    if trust == 0:
        assert losses.relation == losses.transformation == 0


def test_gradients_agree_with_finite_differences():
    logits = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    parts, confidence = torch.tensor([0, 1, 0, 2]), torch.tensor([1.0, 0.7, 0.9, 0.8], dtype=torch.float64)
    prior = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    attended = torch.softmax(logits.flip(0), dim=1)
    weights = LossWeights(attention=0)  # its targets are taken as given, which finite differences would not do

    def total(numbers):
        return fast_total_loss(torch.softmax(numbers, dim=1), attended, parts, confidence, prior, weights).total

    assert torch.autograd.gradcheck(total, logits.requires_grad_())
