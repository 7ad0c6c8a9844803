"""A training that is broken off after any step and goes on from its state ends as if it had never been broken off."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from gatcluster.config import ImageSettings, Settings, make_settings
from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError
from gatcluster.learning import fast, training
from gatcluster.learning.fit import FitResult, fit
from gatcluster.learning.state import OptimizerState, Parts, RandomState
from gatcluster.runs.state_file import from_bytes, to_bytes

pytestmark = [
    pytest.mark.usefixtures("_little_priming"),
    pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning"),
]


class _BrokenOff(BaseException):
    """As if the plug was pulled."""


class Keeper:
    """Keeps states in memory: of all steps and stages, or of the step after which it breaks off."""

    def __init__(self, kept=None, break_off_after: int | None = None) -> None:
        self._kept, self._last = kept, break_off_after
        self.states = []  # of steps
        self.stages = []

    def kept(self):
        return self._kept

    def after_step(self, state):
        self.states.append(copy.deepcopy(state()))
        if len(self.states) == self._last:
            raise _BrokenOff

    def after_stage(self, state):
        self.stages.append(copy.deepcopy(state()))


@pytest.fixture
def _little_priming(monkeypatch):
    monkeypatch.setattr(fast, "_PRIMING_STEPS", 3)


def images() -> ImageSet:
    random = np.random.default_rng(0)
    pixels = random.integers(0, 60, (44, 8, 8, 1), dtype=np.uint8)
    for i in range(len(pixels)):
        pixels[i, :, 3 * (i % 3) : 3 * (i % 3) + 2] += 190
    return ImageSet(pixels, names=[f"{i}.png" for i in range(len(pixels))])


def settings(recipe: str, **choices: object) -> Settings:
    form = ImageSettings(size=(8, 8), channels=1, grey=False, augment="glyph")
    made = make_settings(
        n_clusters=3,
        n_images=44,
        images=form,
        seed=0,
        recipe=recipe,
        device="cpu",
        batch_size=16 if recipe == "paper" else 32,
        sub_batch=5 if recipe == "paper" else 16,
        **{"epochs": 3, **choices},
    )
    passes = made.training.model_copy(update={"passes": 2 if recipe == "paper" else 1})
    return made.model_copy(update={"network": made.network.model_copy(update={"width": 4}), "training": passes})


def through_a_file(state):
    """As a process finds it that goes on from a checkpoint."""
    return from_bytes(to_bytes(state))


def weights(result: FitResult) -> bytes:
    return b"".join(tensor.contiguous().numpy().tobytes() for tensor in result.network.state_dict().values())


def plain(result: FitResult) -> list[dict[str, object]]:
    """The history but for its clocks."""
    clocks = ("seconds", "images_per_second")
    return [{k: v for k, v in record.as_json().items() if k not in clocks} for record in result.history]


def assert_same(resumed: FitResult, unbroken: FitResult) -> None:
    assert weights(resumed) == weights(unbroken)
    assert resumed.label_features.tobytes() == unbroken.label_features.tobytes()
    assert plain(resumed) == plain(unbroken)
    for one, other in zip(resumed.snapshots, unbroken.snapshots, strict=True):
        np.testing.assert_array_equal(one, other)
    seconds = [record.seconds for record in resumed.history]
    assert seconds == sorted(seconds)


CASES = {
    "paper": settings("paper"),
    "paper with patience": settings("paper", patience=1, epochs=4),
    "fast": settings("fast", epochs=7),
    "fast in 16 bits": settings("fast", epochs=7, precision="bf16-mixed"),
    "fast with patience": settings("fast", epochs=7, patience=1, learning_rate=1e-9),
}


@pytest.mark.parametrize("name", CASES)
def test_gone_on_from_any_step_and_stage_it_is_the_same_run(name):
    keeper = Keeper()
    unbroken = fit(images(), CASES[name], keeper=keeper)
    assert_same(fit(images(), CASES[name]), unbroken)  # to take states changes nothing
    n = len(keeper.states)
    assert n > 10
    # In the first and in the last iteration, in its middle, before and after its end; and after every stage.
    chosen = [0, n // 3, n // 2, n // 2 + 1, n - 2, n - 1] if "patience" not in name else [n // 2, n - 1]
    for state in [*(keeper.states[step] for step in chosen), *keeper.stages]:
        assert_same(fit(images(), CASES[name], keeper=Keeper(kept=through_a_file(state))), unbroken)


def poisoned(monkeypatch, steps: range):
    """A fit in which a gradient is not a number at these steps, counted from the beginning of the unbroken run."""
    build_network = training.build_network

    def fit_after(done: int, chosen: Settings, keeper: Keeper) -> FitResult:
        step = done

        def hook(gradient):
            nonlocal step
            step += 1
            return gradient * (math.nan if step in steps else 1.0)

        def build(settings):
            network = build_network(settings)
            next(network.parameters()).register_hook(hook)
            return network

        monkeypatch.setattr(training, "build_network", build)
        return fit(images(), chosen, keeper=keeper)

    return fit_after


# In `paper` an iteration has six steps, in `fast` two: a sound step lies between the good state and the first poison.
@pytest.mark.parametrize(("name", "first"), [("paper", 9), ("fast", 6)])
def test_gone_on_around_steps_that_are_not_finite_it_goes_back_to_the_same_good_state(monkeypatch, name, first):
    fit_after, keeper = poisoned(monkeypatch, range(first, first + 3)), Keeper()
    unbroken = fit_after(0, CASES[name], keeper)
    assert sum(record.skipped_steps for record in unbroken.history) == 3
    assert [action for record in unbroken.history for action in record.actions] == [
        "went back to the last good state 1 times"
    ]
    for done in range(first - 3, first + 5):
        state = through_a_file(keeper.states[done - 1])
        assert_same(fit_after(done, CASES[name], Keeper(kept=state)), unbroken)


def test_a_run_may_be_broken_off_again_and_again():
    unbroken = fit(images(), CASES["fast"])
    kept = None
    while True:
        keeper = Keeper(kept, break_off_after=3)
        try:
            result = fit(images(), CASES["fast"], keeper=keeper)
            break
        except _BrokenOff:
            kept = keeper.states[-1]
    assert_same(result, unbroken)


@pytest.mark.parametrize("recipe", ["paper", "fast"])
def test_of_a_time_budget_only_the_rest_is_left_to_a_resumed_run(recipe):
    broken = Keeper(break_off_after=3)
    long = settings(recipe, epochs=None, minutes=60)
    with pytest.raises(_BrokenOff):
        fit(images(), long, keeper=broken)
    state = broken.states[-1]
    assert 0 < state["budget"]["seconds"] < 60
    state["budget"]["seconds"] = 3600.0 - 1e-3
    resumed = Keeper(kept=state)
    fit(images(), long, keeper=resumed)
    # The steps that each stage makes at least, and no more.
    assert len(resumed.states) <= 6


def test_no_state_is_asked_for_unless_the_keeper_wants_it():
    class Asks(Keeper):
        def after_step(self, state):
            assert callable(state)

    fit(images(), settings("paper", epochs=1), keeper=Asks())


def test_a_state_that_does_not_fit_is_an_error_that_names_the_part():
    broken = Keeper(break_off_after=1)
    with pytest.raises(_BrokenOff):
        fit(images(), CASES["paper"], keeper=broken)
    (state,) = broken.states
    name, tensor = next(iter(state["network"].items()))
    state["network"][name] = torch.zeros(1, *tensor.shape)
    with pytest.raises(InputError, match="the state of 'network' in the checkpoint does not fit this run"):
        fit(images(), CASES["paper"], keeper=Keeper(kept=state))


def test_random_numbers_go_on():
    def generators():
        return np.random.default_rng(3), torch.Generator().manual_seed(3)

    random, torch_random = generators()
    random.random(5), torch.rand(5, generator=torch_random)
    state = copy.deepcopy(RandomState(random, torch_random).state())
    numbers = random.random(5), torch.rand(5, generator=torch_random)
    fresh = generators()
    RandomState(*fresh).restore(state)
    np.testing.assert_array_equal(fresh[0].random(5), numbers[0])
    assert torch.equal(torch.rand(5, generator=fresh[1]), numbers[1])


def test_an_optimizer_goes_on_with_its_momenta():
    def stepped(n, kept=None):
        weight = torch.nn.Parameter(torch.ones(3))
        optimizer = torch.optim.Adam([weight], lr=0.1)
        if kept is not None:
            weight.data.copy_(kept[0])
            OptimizerState(optimizer).restore(kept[1])
        for _ in range(n):
            optimizer.zero_grad()
            weight.pow(3).sum().backward()
            optimizer.step()
        return weight.detach().clone(), copy.deepcopy(OptimizerState(optimizer).state())

    assert torch.equal(stepped(2, stepped(3))[0], stepped(5)[0])
    kept = stepped(1)
    kept[1]["optimizers"][0]["memories"][0]["exp_avg"] = torch.ones(4)
    with pytest.raises(ValueError, match="momentum of shape"):
        stepped(1, kept)


def test_a_part_takes_its_state_once():
    class Counter:
        count = 0

        def state(self):
            return {"count": self.count}

        def restore(self, state):
            self.count = state["count"]

    parts = Parts({"counter": {"count": 3}, "gone": {}})
    assert parts.add("counter", Counter()).count == 3
    assert parts.add("counter", Counter()).count == 0
    parts.add("other", Counter())
    parts.drop("other")
    assert parts.state() == {"counter": {"count": 0}}
