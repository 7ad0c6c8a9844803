"""The `fast` recipe from drawn images to clusters: its stages, its result, and sets that offer it little to learn."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from gatcluster.config import ImageSettings, LossWeights, Settings, make_settings
from gatcluster.data.images import ImageSet
from gatcluster.evaluation.metrics import clustering_accuracy
from gatcluster.learning import fast
from gatcluster.learning.callbacks import Callback
from gatcluster.learning.contrast import contrastive_loss
from gatcluster.learning.fast_losses import fast_total_loss
from gatcluster.learning.first_layer import begin_whitened
from gatcluster.learning.fit import FitResult, fit
from gatcluster.learning.neighbours import Partition, best_partition
from gatcluster.model.inference import label_features

# So few images may leave a cluster empty, or be too alike to be cut; and nobody asks how well they are learned.
SMALL = (
    pytest.mark.usefixtures("_little_priming"),
    pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
)


def small(test):
    for mark in SMALL:
        test = mark(test)
    return test


def drawn(counts, channels=1, size=(12, 12), seed=0) -> tuple[ImageSet, np.ndarray]:
    """So many images of rows, of a disc and of columns, noisy and mixed up; and which is which."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.repeat(np.arange(len(counts)), counts))
    y, x = np.indices(size)
    disc = np.hypot(y - (size[0] - 1) / 2, x - (size[1] - 1) / 2) < 3.5
    shapes = np.stack([y % 4 < 2, disc, x % 4 < 2])
    pixels = random.integers(0, 40, (len(labels), *size, channels)) + 180 * shapes[labels][..., None]
    return named(pixels.astype(np.uint8)), labels


def named(pixels) -> ImageSet:
    return ImageSet(pixels, names=[f"{i}.png" for i in range(len(pixels))])


def fast_settings(images: ImageSet, k: int = 3, augment: str = "glyph", **choices: object) -> Settings:
    """Settings of recipe "fast" for a narrow network, which is quick and enough for what is drawn here."""
    form = ImageSettings(size=images.size, channels=images.channels, grey=False, augment=augment)
    made = make_settings(
        **{
            "n_clusters": k,
            "n_images": len(images),
            "images": form,
            "seed": 0,
            "recipe": "fast",
            "epochs": None if "minutes" in choices else 1,
            "device": "cpu",
        }
        | choices
    )
    return made.model_copy(update={"network": made.network.model_copy(update={"width": 8})})


def with_fast(settings: Settings, **changes: object) -> Settings:
    return settings.model_copy(update={"fast": settings.fast.model_copy(update=changes)})


def stages(result: FitResult) -> list[str]:
    return [record.stage for record in result.history]


def clusters(result: FitResult) -> np.ndarray:
    return result.label_features.argmax(axis=1)


def assert_usable(result: FitResult, images: ImageSet) -> None:
    features = result.label_features
    assert features.shape == (len(images), result.settings.n_clusters)
    assert np.isfinite(features).all()
    np.testing.assert_allclose(features.sum(axis=1), 1, rtol=1e-4)
    assert all(torch.isfinite(parameter).all() for parameter in result.network.parameters())
    assert all(math.isfinite(loss) for record in result.history for loss in record.losses.values())
    np.testing.assert_array_equal(label_features(result.network, images, result.settings), features)


PHOTO_SIZES = [((32, 32), (24, 24)), ((64, 96), (48, 72)), ((31, 64), None), ((8, 8), None)]


@pytest.mark.parametrize(("size", "expected"), PHOTO_SIZES)
def test_the_warm_up_sees_photos_at_three_quarters_of_their_size_while_that_is_enough(size, expected):
    images = named(np.zeros((4, *size, 3), np.uint8))
    assert fast.warm_up_size(fast_settings(images, augment="photo")) == expected
    assert fast.warm_up_size(fast_settings(images, augment="glyph")) is None
    if expected:
        assert fast.warm_up_size(fast_settings(images, augment="photo", preset="cifar10")) is None


