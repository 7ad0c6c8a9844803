"""Settings: the paper's numbers, what a user's choices become, and what is refused with which words."""

import json

import pytest
from pydantic import ValidationError

from gatcluster.config import (
    PRESETS,
    ImageSettings,
    LossWeights,
    Settings,
    check_choices,
    checked_settings,
    default_epochs,
    find_preset,
    make_settings,
)
from gatcluster.errors import InputError


def made(**choices) -> Settings:
    form = ImageSettings(size=(32, 32), channels=3, grey=True, augment="photo")
    return make_settings(**{"n_clusters": 10, "n_images": 5000, "images": form, "seed": 0, "recipe": "paper"} | choices)


def test_paper_recipe_has_the_papers_numbers():
    settings = made()
    assert settings.loss_weights == LossWeights(relation=1, transformation=5, attention=5, entropy=3)
    assert settings.training.sub_batch == 32
    assert settings.training.learning_rate == 0.001
    assert settings.training.passes == 1
    assert settings.network.alpha == 0.05
    assert settings.network.preset is None


@pytest.mark.parametrize(
    ("preset", "size", "batch_size", "k", "grey"),
    [
        ("stl10", 96, 1000, 10, True),
        ("imagenet10", 96, 1000, 10, True),
        ("imagenet10-128", 128, 1000, 10, True),
        ("imagenet10-160", 160, 1000, 10, True),
        ("imagenet10-192", 192, 1000, 10, True),
        ("imagenet-dog", 96, 1500, 15, False),
        ("imagenet-dog-128", 128, 1500, 15, False),
        ("cifar10", 32, 4000, 10, True),
        ("cifar100-20", 32, 6000, 20, True),
    ],
)
def test_presets_are_the_papers_experiments(preset, size, batch_size, k, grey):
    chosen = PRESETS[preset]
    assert (chosen.size, chosen.batch_size, chosen.n_clusters, chosen.grey) == (size, batch_size, k, grey)
    assert made(preset=preset, n_images=20_000).training.batch_size == batch_size


def test_user_choices_win_over_recipe_and_preset():
    weights = LossWeights(entropy=9)
    settings = made(
        preset="cifar10", batch_size=200, sub_batch=20, learning_rate=0.01, loss_weights=weights, epochs=7, patience=3
    )
    training = settings.training
    assert (training.batch_size, training.sub_batch, training.learning_rate) == (200, 20, 0.01)
    assert (training.epochs, training.minutes, training.patience) == (7, None, 3)
    assert settings.loss_weights == weights
    assert made(minutes=2.5).training.minutes == 2.5
    assert made(minutes=2.5).training.epochs is None


def test_batches_shrink_to_the_images_there_are():
    training = made(n_images=20, n_clusters=2).training
    assert (training.batch_size, training.sub_batch) == (20, 20)
    training = made(n_images=2, n_clusters=2).training
    assert (training.batch_size, training.sub_batch) == (2, 2)


@pytest.mark.parametrize("field", ["batch_size", "sub_batch"])
@pytest.mark.parametrize("value", [0, 1, -5])
def test_senseless_batch_sizes_are_refused_not_replaced(field, value):
    with pytest.raises(InputError, match=f"{field} is"):
        made(**{field: value})


def test_paper_recipe_runs_for_six_thousand_iterations_by_default():
    assert default_epochs("paper", n_images=13_000, batch_size=1000) == 462  # 461.5 epochs of 13
    assert default_epochs("paper", n_images=60_000, batch_size=4000) == 400  # of 15
    assert default_epochs("paper", n_images=10, batch_size=10) == 6000
    assert made(n_images=13_000).training.epochs == 462


