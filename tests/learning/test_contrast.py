"""The contrastive loss against its definition taken one pair at a time: who has to be found, and among whom."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gatcluster.learning.contrast import contrastive_loss, projection_head


def loss_by_loop(views, temperature, parts=None):
    """For each view: -log of its partner's share among all others it has to be told apart from."""
    n_views = len(views)
    lengths = [math.sqrt(sum(x * x for x in view)) for view in views]

    def weight(i, j):
        cosine = sum(a * b for a, b in zip(views[i], views[j], strict=True)) / (lengths[i] * lengths[j])
        return math.exp(cosine / temperature)

    losses = []
    for i in range(n_views):
        partner = (i + n_views // 2) % n_views
        total = 0.0
        for j in range(n_views):
            same_part = parts is not None and parts[i] >= 0 and parts[i] == parts[j]
            if j == partner or (j != i and not same_part):
                total += weight(i, j)
        losses.append(-math.log(weight(i, partner) / total))
    return sum(losses) / n_views


def random_views(n, d=4, seed=0):
    return torch.randn(2 * n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("with_parts", [False, True])
@settings(deadline=None, max_examples=40)
@given(n=st.integers(1, 6), seed=st.integers(0, 1000), temperature=st.floats(0.1, 3), data=st.data())
def test_loss_is_its_definition_at_every_pair(with_parts, n, seed, temperature, data):
    views = random_views(n, seed=seed)
    parts = data.draw(st.lists(st.integers(-1, 2), min_size=2 * n, max_size=2 * n)) if with_parts else None
    expected = loss_by_loop(views.tolist(), temperature, parts)
    loss = contrastive_loss(views, temperature, None if parts is None else torch.tensor(parts))
    assert loss.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert loss.item() >= 0


def test_worked_by_hand():
    # Two images, the second's views opposite each other. Cosines of view 1 of image 1: partner 1, others 0 and 0.
    views = torch.tensor([[2.0, 0.0], [0.0, 3.0], [0.5, 0.0], [0.0, -1.0]])
    found = -math.log(math.e / (math.e + 2))  # image 1: both of its views, whatever their length
    lost = -math.log(math.exp(-1) / (math.exp(-1) + 2))  # image 2
    assert contrastive_loss(views, temperature=1.0).item() == pytest.approx((found + lost) / 2, rel=1e-6)


def test_views_of_one_part_are_not_told_apart_but_partners_still_have_to_be_found():
    # Images 1 and 2 share a part, so each view sees only its partner (cosine 1) and the views of image 3 (cosine 0).
    views = torch.eye(3)[[0, 1, 2, 0, 1, 2]]
    parts = torch.tensor([0, 0, 1, 0, 0, 1])
    together = -math.log(math.e / (math.e + 2))
    alone = -math.log(math.e / (math.e + 4))
    loss = contrastive_loss(views, 1.0, parts)
    assert loss.item() == pytest.approx((4 * together + 2 * alone) / 6, rel=1e-6)
    # Far from its partner, a view is charged for it although both are of one part.
    apart = contrastive_loss(views[[0, 1, 2, 1, 0, 2]], 1.0, parts)
    assert apart.item() == pytest.approx((4 * math.log(3) + 2 * alone) / 6, rel=1e-6)


def test_images_of_no_part_are_told_apart_from_one_another():
    views = random_views(5)
    nowhere = torch.full((10,), -1)
    torch.testing.assert_close(contrastive_loss(views, 0.5, nowhere), contrastive_loss(views, 0.5))


def test_parts_push_no_view_away_from_others_of_its_part():
    views = random_views(2).requires_grad_()
    contrastive_loss(views, 0.5, torch.zeros(4, dtype=torch.int64)).backward()
    torch.testing.assert_close(views.grad, torch.zeros_like(views))  # only the partner is left to be found


@pytest.mark.parametrize("with_parts", [False, True])
def test_order_of_the_images_and_of_their_two_views_changes_nothing(with_parts):
    n = 6
    views, parts = random_views(n), torch.tensor([0, 1, -1, 0, 2, 1, 0, 1, 2, -1, 2, 1])
    loss = contrastive_loss(views, 0.3, parts if with_parts else None)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(1))
    for moved in (torch.cat([order, order + n]), torch.arange(2 * n).roll(n)):
        again = contrastive_loss(views[moved], 0.3, parts[moved] if with_parts else None)
        torch.testing.assert_close(again, loss)


def test_length_of_a_projection_does_not_matter():
    views = random_views(4)
    lengths = torch.linspace(0.1, 9, 8, dtype=torch.float64)[:, None]
    torch.testing.assert_close(contrastive_loss(views * lengths, 0.3), contrastive_loss(views, 0.3))


HARD = {
    "identical views": (torch.ones(6, 3), None),
    "identical views of one part": (torch.ones(6, 3), torch.zeros(6, dtype=torch.int64)),
    "one part": (random_views(3, 3).float(), torch.ones(6, dtype=torch.int64)),
    "one image": (random_views(1, 3).float(), torch.zeros(2, dtype=torch.int64)),
    "all projections zero": (torch.zeros(6, 3), None),
    "partners opposite": (torch.eye(3)[[0, 1, 2, 0, 1, 2]] * torch.tensor([1.0] * 3 + [-1.0] * 3)[:, None], None),
}


@pytest.mark.parametrize("case", HARD)
def test_loss_and_gradients_are_finite_at_the_edges(case):
    corner, parts = HARD[case]
    views = corner.clone().requires_grad_()
    loss = contrastive_loss(views, 0.05, parts)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(views.grad).all()


def test_gradients_agree_with_finite_differences():
    parts = torch.tensor([0, 1, 0, 0, 1, -1])
    assert torch.autograd.gradcheck(lambda views: contrastive_loss(views, 0.5, parts), random_views(3).requires_grad_())


def test_descending_brings_partners_together():
    def mean_cosine(views):
        return torch.cosine_similarity(views[:8], views[8:]).mean()

    views = random_views(8).requires_grad_()
    contrastive_loss(views, 0.5).backward()
    assert mean_cosine(views - views.grad) > mean_cosine(views)


@pytest.mark.parametrize("channels", [1, 7, 256])
def test_projection_head_takes_any_number_of_channels(channels):
    head = projection_head(channels)
    widths = {head(torch.randn(n, channels)).shape for n in (2, 5)}
    assert {n for n, _ in widths} == {2, 5}
    assert len({width for _, width in widths}) == 1
    assert all(parameter.requires_grad for parameter in head.parameters())
