"""Algorithm 1, step by step: what is trained on, what is recorded, when it ends, and what it may cost."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from gatcluster.config import ImageSettings, LossWeights, make_settings
from gatcluster.data.images import ImageSet
from gatcluster.learning.budget import EpochBudget, TimeBudget
from gatcluster.learning.callbacks import Callback
from gatcluster.learning.targets import balanced_targets, sharpened_targets
from gatcluster.learning.trainer import Targets, Trainer


class Spy(Callback):
    """Notes what it is told."""

    def __init__(self, stop_after: float = math.inf) -> None:
        self.progress, self.records = [], []
        self.stop_after = stop_after

    def on_progress(self, progress):
        self.progress.append(progress)

    def on_record(self, record):
        self.records.append(record)

    def wants_stop(self):
        return len(self.records) >= self.stop_after


def run(trainer: Trainer, make_targets=None, budget=None, learning_rate=lambda spent: 1e-3) -> Trainer:
    trainer.algorithm_1(make_targets or trainer.paper_targets, budget or trainer.budget, learning_rate)
    return trainer


def spied_targets(trainer: Trainer):
    """The paper's targets, and a list of the batches and label features that they were made of."""
    calls = []

    def make_targets(batch, label_features):
        calls.append((batch.copy(), label_features.clone()))
        return trainer.paper_targets(batch, label_features)

    return make_targets, calls


def parameters(trainer: Trainer) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in trainer.network.parameters()]


@pytest.mark.parametrize("m1", [1, 2, 7, 15, 16, 17, 1000])
def test_step_1_does_not_depend_on_m1(bars, paper_settings, m1):
    seen = []
    for sub_batch in (16, m1):
        trainer = Trainer(bars(), paper_settings(training={"target_sub_batch": sub_batch}))
        make_targets, calls = spied_targets(trainer)
        run(trainer, make_targets, budget=EpochBudget(0.1))
        seen.append(calls[0])
    (batch, features), (same_batch, same_features) = seen
    np.testing.assert_array_equal(batch, same_batch)
    torch.testing.assert_close(features, same_features, rtol=1e-5, atol=1e-6)
    assert features.shape == (16, 3)