@pytest.mark.parametrize("n_images", [2, 100, 10_000, 10_000_000])
def test_fast_recipe_always_has_a_length(n_images):
    assert default_epochs("fast", n_images, batch_size=2) >= 1


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"n_clusters": 1}, "k is 1: at least 2"),
        ({"n_clusters": 0}, "k is 0: at least 2"),
        ({"n_clusters": 11, "n_images": 10}, "k is 11, but there are only 10 images"),
        ({"recipe": "quick"}, "unknown recipe 'quick'; the recipes are: fast, paper"),
        ({"preset": "stl11"}, "unknown preset 'stl11'; the presets are: stl10, imagenet10, .*cifar100-20"),
        ({"epochs": 3, "minutes": 1.0}, "exclude each other"),
        ({"epochs": 0}, "epochs is 0: at least 1"),
        ({"minutes": 0.0}, "minutes is 0"),
        ({"minutes": -1.0}, "minutes is -1"),
        ({"minutes": float("nan")}, "minutes is nan"),
        ({"minutes": float("inf")}, "minutes is inf"),
        ({"device": "gpu"}, "device: .*'cuda'"),
        ({"precision": "64"}, "precision: "),
        ({"learning_rate": 0.0}, "training.learning_rate: .*greater than 0"),
        ({"patience": 0}, "patience is 0"),
        ({"seed": -1}, "seed is"),
        ({"seed": 2**32}, "seed is"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line_that_names_it(choices, words):
    with pytest.raises(InputError, match=words) as caught:
        made(**choices)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("change", [{"half\ud800": 1}, {"recipe": "\ud800"}, {"images": {"\udfff": 1}}])
def test_half_a_character_in_settings_is_refused(change):
    with pytest.raises(InputError) as caught:
        checked_settings(made().model_dump() | change)
    assert "\n" not in str(caught.value)


def test_choices_can_be_refused_before_any_image_is_read():
    check_choices(10, "paper", "stl10", epochs=1)
    with pytest.raises(InputError, match="unknown preset"):
        check_choices(10, "paper", "nothing")


def test_no_preset_is_no_error():
    assert find_preset(None) is None
    assert find_preset("cifar10") is PRESETS["cifar10"]


@pytest.mark.parametrize("recipe", ["paper", "fast"])
def test_settings_survive_their_json_file(recipe):
    settings = made(recipe=recipe, preset="cifar10", minutes=1.5)
    assert checked_settings(json.loads(settings.model_dump_json())) == settings


def test_every_wrong_field_of_a_file_is_named_in_one_line():
    tree = made().model_dump()
    tree["training"]["sub_batch"] = "many"
    tree["network"]["alpha"] = -1
    tree["surprise"] = 1
    with pytest.raises(InputError) as caught:
        checked_settings(tree)
    message = str(caught.value)
    assert all(name in message for name in ("training.sub_batch", "network.alpha", "surprise"))
    assert "\n" not in message


@pytest.mark.parametrize(
    ("place", "change", "words"),
    [
        ("training", {"epochs": None, "minutes": None}, "either epochs or minutes"),
        ("training", {"epochs": 1, "minutes": 1.0}, "either epochs or minutes"),
        ("training", {"batch_size": 16, "sub_batch": 32}, "sub_batch is 32, more than the batch_size of 16"),
        ("network", {"preset": "stl11"}, "unknown preset 'stl11'"),
        ("images", {"size": [0, 32]}, "images.size"),
        ("loss_weights", {"entropy": -1}, "loss_weights.entropy"),
    ],
)
def test_a_file_with_settings_that_could_not_be_run_is_refused(place, change, words):
    tree = made().model_dump()
    tree[place] |= change
    with pytest.raises(InputError, match=words):
        checked_settings(tree)


@pytest.mark.parametrize("tree", [None, [], "settings", 3, {}])
def test_a_file_that_holds_something_else_is_refused(tree):
    with pytest.raises(InputError):
        checked_settings(tree)


def test_a_recipe_needs_its_own_settings_and_no_others():
    for recipe, other in [("paper", "fast"), ("fast", "paper")]:
        with pytest.raises(InputError, match=r"recipe 'fast' needs .* recipe 'paper' has none"):
            checked_settings(made(recipe=recipe).model_dump() | {"recipe": other})


def test_settings_cannot_be_changed_by_accident():
    settings = made()
    with pytest.raises(ValidationError):
        settings.seed = 1


@pytest.mark.parametrize("side", [1, 8, 32, 96, 192, 1000, 4096])
def test_step_1_takes_fewer_images_at_a_time_the_larger_they_are(side):
    form = ImageSettings(size=(side, side), channels=3, grey=True, augment="photo")
    smaller = ImageSettings(size=(max(1, side // 2), side), channels=3, grey=True, augment="photo")
    m1 = made(images=form).training.target_sub_batch
    assert 1 <= m1 <= made(images=smaller).training.target_sub_batch


@pytest.mark.parametrize(("channels", "grey", "expected"), [(3, True, 1), (3, False, 3), (1, True, 1), (4, True, 4)])
def test_grey_takes_the_colours_of_rgb_alone(channels, grey, expected):
    form = ImageSettings(size=(8, 8), channels=channels, grey=grey, augment="none")
    assert form.network_channels == expected