@pytest.fixture
def _little_priming(monkeypatch):
    """A second less for every fit."""
    monkeypatch.setattr(fast, "_PRIMING_STEPS", 3)


@pytest.fixture(scope="module")
def learned() -> Callable[[int], FitResult]:
    """The result of learning 40 images of each of three shapes, for a seed; learned once."""
    images, _ = drawn((40, 40, 40))
    results: dict[int, FitResult] = {}

    def learn(seed: int) -> FitResult:
        if seed not in results:
            results[seed] = fit(images, fast_settings(images, epochs=10, seed=seed))
        return results[seed]

    return learn


# What it finds.


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_three_shapes_are_found_whatever_the_seed(learned, seed):
    _, labels = drawn((40, 40, 40))
    assert clustering_accuracy(labels, clusters(learned(seed))) >= 0.95


def test_images_it_never_saw_go_to_the_same_clusters(learned):
    _, labels = drawn((40, 40, 40))
    new, new_labels = drawn((20, 20, 20), seed=7)
    result = learned(0)
    new_clusters = label_features(result.network, new, result.settings).argmax(axis=1)
    both = np.concatenate([clusters(result), new_clusters])
    assert clustering_accuracy(np.concatenate([labels, new_labels]), both) >= 0.95


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_cluster_of_one_image_in_five_is_found(seed):
    images, labels = drawn((96, 24))
    result = fit(images, fast_settings(images, k=2, augment="none", epochs=20, seed=seed))
    assert clustering_accuracy(labels, clusters(result)) >= 0.97
    assert sorted(np.bincount(clusters(result), minlength=2))[0] >= 20


@pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning")  # of a single epoch
@pytest.mark.parametrize(
    ("choices", "n_steps"), [({"epochs": 10}, 120), ({"epochs": 1}, 20), ({"epochs": None, "minutes": 1e-4}, 100)]
)
def test_priming_is_short_where_time_is(monkeypatch, choices, n_steps):
    steps: list[bool] = []
    priming = False

    def counted_loss(*arguments):
        steps.append(priming)
        return fast_total_loss(*arguments)

    def watched_priming(learner, partition):
        nonlocal priming
        priming = True
        prime_heads(learner, partition)
        priming = False

    prime_heads = fast.FastLearner.prime_heads
    monkeypatch.setattr(fast.FastLearner, "prime_heads", watched_priming)
    monkeypatch.setattr(fast, "fast_total_loss", counted_loss)
    images, _ = drawn((40, 40, 40))
    fit(images, fast_settings(images, **choices))
    assert sum(steps) == n_steps


def test_where_time_is_over_after_the_cut_the_heads_know_it_all_the_same(monkeypatch):
    cuts: list[np.ndarray] = []

    def noted_partition(*arguments, **options):
        partition = best_partition(*arguments, **options)
        cuts.append(partition.parts)
        return partition

    monkeypatch.setattr(fast, "best_partition", noted_partition)
    images, _ = drawn((40, 40, 40))
    result = fit(images, fast_settings(images, epochs=None, minutes=1e-4))
    assert len(cuts) == 1
    assert clustering_accuracy(cuts[0], clusters(result)) > 0.9


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_heads_learn_a_small_part_of_which_the_cut_is_not_sure(monkeypatch, seed):
    images, labels = drawn((210, 30), seed=seed)

    def uneven(*arguments, **options):
        return Partition(labels, np.where(labels == 0, 0.8, 0.5).astype(np.float32))

    monkeypatch.setattr(fast, "best_partition", uneven)
    result = fit(images, fast_settings(images, k=2, epochs=None, minutes=1e-4, seed=seed))
    assert np.mean(clusters(result) == labels) > 0.97


def test_without_l_t_the_heads_learn_the_parts_from_their_relations():
    images, labels = drawn((80, 80, 80))
    result = fit(images, fast_settings(images, epochs=20, loss_weights=LossWeights(transformation=0, attention=1)))
    assert clustering_accuracy(labels, clusters(result)) > 0.9


@pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning")
def test_priming_is_no_part_of_the_cost_of_a_cut_and_once_time_is_over_there_is_no_further_round(monkeypatch):
    spent_before_priming: list[float] = []
    costs: list[float] = []
    rounds: list[bool] = []

    def endless_priming(learner, partition):
        spent_before_priming.append(learner.training.budget.spent)
        while learner.training.budget.spent < 1:
            pass

    def noted_begin(course, cut, spent, cost):
        costs.append(cost)
        begin_round(course, cut, spent, cost)
        rounds.append(course.is_last_round)

    begin_round = fast.FastCourse.begin_round
    monkeypatch.setattr(fast.FastLearner, "prime_heads", endless_priming)
    monkeypatch.setattr(fast.FastCourse, "begin_round", noted_begin)
    images, _ = drawn((40, 40, 40))
    fit(images, fast_settings(images, minutes=0.05))
    assert costs[0] <= spent_before_priming[0]
    assert rounds == [True]  # the time is over


def test_clusters_keep_their_numbers_from_round_to_round(monkeypatch):
    calls = 0

    def rotated_partition(*arguments, **options):  # a cut numbers its parts by chance: here never as before
        nonlocal calls
        calls += 1
        partition = best_partition(*arguments, **options)
        return partition._replace(parts=(partition.parts + calls) % 3)

    monkeypatch.setattr(fast, "best_partition", rotated_partition)
    images, labels = drawn((40, 40, 40))
    result = fit(images, fast_settings(images, epochs=10))
    assert calls == result.settings.fast.rounds > 1
    assert clustering_accuracy(labels, clusters(result)) >= 0.95
    clustering = [record for record in result.history if record.stage == "clustering"]
    assert all(record.changed < 0.3 for record in clustering if record.changed is not None)
    # Under other numbers, nearly every image of the next round would be far from the part it has to learn.
    assert all(record.losses["transformation"] < np.log(3) for record in clustering[2:])


# Its stages.


def test_warm_up_comes_first_and_then_clustering(learned):
    history = learned(0).history
    names = stages(learned(0))
    n_warm_up = names.count("warm-up")
    assert names == ["warm-up"] * n_warm_up + ["clustering"] * (len(names) - n_warm_up)
    assert 0 < n_warm_up < len(names)
    for record in history[:n_warm_up]:
        assert set(record.losses) == {"contrast"}
        assert record.cluster_sizes == []
        assert record.mean_confidence is record.changed is record.entropy is None
    for record in history[n_warm_up:]:
        assert set(record.losses) == {"relation", "transformation", "attention", "entropy", "total", "contrast"}
        assert len(record.cluster_sizes) == 3
        assert 1 / 3 <= record.mean_confidence <= 1
    assert [record.iteration for record in history] == list(range(1, len(history) + 1))
    assert [record.epoch for record in history] == sorted(record.epoch for record in history)
    assert history[-1].epoch == 10
    assert sum(history[-1].cluster_sizes) == 120


def test_learning_rate_falls_within_each_stage(learned):
    for stage in ("warm-up", "clustering"):
        rates = [record.learning_rate for record in learned(0).history if record.stage == stage]
        assert min(rates) > 0
        assert rates[-1] < max(rates)


@small
@pytest.mark.parametrize("share", [0.25, 0.75])
def test_warm_up_takes_its_share_of_the_epochs(share):
    images, _ = drawn((16, 16))
    settings = with_fast(fast_settings(images, k=2, epochs=16), warm_up_share=share, rounds=1)
    trained = {"warm-up": 0, "clustering": 0}

    class Steps(Callback):
        def on_progress(self, progress):
            if progress.stage in trained:
                trained[progress.stage] += 1

    fit(images, settings, [Steps()])
    n = sum(trained.values())
    assert n == 16 * 2  # steps of 16 images, the least there are
    assert trained["warm-up"] == share * n


