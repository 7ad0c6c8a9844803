from __future__ import annotations

import pytest
import torch

from gatcluster.data.ink import backgrounds, edges, ink


def test_the_background_is_the_median_of_the_edge_and_one_for_each_channel():
    images = torch.zeros(2, 2, 5, 5)
    images[0, 0] = 0.3
    images[0, 0, 1:4, 1:4] = 0.9  # the inside does not count
    images[0, 0, 0, :3] = 1.0  # nor does a minority of the edge
    images[1, 1] = 0.6
    assert torch.allclose(backgrounds(images)[:, :, 0, 0], torch.tensor([[0.3, 0.0], [0.0, 0.6]]))


def test_the_edge_is_the_four_sides():
    image = torch.arange(12.0).reshape(1, 1, 3, 4)
    assert edges(image)[0, 0].tolist() == [0, 1, 2, 3, 8, 9, 10, 11, 0, 4, 8, 3, 7, 11]


def drawing(paper: tuple[float, ...], pen: tuple[float, ...]) -> torch.Tensor:
    """A stroke (1, C, 7, 7) of one pen on one paper."""
    image = torch.tensor(paper)[:, None, None].repeat(1, 7, 7)
    image[:, 2:5, 3] = torch.tensor(pen)[:, None]
    return image[None]


@pytest.mark.parametrize(
    ("paper", "pen"),
    [((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)), ((1.0, 1.0, 1.0), (0.2, 0.9, 0.1)), ((0.3, 0.6, 0.1), (0.3, 0.1, 0.1)),
     ((0.8,), (0.1,)), ((0.1, 0.2), (0.2, 0.9))],
)  # fmt: skip
def test_the_same_drawing_is_the_same_ink_whatever_the_paper_and_the_pen(paper, pen):
    expected = torch.zeros(1, 1, 7, 7)
    expected[:, :, 2:5, 3] = 1
    torch.testing.assert_close(ink(drawing(paper, pen)), expected)


def test_ink_is_the_largest_difference_of_a_channel_relative_to_the_strongest_as_a_pixel_loop_finds():
    images = torch.rand(3, 3, 5, 6, generator=torch.Generator().manual_seed(0))
    found = ink(images)
    for image, paper, seen in zip(images, backgrounds(images), found, strict=True):
        distances = [
            [max(abs(float(image[c, y, x] - paper[c, 0, 0])) for c in range(3)) for x in range(6)] for y in range(5)
        ]
        strongest = max(max(row) for row in distances)
        assert seen[0].tolist() == [pytest.approx([value / strongest for value in row], abs=1e-6) for row in distances]


def test_a_blank_page_has_no_ink_and_its_grain_is_not_made_to_look_like_ink():
    grain = torch.full((1, 1, 6, 6), 0.5)
    grain[0, 0, 3, 3] = 0.51
    assert float(ink(grain).max()) == pytest.approx(0.1, abs=1e-5)
    assert float(ink(torch.full((1, 3, 6, 6), 0.5)).max()) == 0
