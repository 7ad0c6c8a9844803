"""The losses against the paper's equations taken one image, one pair, one cluster at a time."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gatcluster.config import LossWeights
from gatcluster.learning.losses import (
    attention_loss,
    cosine_similarities,
    entropy_loss,
    separability_loss,
    total_loss,
    transformation_loss,
)
from gatcluster.learning.targets import relation_targets

GUARD = 1e-6  # added inside every logarithm
MARGIN = 2 * GUARD  # what the guard may take a bound over


def rows(m, k):
    """Rows that sum to 1, from nearly even to exactly one-hot."""
    logits = st.lists(st.lists(st.floats(-30, 30), min_size=k, max_size=k), min_size=m, max_size=m)
    soft = logits.map(lambda values: torch.softmax(torch.tensor(values, dtype=torch.float64), dim=1))
    hard = st.lists(st.integers(0, k - 1), min_size=m, max_size=m).map(
        lambda ids: torch.eye(k, dtype=torch.float64)[ids]
    )
    return st.one_of(soft, hard)


@st.composite
def batches(draw):
    """Label features, attention label features, two kinds of targets, and relations of m images."""
    m, k = draw(st.integers(1, 6)), draw(st.integers(2, 5))
    clusters = draw(st.lists(st.integers(-1, k - 1), min_size=m, max_size=m))
    relations = relation_targets(torch.tensor(clusters)).double()
    return *(draw(rows(m, k)) for _ in range(4)), relations


def bce(probability, target):
    return -target * math.log(probability + GUARD) - (1 - target) * math.log(max(1 - probability, 0) + GUARD)


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def transformation_by_loop(features, targets):
    m, k = features.shape
    return sum(-sum(features[i, h].item() * targets[i, h].item() for h in range(k)) for i in range(m)) / m


def separability_by_loop(features, relations):
    m = len(features)
    lists = features.tolist()
    return sum(bce(cosine(lists[i], lists[j]), relations[i, j].item()) for i in range(m) for j in range(m)) / m**2


def entropy_by_loop(features):
    m, k = features.shape
    p = [sum(features[i, h].item() for i in range(m)) / m for h in range(k)]
    return sum(p[h] * math.log(p[h] + GUARD) for h in range(k))


def attention_by_loop(features, targets):
    m, k = features.shape
    return sum(sum(bce(features[i, h].item(), targets[i, h].item()) for h in range(k)) / k for i in range(m)) / m


@settings(deadline=None, max_examples=40)
@given(batches())
def test_each_loss_is_its_equation_taken_term_by_term(batch):
    features, attended, balanced, sharpened, relations = batch
    close = {"rel": 1e-6, "abs": 1e-6}
    assert transformation_loss(features, balanced).item() == pytest.approx(transformation_by_loop(features, balanced))
    assert entropy_loss(features).item() == pytest.approx(entropy_by_loop(features), **close)
    assert attention_loss(attended, sharpened).item() == pytest.approx(attention_by_loop(attended, sharpened), **close)
    # A cosine of 1 is known to some 1e-16, its distance from 1 beside the guard of 1e-6 to 1e-10.
    assert separability_loss(features, relations).item() == pytest.approx(
        separability_by_loop(features, relations), **close
    )
    m = len(features)
    for i in range(m):
        for j in range(m):
            expected = cosine(features[i].tolist(), features[j].tolist())
            assert cosine_similarities(features)[i, j].item() == pytest.approx(expected, abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(batches())
def test_total_is_the_weighted_sum_with_the_entropy_of_both_heads(batch):
    features, attended, balanced, sharpened, relations = batch
    weights = LossWeights(relation=2, transformation=3, attention=7, entropy=11)
    losses = total_loss(features, attended, balanced, sharpened, relations, weights)
    assert losses.relation.item() == pytest.approx(separability_loss(features, relations).item())
    assert losses.transformation.item() == pytest.approx(transformation_loss(features, balanced).item())
    assert losses.attention.item() == pytest.approx(attention_loss(attended, sharpened).item())
    assert losses.entropy.item() == pytest.approx(entropy_by_loop(features) + entropy_by_loop(attended), abs=1e-9)
    assert losses.total.item() == pytest.approx(
        2 * losses.relation.item()
        + 3 * losses.transformation.item()
        + 7 * losses.attention.item()
        + 11 * losses.entropy.item(),
        abs=1e-9,
    )


def test_losses_worked_by_hand():
    features = torch.tensor([[1.0, 0.0], [0.6, 0.8]])  # cosine 0.6
    related, apart = torch.ones(2, 2), torch.eye(2)
    assert separability_loss(features, related).item() == pytest.approx(-2 * math.log(0.6) / 4, abs=1e-4)
    assert separability_loss(features, apart).item() == pytest.approx(-2 * math.log(0.4) / 4, abs=1e-4)
    mixed = torch.tensor([[0.5, 0.5], [0.25, 0.75]])
    targets = torch.tensor([[0.8, 0.2], [0.0, 1.0]])
    assert transformation_loss(mixed, targets).item() == pytest.approx(-(0.5 + 0.75) / 2)
    # p = (0.375, 0.625)
    assert entropy_loss(mixed).item() == pytest.approx(0.375 * math.log(0.375) + 0.625 * math.log(0.625), abs=1e-4)
    # Row 1: log 2 for each of the clusters, whatever the target. Row 2: -log 0.75 for each.
    assert attention_loss(mixed, targets).item() == pytest.approx((math.log(2) - math.log(0.75)) / 2, abs=1e-4)


def test_total_worked_by_hand_with_the_papers_weights():
    corners = torch.eye(2)
    losses = total_loss(corners, corners, corners, corners, torch.eye(2), LossWeights())
    # Sure, apart and even: L_R = 0, L_T = -1, L_A = 0, L_E = -log 2 of each head; 1, 5, 5, 3 are the paper's weights.
    assert losses.total.item() == pytest.approx(-5 - 3 * 2 * math.log(2), abs=1e-4)


@settings(deadline=None, max_examples=40)
@given(batches())
def test_losses_stay_within_their_ranges(batch):
    features, attended, balanced, sharpened, relations = batch
    k = features.shape[1]
    assert -1 - 1e-9 <= transformation_loss(features, balanced).item() <= 1e-9
    assert -math.log(k) - 1e-9 <= entropy_loss(features).item() <= MARGIN
    worst = -math.log(GUARD) + MARGIN
    assert -MARGIN <= separability_loss(features, relations).item() <= worst
    assert -MARGIN <= attention_loss(attended, sharpened).item() <= worst
    similarities = cosine_similarities(features)
    assert ((similarities >= 0) & (similarities <= 1 + 1e-9)).all()
    torch.testing.assert_close(similarities, similarities.T)
    torch.testing.assert_close(similarities.diagonal(), torch.ones(len(features), dtype=torch.float64))


@settings(deadline=None, max_examples=40)
@given(batches(), st.randoms(use_true_random=False))
def test_losses_do_not_care_for_the_order_of_images_or_clusters(batch, random):
    features, attended, balanced, sharpened, relations = batch
    m, k = features.shape
    i, h = random.sample(range(m), m), random.sample(range(k), k)
    before = total_loss(features, attended, balanced, sharpened, relations, LossWeights())
    rows_moved = total_loss(features[i], attended[i], balanced[i], sharpened[i], relations[i][:, i], LossWeights())
    columns_moved = total_loss(
        features[:, h], attended[:, h], balanced[:, h], sharpened[:, h], relations, LossWeights()
    )
    for moved in (rows_moved, columns_moved):
        torch.testing.assert_close(torch.stack(moved), torch.stack(before), rtol=1e-6, atol=1e-6)


def test_losses_do_not_depend_on_the_size_of_the_sub_batch():
    features = torch.tensor([[0.7, 0.3], [0.2, 0.8]])
    clusters = torch.tensor([0, 1])
    twice = torch.cat([features, features])
    targets, both = torch.tensor([[1.0, 0.0], [0.4, 0.6]]), torch.tensor([0, 1, 0, 1])
    one = total_loss(features, features, targets, targets, relation_targets(clusters), LossWeights())
    two = total_loss(twice, twice, targets.repeat(2, 1), targets.repeat(2, 1), relation_targets(both), LossWeights())
    torch.testing.assert_close(torch.stack(one), torch.stack(two))


# Contradictions on purpose: images with equal label features that should differ, and the other way round.
HARD = {
    "one-hot, as related": (torch.eye(3), torch.eye(3)),
    "one-hot, all related": (torch.eye(3), torch.ones(3, 3)),
    "one-hot, all the same": (torch.eye(3)[[0, 0, 0]], torch.ones(3, 3)),
    "one-hot, the same but apart": (torch.eye(3)[[0, 0, 0]], torch.eye(3)),
    "uniform, all related": (torch.full((3, 3), 1 / 3), torch.ones(3, 3)),
    "uniform, apart": (torch.full((3, 3), 1 / 3), torch.eye(3)),
}


@pytest.mark.parametrize("target", ["same", "opposite", "uniform"])
@pytest.mark.parametrize("case", HARD)
def test_values_and_gradients_are_finite_at_the_edges(case, target):
    corners, relations = HARD[case]
    targets = {"same": corners, "opposite": corners.roll(1, dims=1), "uniform": torch.full((3, 3), 1 / 3)}[target]
    features, attended = corners.clone().requires_grad_(), corners.clone().requires_grad_()
    losses = total_loss(features, attended, targets, targets, relations, LossWeights())
    losses.total.backward()
    assert all(torch.isfinite(loss) for loss in losses)
    assert torch.isfinite(features.grad).all()
    assert torch.isfinite(attended.grad).all()


@settings(deadline=None, max_examples=40)
@given(
    st.integers(2, 5).flatmap(
        lambda k: st.lists(st.lists(st.floats(-1e4, 1e4, width=32), min_size=k, max_size=k), min_size=2, max_size=5)
    ),
    st.booleans(),
)
def test_gradients_are_finite_through_a_softmax_of_any_logits(logits, related):
    numbers = torch.tensor(logits, dtype=torch.float32, requires_grad=True)
    features = torch.softmax(numbers, dim=1)
    m = len(logits)
    relations = torch.ones(m, m) if related else torch.eye(m)
    targets = features.detach().roll(1, dims=0)
    losses = total_loss(features, features, targets, targets, relations, LossWeights())
    losses.total.backward()
    assert torch.isfinite(losses.total)
    assert torch.isfinite(numbers.grad).all()


def test_gradients_agree_with_finite_differences():
    logits = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    targets = torch.softmax(logits.flip(0), dim=1)
    relations = relation_targets(torch.tensor([0, 1, 0, 2])).double()

    def total(numbers):
        features, attended = torch.softmax(numbers, dim=1), torch.softmax(-numbers, dim=1)
        return total_loss(features, attended, targets, targets, relations, LossWeights()).total

    assert torch.autograd.gradcheck(total, logits.requires_grad_())


def step_against(loss, features):
    features = features.clone().requires_grad_()
    loss(features).backward()
    return (features - 0.01 * features.grad).detach()


def test_each_loss_pulls_the_way_the_paper_says():
    two = torch.tensor([[0.7, 0.3], [0.4, 0.6]])
    before = cosine_similarities(two)[0, 1]
    assert cosine_similarities(step_against(lambda x: separability_loss(x, torch.ones(2, 2)), two))[0, 1] > before
    assert cosine_similarities(step_against(lambda x: separability_loss(x, torch.eye(2)), two))[0, 1] < before
    lopsided = torch.tensor([[0.9, 0.1], [0.8, 0.2]])
    moved = step_against(entropy_loss, lopsided) - lopsided
    assert (moved[:, 1] > moved[:, 0]).all()  # towards the cluster that is used less
    target = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    for loss in (transformation_loss, attention_loss):
        moved = step_against(lambda x, loss=loss: loss(x, target), two) - two
        assert (moved[:, 1] > moved[:, 0]).all()