@small
@pytest.mark.parametrize(("counts", "n_views"), [((48, 48, 48), 4), ((20, 20), 2)])
def test_all_steps_take_as_many_pictures_and_the_warm_up_more_views_of_fewer_images(monkeypatch, counts, n_views):
    steps: list[tuple[int, int, bool]] = []  # pictures, views of each image, whether in the warm-up

    def noted_loss(views, temperature, n_views=2, parts=None):
        steps.append((len(views), n_views, parts is None))
        return contrastive_loss(views, temperature, n_views, parts)

    monkeypatch.setattr(fast, "contrastive_loss", noted_loss)
    images, _ = drawn(counts)
    fit(images, fast_settings(images, k=len(counts), epochs=4))
    pictures = 2 * fast.images_of_step(128, len(images))
    assert set(steps) == {(pictures, n_views, True), (pictures, 2, False)}
    n_trained = sum(pictures for pictures, _, _ in steps) / 2
    assert n_trained == pytest.approx(4 * len(images), rel=0.1)  # two pictures count as an image


@small
def test_the_first_layer_begins_with_the_patches_of_transformed_images(monkeypatch):
    begun: list[tuple[torch.Tensor, torch.Tensor]] = []  # its weights before, and after

    def noted_begin(network, batches):
        before = network.backbone[0].weight.detach().clone()
        begin_whitened(network, batches)
        begun.append((before, network.backbone[0].weight.detach().clone()))

    monkeypatch.setattr(fast, "begin_whitened", noted_begin)
    images, _ = drawn((20, 20, 20))
    fit(images, fast_settings(images, epochs=2))
    assert len(begun) == 1
    before, after = begun[0]
    assert (before != after).any(dim=(1, 2, 3)).all()  # 8 filters, from 9 directions


@small
def test_progress_goes_from_0_to_1():
    images, _ = drawn((20, 20))
    seen = []

    class Look(Callback):
        def on_progress(self, progress):
            seen.append(progress)

    fit(images, fast_settings(images, k=2, epochs=2, augment="none"), [Look()])
    done = [progress.done for progress in seen]
    assert done == sorted(done)
    assert 0 < done[0] < done[-1] == 1


@small
@pytest.mark.parametrize("share", [0.0, None, 1.0])
@pytest.mark.parametrize("length", [{"epochs": 1}, {"minutes": 1e-6}], ids=["one epoch", "no time"])
def test_every_stage_has_its_record_however_short_the_training(length, share):
    images, _ = drawn((10, 10, 10))
    settings = fast_settings(images, **length)
    result = fit(images, settings if share is None else with_fast(settings, warm_up_share=share))
    n_warm_up = stages(result).count("warm-up")
    assert n_warm_up >= 1
    assert stages(result)[n_warm_up:] == ["clustering"] * (len(stages(result)) - n_warm_up)
    assert len(stages(result)) > n_warm_up
    assert_usable(result, images)


@small
def test_a_callback_that_stops_in_the_warm_up_leaves_a_usable_network():
    images, _ = drawn((20, 20))

    class StopAtOnce(Callback):
        records = 0

        def on_record(self, record):
            self.records += 1

        def wants_stop(self):
            return self.records > 0

    result = fit(images, fast_settings(images, k=2, epochs=50), [StopAtOnce()])
    assert stages(result) == ["warm-up"]
    assert_usable(result, images)


@small
def test_a_callback_that_stops_the_first_round_ends_all_rounds():
    images, _ = drawn((20, 20))

    class StopClustering(Callback):
        stage = ""

        def on_record(self, record):
            self.stage = record.stage

        def wants_stop(self):
            return self.stage == "clustering"

    result = fit(images, fast_settings(images, k=2, epochs=4), [StopClustering()])
    assert stages(result).count("clustering") == 1
    assert_usable(result, images)


@pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning")
def test_patience_ends_rounds_not_the_run(monkeypatch):
    cuts = 0

    def counted_partition(*arguments, **options):
        nonlocal cuts
        cuts += 1
        return best_partition(*arguments, **options)

    monkeypatch.setattr(fast, "best_partition", counted_partition)
    images, _ = drawn((20, 20))
    # Hardly a learning rate: no assignment changes once the running statistics have settled.
    settings = fast_settings(images, k=2, epochs=60, patience=2, learning_rate=1e-12)
    settings = with_fast(settings, warm_up_share=0.1)
    result = fit(images, settings)
    assert cuts == settings.fast.rounds > 1
    assert stages(result).count("clustering") >= 2 * cuts
    assert result.history[-1].epoch < 45  # of 60


# The same run again.


@small
def test_same_seed_is_the_same_run_bit_for_bit_and_another_seed_is_another():
    images, _ = drawn((15, 15, 15), channels=3)

    def run(seed):
        torch.manual_seed(np.random.default_rng().integers(1000))  # the user's own random state is no part of it
        return fit(images, fast_settings(images, augment="photo", epochs=2, seed=seed))

    first, again, other = run(5), run(5), run(6)
    np.testing.assert_array_equal(again.label_features, first.label_features)
    assert [record.losses for record in again.history] == [record.losses for record in first.history]
    assert not np.allclose(other.label_features, first.label_features)


@small
def test_a_run_leaves_the_users_random_state_as_it_was():
    images, _ = drawn((10, 10))
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002 (the global state is what is tested)
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
    fit(images, fast_settings(images, k=2))
    assert torch.equal(torch.get_rng_state(), torch_state)
    after = np.random.get_state()  # noqa: NPY002
    assert (after[1] == numpy_state[1]).all()
    assert after[2:] == numpy_state[2:]


# Sets that offer little.


@small
@pytest.mark.parametrize(("n", "k"), [(2, 2), (4, 4), (5, 2), (17, 3)])
def test_a_handful_of_images_is_enough_to_run(n, k):
    images = named(np.random.default_rng(0).integers(0, 256, (n, 12, 12, 1), dtype=np.uint8))
    result = fit(images, fast_settings(images, k=k, epochs=2))
    assert set(stages(result)) == {"warm-up", "clustering"}
    assert_usable(result, images)


@small
@pytest.mark.parametrize(
    ("case", "augment"),
    [
        ("black", "glyph"),
        ("white", "photo"),
        ("grey", "none"),
        ("the same picture", "none"),
        ("the same picture", "glyph"),
        ("two constants", "none"),
    ],
)
def test_images_that_do_not_differ_are_no_error(case, augment):
    n = 24
    picture = np.random.default_rng(0).integers(0, 256, (1, 12, 12, 1), dtype=np.uint8)
    pixels = {
        "black": np.zeros((n, 12, 12, 1)),
        "white": np.full((n, 12, 12, 1), 255),
        "grey": np.full((n, 12, 12, 1), 100),
        "the same picture": np.repeat(picture, n, axis=0),
        "two constants": np.repeat([0, 255], n // 2)[:, None, None, None] * np.ones((1, 12, 12, 1)),
    }[case]
    images = named(pixels.astype(np.uint8))
    result = fit(images, fast_settings(images, k=2, augment=augment, epochs=2))
    assert_usable(result, images)
    if case != "two constants":
        assert np.ptp(result.label_features, axis=0).max() < 1e-5  # no telling apart what is the same


@small
@pytest.mark.parametrize(("size", "channels"), [((12, 12), 3), ((12, 12), 5), ((1, 20), 1), ((20, 1), 3), ((1, 1), 1)])
def test_any_number_of_channels_and_images_of_one_row(size, channels):
    images = named(np.random.default_rng(0).integers(0, 256, (20, *size, channels), dtype=np.uint8))
    assert_usable(fit(images, fast_settings(images, k=2, augment="photo")), images)


@small
def test_images_of_floats_are_learned_as_well():
    images = named(np.random.default_rng(0).random((20, 12, 12, 2), dtype=np.float32))
    assert_usable(fit(images, fast_settings(images, k=2)), images)
