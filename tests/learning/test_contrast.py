"""The contrastive loss against its definition taken one pair at a time: who has to be found, and among whom."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gatcluster.learning.contrast import contrastive_loss, projection_head


def loss_by_loop(views, temperature, parts=None, n_views=2):
    """For every two views of an image: -log of the one's share among all that the other has to be told apart from."""
    n_images = len(views) // n_views
    lengths = [math.sqrt(sum(x * x for x in view)) for view in views]

    def weight(i, j):
        cosine = sum(a * b for a, b in zip(views[i], views[j], strict=True)) / (lengths[i] * lengths[j])
        return math.exp(cosine / temperature)

    losses = []
    for i in range(len(views)):
        others = 0.0
        for j in range(len(views)):
            same_part = parts is not None and parts[i] >= 0 and parts[i] == parts[j]
            if j % n_images != i % n_images and not same_part:
                others += weight(i, j)
        for j in range(len(views)):
            if j != i and j % n_images == i % n_images:
                losses.append(-math.log(weight(i, j) / (weight(i, j) + others)))
    return sum(losses) / len(losses)


def random_views(n, d=4, seed=0, n_views=2):
    return torch.randn(n_views * n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("with_parts", [False, True])
@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(1, 6),
    n_views=st.integers(2, 5),
    seed=st.integers(0, 1000),
    temperature=st.floats(0.1, 3),
    data=st.data(),
)
def test_loss_is_its_definition_at_every_pair(with_parts, n, n_views, seed, temperature, data):
    views, size = random_views(n, seed=seed, n_views=n_views), n * n_views
    parts = data.draw(st.lists(st.integers(-1, 2), min_size=size, max_size=size)) if with_parts else None
    expected = loss_by_loop(views.tolist(), temperature, parts, n_views)
    loss = contrastive_loss(views, temperature, n_views, None if parts is None else torch.tensor(parts))
    assert loss.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert loss.item() >= 0


def test_worked_by_hand():
    # Two images, the second's views opposite each other. Cosines of view 1 of image 1: partner 1, others 0 and 0.
    views = torch.tensor([[2.0, 0.0], [0.0, 3.0], [0.5, 0.0], [0.0, -1.0]])
    found = -math.log(math.e / (math.e + 2))  # image 1: both of its views, whatever their length
    lost = -math.log(math.exp(-1) / (math.exp(-1) + 2))  # image 2
    assert contrastive_loss(views, temperature=1.0).item() == pytest.approx((found + lost) / 2, rel=1e-6)


def test_three_views_worked_by_hand():
    # Two images at right angles. The third view of the second lies with the first: of its two pairs, both are missed.
    views = torch.eye(2)[[0, 1, 0, 1, 0, 0]]
    first = -math.log(math.e / (math.e + 2 + math.e))  # 3 views, 2 pairs each; among views at 0, 0 and 1
    right = -math.log(math.e / (math.e + 3))  # views 1 and 2 of the second find each other; all others are at 0
    to_third = -math.log(1 / (1 + 3))  # ... and look for its third
    from_third = -math.log(1 / (1 + 3 * math.e))  # which lies among the views of the first
    expected = (6 * first + 2 * right + 2 * to_third + 2 * from_third) / 12
    assert contrastive_loss(views, 1.0, n_views=3).item() == pytest.approx(expected, rel=1e-6)


def test_views_of_one_part_are_not_told_apart_but_partners_still_have_to_be_found():
    # Images 1 and 2 share a part, so each view sees only its partner (cosine 1) and the views of image 3 (cosine 0).
    views = torch.eye(3)[[0, 1, 2, 0, 1, 2]]
    parts = torch.tensor([0, 0, 1, 0, 0, 1])
    together = -math.log(math.e / (math.e + 2))
    alone = -math.log(math.e / (math.e + 4))
    loss = contrastive_loss(views, 1.0, parts=parts)
    assert loss.item() == pytest.approx((4 * together + 2 * alone) / 6, rel=1e-6)
    # Far from its partner, a view is charged for it although both are of one part.
    apart = contrastive_loss(views[[0, 1, 2, 1, 0, 2]], 1.0, parts=parts)
    assert apart.item() == pytest.approx((4 * math.log(3) + 2 * alone) / 6, rel=1e-6)


def test_images_of_no_part_are_told_apart_from_one_another():
    views = random_views(5)
    nowhere = torch.full((10,), -1)
    torch.testing.assert_close(contrastive_loss(views, 0.5, parts=nowhere), contrastive_loss(views, 0.5))


def test_parts_push_no_view_away_from_others_of_its_part():
    views = random_views(2).requires_grad_()
    contrastive_loss(views, 0.5, parts=torch.zeros(4, dtype=torch.int64)).backward()
    torch.testing.assert_close(views.grad, torch.zeros_like(views))  # only the partner is left to be found


@pytest.mark.parametrize("with_parts", [False, True])
def test_order_of_the_images_and_of_their_two_views_changes_nothing(with_parts):
    n = 6
    views, parts = random_views(n), torch.tensor([0, 1, -1, 0, 2, 1, 0, 1, 2, -1, 2, 1])
    loss = contrastive_loss(views, 0.3, parts=parts if with_parts else None)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(1))
    for moved in (torch.cat([order, order + n]), torch.arange(2 * n).roll(n)):
        again = contrastive_loss(views[moved], 0.3, parts=parts[moved] if with_parts else None)
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
    loss = contrastive_loss(views, 0.05, parts=parts)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(views.grad).all()


def test_gradients_agree_with_finite_differences():
    parts = torch.tensor([0, 1, 0, 0, 1, -1])
    assert torch.autograd.gradcheck(
        lambda views: contrastive_loss(views, 0.5, parts=parts), random_views(3).requires_grad_()
    )


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
