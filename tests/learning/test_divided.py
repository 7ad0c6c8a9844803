"""Out of memory on a device: what is looked at goes on in smaller parts, and steps keep their losses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gatcluster.config import ImageSettings, make_settings
from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError
from gatcluster.learning.divided import Divided, with_room
from gatcluster.learning.fit import fit
from gatcluster.learning.losses import total_loss
from gatcluster.learning.targets import relation_targets
from gatcluster.model.inference import infer
from gatcluster.model.network import GATNetwork, build_network

N, K = 64, 3


@pytest.fixture(scope="module")
def images() -> ImageSet:
    pixels = np.random.default_rng(0).integers(0, 256, (N, 8, 8, 1)).astype(np.uint8)
    return ImageSet(pixels, [str(i) for i in range(N)])


def settings_of(recipe: str, **choices):
    form = ImageSettings(size=(8, 8), channels=1, grey=True, augment="none")
    return make_settings(n_clusters=K, n_images=N, images=form, seed=0, recipe=recipe, epochs=2, **choices)


def short_of_memory(monkeypatch, most: int, training_only: bool = False) -> list[int]:
    """Let the network take at most so many images at a time; returns the sizes that it was given."""
    features, sizes = GATNetwork.features, []

    def limited(self, batch):
        sizes.append(len(batch))
        if len(batch) > most and (torch.is_grad_enabled() or not training_only):
            raise torch.OutOfMemoryError("CUDA out of memory. (as if)")
        return features(self, batch)

    monkeypatch.setattr(GATNetwork, "features", limited)
    return sizes


def test_step_1_halves_m1_and_gives_the_same(images, monkeypatch):
    settings = settings_of("paper")
    network = build_network(settings)
    expected = infer(network, network.label_features, images, settings)
    sizes, told = short_of_memory(monkeypatch, most=10), []
    for _ in range(2):
        found = infer(network, network.label_features, images, settings, tell=told.append)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
    assert sizes[:4] == [64, 64, 32, 16][: len(sizes[:4])] or sizes[0] == 64
    assert told[-1] == "out of memory: images are looked at 7 at a time; the result is the same"
    assert sizes[-1] <= 7
    assert sum(size > 10 for size in sizes) == len(told)  # what fitted once is remembered


def test_not_even_one_image_is_an_error_that_says_so(images, monkeypatch):
    settings = settings_of("paper")
    network = build_network(settings)
    short_of_memory(monkeypatch, most=0)
    with pytest.raises(InputError, match="too little memory even for one image"):
        infer(network, network.label_features, images, settings, tell=lambda told: None)


def tell_apart(network: GATNetwork, images: torch.Tensor) -> None:
    """Let label features differ as after training: where all are alike, log(1 - cosine) is nothing but rounding."""
    for layer in network.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = 1.0
        elif isinstance(layer, torch.nn.Linear):
            layer.weight.data *= 10
    with torch.no_grad():
        network.train()(images)


def losses_and_gradient(n_parts: int, train: bool):
    settings = settings_of("paper")
    network = build_network(settings)
    images = torch.rand(12, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    if not train:
        tell_apart(network, images)
    model = Divided(network.train(train))
    model.n_parts = n_parts
    output = model(images)
    targets = torch.softmax(torch.randn(12, K, generator=torch.Generator().manual_seed(2)), dim=1)
    relations = relation_targets(torch.arange(12) % K)
    losses = total_loss(
        output.label_features, output.attention_label_features, targets, targets, relations, settings.loss_weights
    )
    losses.total.backward()
    return network, losses, [weight.grad for weight in network.parameters()]


@pytest.mark.parametrize("n_parts", [2, 4, 5])
def test_losses_and_gradient_in_parts_are_those_of_the_whole(n_parts):
    _, whole, gradient = losses_and_gradient(1, train=False)  # normalised alike: by running statistics
    _, in_parts, gradient_in_parts = losses_and_gradient(n_parts, train=False)
    for one, other in zip(whole, in_parts, strict=True):
        torch.testing.assert_close(one, other)
    for one, other in zip(gradient, gradient_in_parts, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * float(one.abs().max()) + 1e-6)


def test_running_statistics_are_updated_once_for_each_part():
    network, _, _ = losses_and_gradient(2, train=True)
    other = build_network(settings_of("paper")).train()
    with torch.no_grad():
        for part in torch.rand(12, 1, 8, 8, generator=torch.Generator().manual_seed(1)).tensor_split(2):
            other(part)
    for name, value in other.state_dict().items():
        if "running" in name:
            torch.testing.assert_close(network.state_dict()[name], value)
    assert all(m.momentum == 0.1 for m in network.modules() if isinstance(m, torch.nn.BatchNorm2d))


def test_parts_become_more_until_it_fits_and_never_of_one_image():
    model, told = Divided(torch.nn.Identity()), []

    def attempt() -> int:
        if model.n_parts < 4:
            raise torch.OutOfMemoryError("as if")
        return model.n_parts

    assert with_room(model, attempt, 32, told.append) == 4
    assert len(told) == 2
    model.n_parts = 1
    with pytest.raises(InputError, match="too little memory even for 2 images"):
        with_room(model, attempt, 4, told.append)


@pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning")  # it is short
@pytest.mark.parametrize("recipe", ["paper", "fast"])
def test_a_training_short_of_memory_goes_on_and_says_so_in_its_history(images, monkeypatch, recipe):
    settings = settings_of(recipe, sub_batch=16)
    sizes = short_of_memory(monkeypatch, most=12, training_only=True)
    result = fit(images, settings)
    actions = [action for record in result.history for action in record.actions]
    in_parts = [action for action in actions if action.startswith("out of memory: steps of")]
    assert "losses are those of all images" in in_parts[0]
    assert len(in_parts) == (1 if recipe == "paper" else 2)  # two views of 16 images: 32, 16, 8
    assert max(sizes) >= 16
    assert result.label_features.shape == (N, K)
    assert np.isfinite(result.label_features).all()


@pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning")
@pytest.mark.parametrize("recipe", ["paper", "fast"])
def test_a_training_goes_on_where_looking_at_images_is_short_of_memory_too(images, monkeypatch, recipe):
    sizes = short_of_memory(monkeypatch, most=12)
    with pytest.warns(UserWarning, match="out of memory: images are looked at"):
        result = fit(images, settings_of(recipe, sub_batch=16))
    assert result.label_features.shape == (N, K)
    assert np.isfinite(result.label_features).all()
    assert sum(size > 12 for size in sizes) <= 8  # what fitted is remembered


@pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning")
def test_a_failed_attempt_draws_no_other_random_numbers(images, monkeypatch):
    settings = settings_of("fast", sub_batch=16)
    drawn: list[list[int]] = []
    for most in (10**6, 24):
        with monkeypatch.context() as patch:
            short_of_memory(patch, most, training_only=True)
            batches: list[int] = []
            from gatcluster.learning.training import Training

            transformed = Training.transformed

            def noted(self, indices, size=None, batches=batches, transformed=transformed):
                made = transformed(self, indices, size)
                batches.append(int(indices.sum()) * 1000 + round(float(made.sum())))
                return made

            patch.setattr(Training, "transformed", noted)
            fit(images, settings)
            drawn.append(batches)
    warm_up = 4  # steps, in which nothing is learned from that parts could change
    repeated = [batch for number, batch in enumerate(drawn[1]) if number == 0 or batch != drawn[1][number - 1]]
    assert repeated[:warm_up] == drawn[0][:warm_up]
