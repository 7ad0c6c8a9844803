"""The two heads, taken apart and put together by hand."""

import pytest
import torch

from gatcluster.model.heads import AttentionHead, LabelHead


def features(n=3, channels=6, height=4, width=5, seed=0):
    return torch.rand(n, channels, height, width, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def label_head():
    torch.manual_seed(0)
    return LabelHead(in_channels=6, channels=7, n_clusters=3)


@pytest.fixture
def attention_head():
    torch.manual_seed(0)
    return AttentionHead(in_channels=6, map_size=(4, 5), channels=7, n_clusters=3, alpha=0.05)


def place(head: AttentionHead, mu_x: float, mu_y: float, delta: float) -> None:
    """Make the head's three raw numbers the same for all images."""
    with torch.no_grad():
        head.parameters_of_gaussian.weight.zero_()
        head.parameters_of_gaussian.bias.copy_(torch.tensor([mu_x, mu_y, delta]))


def test_label_features_are_probabilities_and_the_map_before_pooling_keeps_its_shape(label_head):
    probabilities, convolved = label_head(features())
    assert probabilities.shape == (3, 3)
    assert convolved.shape == (3, 7, 4, 5)
    assert (probabilities >= 0).all()
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(3))


def test_label_head_pools_over_the_whole_map(label_head):
    # Global pooling forgets where things are: moving all pixels about changes nothing.
    label_head.eval()
    order = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    moved = features().flatten(2)[:, :, order].reshape(3, 6, 4, 5)
    torch.testing.assert_close(label_head(features())[0], label_head(moved)[0], rtol=1e-5, atol=1e-6)


def test_label_head_has_the_papers_layers():
    k = 10
    head = LabelHead(in_channels=k, channels=k, n_clusters=k)
    convolution = 1 * 1 * k * k + 2 * k  # and its batch normalisation
    linear = k * k + k
    assert sum(parameter.numel() for parameter in head.parameters()) == convolution + 3 * linear


def test_attention_head_has_the_papers_layers():
    k, height, width = 10, 6, 6
    head = AttentionHead(in_channels=k, map_size=(height, width), channels=k, n_clusters=k, alpha=0.05)
    gaussian = 3 * (height * width * k) + 3
    linear = k * k + k
    assert sum(parameter.numel() for parameter in head.parameters()) == gaussian + 3 * linear


def test_attention_label_features_are_the_classifier_of_the_weighted_map(attention_head):
    convolved = features(channels=7, seed=2)
    probabilities, attention = attention_head(features(), convolved)
    pooled = torch.zeros(3, 7)
    for image in range(3):
        for channel in range(7):
            for x in range(4):
                for y in range(5):
                    pooled[image, channel] += convolved[image, channel, x, y] * attention[image, x, y] / 20
    torch.testing.assert_close(probabilities, attention_head.classifier(pooled))
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(3))
    torch.testing.assert_close(attention_head.attention_map(features()), attention)


def test_attention_ignores_what_lies_far_from_its_centre(attention_head):
    place(attention_head, mu_x=-20, mu_y=-20, delta=-20)  # a point in the first row and column
    near, far = features(channels=7), features(channels=7)
    far[:, :, 3, 4] += 5
    torch.testing.assert_close(attention_head(features(), far)[0], attention_head(features(), near)[0])
    near[:, :, 0, 0] += 5
    assert not torch.allclose(attention_head(features(), near)[0], attention_head(features(), far)[0])


@pytest.mark.parametrize(("raw", "peak"), [((-20, -20), (0, 0)), ((20, -20), (3, 0)), ((-20, 20), (0, 4))])
def test_linear_layer_places_the_map(attention_head, raw, peak):
    place(attention_head, *raw, delta=0)
    attention = attention_head.attention_map(features())
    assert attention.shape == (3, 4, 5)
    assert all(divmod(int(one.flatten().argmax()), 5) == peak for one in attention)


def test_alpha_of_the_settings_narrows_the_map():
    wide = AttentionHead(2, (4, 4), 2, 2, alpha=1.0)
    narrow = AttentionHead(2, (4, 4), 2, 2, alpha=0.05)
    place(wide, 0, 0, 0)
    place(narrow, 0, 0, 0)
    image = features(channels=2, height=4, width=4)
    assert narrow.attention_map(image).sum() < wide.attention_map(image).sum()


def test_learning_reaches_the_gaussians_three_outputs_and_the_image_features(attention_head):
    image, convolved = features().requires_grad_(), features(channels=7, seed=2).requires_grad_()
    probabilities, _ = attention_head(image, convolved)
    probabilities[:, 0].sum().backward()
    assert (attention_head.parameters_of_gaussian.bias.grad != 0).all()  # mu_x, mu_y and delta, each
    assert (attention_head.parameters_of_gaussian.weight.grad.abs().sum(dim=1) > 0).all()
    assert image.grad.abs().sum() > 0
    assert convolved.grad.abs().sum() > 0