@pytest.mark.parametrize(("n", "m", "epochs"), [(48, 16, 1), (48, 16, 3), (50, 16, 2), (20, 20, 4), (23, 5, 3)])
def test_a_run_has_one_record_for_each_of_epochs_times_n_by_m_batches(bars, paper_settings, n, m, epochs):
    trainer = Trainer(bars(n), paper_settings(n, batch_size=m, sub_batch=5, epochs=epochs))
    make_targets, calls = spied_targets(trainer)
    run(trainer, make_targets)
    per_epoch = n // m
    assert len(trainer.history) == len(calls) == epochs * per_epoch
    assert [record.iteration for record in trainer.history] == list(range(1, epochs * per_epoch + 1))
    assert [record.epoch for record in trainer.history] == [1 + i // per_epoch for i in range(epochs * per_epoch)]
    for epoch in range(epochs):
        used = np.concatenate([batch for batch, _ in calls[epoch * per_epoch : (epoch + 1) * per_epoch]])
        assert len(np.unique(used)) == per_epoch * m


def test_records_say_what_happened(bars, paper_settings):
    n, k = 48, 3
    trainer = Trainer(bars(n), paper_settings(n, k, epochs=3))
    make_targets, calls = spied_targets(trainer)
    run(trainer, make_targets, learning_rate=lambda spent: 2e-3)
    images_seen = set()
    for record, (batch, features) in zip(trainer.history, calls, strict=True):
        images_seen |= set(batch.tolist())
        assert record.stage == "clustering"
        assert record.learning_rate == 2e-3
        assert len(record.cluster_sizes) == k
        assert sum(record.cluster_sizes) == len(images_seen)
        assert record.mean_confidence == pytest.approx(features.max(dim=1).values.mean().item())
        p = features.mean(dim=0)
        assert record.entropy == pytest.approx(-(p * p.log()).sum().item(), abs=1e-4)
        assert record.entropy <= math.log(k) + 1e-6
        assert record.images_per_second > 0
        assert 0 <= record.relation_fallbacks <= record.iteration
    seconds = [record.seconds for record in trainer.history]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0
    assert [record.changed is None for record in trainer.history] == [True] * 3 + [False] * 6
    assert json.loads(json.dumps([record.as_json() for record in trainer.history]))


def test_losses_in_the_history_add_up_to_their_total_with_the_weights_of_the_settings(bars, paper_settings):
    weights = LossWeights(relation=2, transformation=3, attention=4, entropy=0.5)
    trainer = run(Trainer(bars(), paper_settings(loss_weights=weights)))
    for record in trainer.history:
        loss = record.losses
        assert set(loss) == {"relation", "transformation", "attention", "entropy", "total"}
        expected = 2 * loss["relation"] + 3 * loss["transformation"] + 4 * loss["attention"] + 0.5 * loss["entropy"]
        assert loss["total"] == pytest.approx(expected, rel=1e-4)
        assert -1 <= loss["transformation"] <= 0
        assert -2 * math.log(3) - 1e-5 <= loss["entropy"] <= 1e-5
        assert loss["relation"] >= 0
        assert loss["attention"] >= 0


def test_paper_targets_are_the_three_equations(bars, paper_settings):
    trainer = Trainer(bars(), paper_settings())
    corners = torch.arange(16) % 3
    features = 0.8 * torch.eye(3)[corners] + 0.2 / 3
    targets = trainer.paper_targets(np.arange(16), features)
    torch.testing.assert_close(targets.balanced, balanced_targets(features))
    torch.testing.assert_close(targets.sharpened, sharpened_targets(features))
    assert not targets.fell_back
    together = targets.assignments[:, None] == targets.assignments[None, :]
    assert torch.equal(together, corners[:, None] == corners[None, :])


def test_relation_fallbacks_are_counted(paper_settings):
    # Images that are all the same have one label feature, and k-means cannot part it.
    same = ImageSet(np.full((48, 8, 8, 1), 100, dtype=np.uint8), names=[str(i) for i in range(48)])
    trainer = run(Trainer(same, paper_settings(epochs=2)))
    assert [record.relation_fallbacks for record in trainer.history] == [1, 2, 3, 4, 5, 6]
    assert all(math.isfinite(loss) for record in trainer.history for loss in record.losses.values())


def test_no_fallback_is_counted_where_there_was_none(bars, paper_settings):
    trainer = Trainer(bars(), paper_settings())

    def make_targets(batch, features):
        return Targets(features, features, torch.from_numpy(batch % 3))

    run(trainer, make_targets)
    assert [record.relation_fallbacks for record in trainer.history] == [0, 0, 0]


def test_each_image_learns_its_own_target(bars, paper_settings):
    # Targets given from outside: if images and targets were paired wrongly, nothing could be learned.
    # The rate falls: with a constant one the last steps still move images, and which ones depends on the processor.
    trainer = Trainer(bars(), paper_settings(epochs=30))

    def make_targets(batch, features):
        classes = torch.from_numpy(batch % 3)
        return Targets(torch.eye(3)[classes], torch.eye(3)[classes], classes)

    run(trainer, make_targets, learning_rate=lambda spent: 5e-3 * (1 - spent))
    assert [trainer.clusters[i] for i in range(48)] == [i % 3 for i in range(48)]
    assert trainer.history[-1].losses["total"] < trainer.history[0].losses["total"] - 1


def test_learning_rate_is_a_function_of_the_share_that_is_spent(bars, paper_settings):
    trainer = run(Trainer(bars(), paper_settings(epochs=2)), learning_rate=lambda spent: 0.01 * (1 - spent))
    assert [record.learning_rate for record in trainer.history] == pytest.approx([0.01 * (1 - i / 6) for i in range(6)])


def test_learning_rate_is_in_force(bars, paper_settings):
    trainer = Trainer(bars(), paper_settings())
    before = parameters(trainer)
    run(trainer, learning_rate=lambda spent: 0.0)
    assert all(torch.equal(old, new) for old, new in zip(before, parameters(trainer), strict=True))
    trainer = Trainer(bars(), paper_settings())
    run(trainer)
    assert all(not torch.equal(old, new) for old, new in zip(before, parameters(trainer), strict=True))


@pytest.mark.parametrize(("m", "m2", "passes"), [(16, 8, 1), (16, 8, 3), (16, 5, 1), (16, 16, 2)])
def test_step_2_makes_m_by_m2_steps_in_each_pass(bars, paper_settings, m, m2, passes):
    spy = Spy()
    settings = paper_settings(batch_size=m, sub_batch=m2, training={"passes": passes})
    run(Trainer(bars(), settings, [spy]))
    assert len(spy.progress) == 3 * passes * (m // m2)


def test_callbacks_see_every_record_and_rising_progress(bars, paper_settings):
    spies = [Spy(), Spy()]
    trainer = run(Trainer(bars(), paper_settings(epochs=2), spies))
    for spy in spies:
        assert spy.records == trainer.history
        done = [progress.done for progress in spy.progress]
        assert done == sorted(done)
        assert 0 <= done[0] <= done[-1] <= 1
        assert {progress.stage for progress in spy.progress} == {"clustering"}
        for progress in spy.progress:
            if progress.done > 0:
                expected = progress.seconds * (1 - progress.done) / progress.done
                assert progress.seconds_left == pytest.approx(expected)
            else:
                assert progress.seconds_left is None


@pytest.mark.parametrize("stop_after", [1, 4])
def test_any_callback_may_stop_training_after_an_iteration(bars, paper_settings, stop_after):
    trainer = Trainer(bars(), paper_settings(epochs=50), [Spy(), Spy(stop_after)])
    run(trainer)
    assert len(trainer.history) == stop_after
    assert trainer.stopped


def test_time_budget_ends_training_when_its_clock_says_so(bars, paper_settings):
    class Clock(Callback):
        now = 0.0

        def on_record(self, record):
            self.now += 4.0

    clock = Clock()
    trainer = Trainer(bars(), paper_settings(epochs=1000), [clock])
    rates = []

    def learning_rate(spent):
        rates.append(spent)
        return 1e-3

    run(trainer, budget=TimeBudget(10, clock=lambda: clock.now), learning_rate=learning_rate)
    assert len(trainer.history) == 3  # at 0, 4 and 8 seconds; 12 is over
    assert rates == pytest.approx([0.0, 0.4, 0.8])


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_losses_are_finite_in_every_precision_of_a_cpu(bars, paper_settings, precision):
    trainer = run(Trainer(bars(), paper_settings(precision=precision)))
    assert all(math.isfinite(loss) for record in trainer.history for loss in record.losses.values())
    assert all(parameter.dtype == torch.float32 for parameter in trainer.network.parameters())


@pytest.mark.parametrize("augment", ["photo", "glyph", "none"])
def test_colour_images_are_transformed_into_what_the_network_takes(augment):
    pixels = np.random.default_rng(0).integers(0, 256, (20, 12, 8, 3), dtype=np.uint8)
    form = ImageSettings(size=(12, 8), channels=3, grey=True, augment=augment)
    settings = make_settings(
        n_clusters=2, n_images=20, images=form, seed=0, recipe="paper", epochs=1, sub_batch=10, device="cpu"
    )
    trainer = Trainer(ImageSet(pixels, [str(i) for i in range(20)]), settings)
    assert trainer.transformed(np.arange(5)).shape == (5, 1, 12, 8)
    run(trainer)
    assert math.isfinite(trainer.history[-1].losses["total"])


def photos(n: int, side: int) -> ImageSet:
    """Colour images of bright rectangles on noise."""
    random = np.random.default_rng(0)
    pixels = random.integers(0, 90, (n, side, side, 3), dtype=np.uint8)
    for image in pixels:
        top, left = random.integers(0, side // 2, 2)
        image[top : top + side // 2, left : left + side // 3, random.integers(3)] += 150
    return ImageSet(pixels, [str(i) for i in range(n)])


# The same at m2 = 32 takes minutes, on 96x96 pixels an hour: benchmarks/presets.py.
@pytest.mark.parametrize(
    ("preset", "side", "m2", "steps"), [("cifar10", 32, 2, 200), ("cifar10", 32, 32, 4), ("stl10", 96, 4, 3)]
)
def test_presets_train_by_the_papers_recipe_with_finite_losses(preset, side, m2, steps):
    n = m2 * steps // 2 if steps > 10 else m2 * steps
    settings = make_settings(
        n_clusters=10,
        n_images=n,
        images=ImageSettings(size=(side, side), channels=3, grey=True, augment="photo"),
        seed=0,
        recipe="paper",
        preset=preset,
        epochs=m2 * steps // n,
        sub_batch=m2,
        device="cpu",
    )
    spy = Spy()
    trainer = run(Trainer(photos(n, side), settings, [spy]))
    assert len(spy.progress) == steps
    assert all(math.isfinite(loss) for record in trainer.history for loss in record.losses.values())
    assert all(torch.isfinite(value).all() for value in trainer.network.state_dict().values())


PEAK_OF_ONE_EPOCH = """
import sys
import numpy as np
from gatcluster.config import ImageSettings, make_settings
from gatcluster.data.images import ImageSet
from gatcluster.learning.trainer import Trainer

n, batch_size = 20_000, int(sys.argv[1])
pixels = np.random.default_rng(0).integers(0, 256, (n, 8, 8, 1), dtype=np.uint8)
settings = make_settings(
    n_clusters=2, n_images=n, images=ImageSettings(size=(8, 8), channels=1, grey=False, augment="none"), seed=0,
    recipe="paper", epochs=1, batch_size=batch_size, sub_batch=500, device="cpu",
)
settings = settings.model_copy(update={"network": settings.network.model_copy(update={"width": 4})})
trainer = Trainer(ImageSet(pixels, range(n)), settings)
trainer.algorithm_1(trainer.paper_targets, trainer.budget, lambda spent: 1e-3)
assert len(trainer.history) == n // batch_size
# Not getrusage: its maximum is handed down from the process that started this one.
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def test_memory_does_not_grow_with_the_square_of_the_batch():
    def peak_megabytes(batch_size):
        command = [sys.executable, "-c", PEAK_OF_ONE_EPOCH, str(batch_size)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return int(done.stdout) / 1024

    # A matrix of 14,000 x 14,000 would take 780 MB as floats and 196 MB as booleans.
    assert peak_megabytes(14_000) < peak_megabytes(1_000) + 100
