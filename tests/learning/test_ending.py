"""What follows training is timed before it begins, and kept back from the minutes of a run."""

import copy

import pytest
import torch

from gatcluster.learning import ending
from gatcluster.learning.ending import keep_back_the_end
from gatcluster.learning.fit import fit
from gatcluster.learning.training import Training

N_IMAGES, MINUTES = 3000, 10


@pytest.fixture
def _slow_machine(monkeypatch):
    """A clock that passes only where images are looked at: 3 s for statistics, 0.01 s for an image."""
    now = 0.0

    def slow_refresh(*arguments):
        nonlocal now
        now += 3

    def slow_infer(network, function, images, settings, chosen, tell):
        nonlocal now
        now += 10 if now == 0 else 0.01 * len(chosen)  # the first time takes longer

    monkeypatch.setattr(ending, "refresh_statistics", slow_refresh)
    monkeypatch.setattr(ending, "infer", slow_infer)
    monkeypatch.setattr(ending.time, "monotonic", lambda: now)


@pytest.mark.usefixtures("_slow_machine")
@pytest.mark.parametrize("with_statistics", [True, False])
def test_a_look_at_all_images_and_a_margin_are_kept_back(bars, paper_settings, with_statistics):
    training = Training(bars(N_IMAGES), paper_settings(N_IMAGES, minutes=MINUTES))
    share = keep_back_the_end(training, with_statistics)
    kept = training.budget.state()["kept_back"]
    assert kept == pytest.approx(3 * with_statistics + 1.15 * 30 + 0.03 * 600)
    assert share == pytest.approx(30 / (600 - kept))


def test_where_epochs_are_counted_nothing_is_looked_at(bars, paper_settings, monkeypatch):
    monkeypatch.setattr(ending, "infer", lambda *_: pytest.fail("there is nothing to time"))
    training = Training(bars(), paper_settings(epochs=1))
    assert keep_back_the_end(training, with_statistics=True) == 0
    assert training.budget.spent == 0


def test_timing_without_statistics_leaves_network_and_random_numbers_as_they_were(bars, paper_settings):
    training = Training(bars(), paper_settings(minutes=MINUTES))
    before = {name: tensor.clone() for name, tensor in training.network.state_dict().items()}
    drawn = training.random_streams.state()
    keep_back_the_end(training, with_statistics=False)
    assert all(torch.equal(tensor, before[name]) for name, tensor in training.network.state_dict().items())
    assert str(training.random_streams.state()) == str(drawn)


class LastStep:
    """Keeps the state after the latest step."""

    def __init__(self):
        self.state = None

    def kept(self):
        return self.state

    def after_step(self, state):
        self.state = copy.deepcopy(state())

    def after_stage(self, state):
        pass


@pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning")
def test_the_papers_recipe_keeps_it_back_at_the_beginning_and_not_again_when_resumed(bars, paper_settings, monkeypatch):
    timed = []
    monkeypatch.setattr("gatcluster.learning.fit.keep_back_the_end", lambda *_, **given: timed.append(given))
    keeper = LastStep()
    for _ in range(2):
        fit(bars(), paper_settings(minutes=0.01), keeper=keeper)
        assert timed == [{"with_statistics": False}]
