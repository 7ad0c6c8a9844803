"""A fit from images to label features: repeatable, without labels, and honest about what came of it."""

import dataclasses
import inspect
import math
import warnings

import numpy as np
import pytest
import torch

from gatcluster.data.images import ImageSet
from gatcluster.errors import ConvergenceWarning, InputError
from gatcluster.learning.callbacks import Callback
from gatcluster.learning.fit import check_fittable, fit
from gatcluster.model.inference import label_features

# A fit of a few steps may well leave clusters empty; what it says then is tested by name.
pytestmark = pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning")


def same_images(n: int = 16) -> ImageSet:
    return ImageSet(np.full((n, 8, 8, 1), 100, dtype=np.uint8), names=[str(i) for i in range(n)])


def test_result_holds_everything_about_the_run(bars, paper_settings):
    images, settings = bars(), paper_settings(epochs=2)
    result = fit(images, settings)
    assert result.settings == settings
    assert len(result.history) == 2 * 3
    assert result.label_features.shape == (48, 3)
    np.testing.assert_allclose(result.label_features.sum(axis=1), 1, rtol=1e-5)
    assert not result.network.training
    assert all(parameter.device.type == "cpu" for parameter in result.network.parameters())


def test_predicting_the_training_images_gives_what_fit_gave(bars, paper_settings):
    result = fit(bars(), paper_settings())
    np.testing.assert_array_equal(label_features(result.network, bars(), result.settings), result.label_features)


@pytest.mark.parametrize("augment", ["none", "photo"])
def test_same_seed_is_the_same_run_bit_for_bit_and_another_seed_is_another(bars, paper_settings, augment):
    def features(seed):
        settings = paper_settings(seed=seed, epochs=2)
        form = settings.images.model_copy(update={"augment": augment})
        return fit(bars(), settings.model_copy(update={"images": form})).label_features

    first = features(5)
    np.testing.assert_array_equal(features(5), first)
    assert not np.allclose(features(6), first)


def test_a_run_does_not_depend_on_the_users_random_state_nor_change_it(bars, paper_settings):
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002 (the global state is what is tested)
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
    first = fit(bars(), paper_settings()).label_features
    assert torch.equal(torch.get_rng_state(), torch_state)
    after = np.random.get_state()  # noqa: NPY002
    assert (after[1] == numpy_state[1]).all()
    assert after[2:] == numpy_state[2:]
    torch.manual_seed(2)
    np.random.seed(2)  # noqa: NPY002
    np.testing.assert_array_equal(fit(bars(), paper_settings()).label_features, first)


def test_labels_cannot_leak_because_there_is_nowhere_to_give_them(bars, paper_settings):
    assert list(inspect.signature(fit).parameters) == ["images", "settings", "callbacks", "keeper"]
    assert not [field.name for field in dataclasses.fields(ImageSet) if "label" in field.name or "class" in field.name]
    # Names may hold class folders: they change nothing.
    named = dataclasses.replace(bars(), names=[f"class-{i % 3}/{i}.png" for i in range(48)])
    first = fit(bars(), paper_settings()).label_features
    np.testing.assert_array_equal(fit(named, paper_settings()).label_features, first)


def test_unused_clusters_are_said_in_plain_words(paper_settings):
    with pytest.warns(ConvergenceWarning, match=r"only 1 of the 3 clusters asked for .* Train longer, ask for fewer"):
        fit(same_images(), paper_settings(16))


def test_nothing_is_said_when_all_clusters_are_used(bars, paper_settings):
    # Which seed fills all clusters within a few steps is chance; take the first that does.
    for seed in range(20):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = fit(bars(), paper_settings(seed=seed, k=2, epochs=4))
        used = len(np.unique(result.label_features.argmax(axis=1)))
        assert any(issubclass(one.category, ConvergenceWarning) for one in caught) is (used < 2)
        if used == 2:
            return
    pytest.fail("no seed used both clusters")


def test_a_time_budget_ends_the_run(bars, paper_settings):
    result = fit(bars(), paper_settings(minutes=0.01))
    assert result.label_features.shape == (48, 3)
    assert all(math.isfinite(loss) for record in result.history for loss in record.losses.values())


def test_patience_stops_a_run_whose_assignments_stand_still(paper_settings):
    # All images the same, and hardly a learning rate: no assignment changes once the running statistics have settled.
    settings = paper_settings(16, epochs=300, patience=2, learning_rate=1e-12)
    result = fit(same_images(), settings)
    assert 4 <= len(result.history) < 100
    assert [record.changed for record in result.history[-3:]] == [0, 0, 0]


def test_callbacks_look_on_and_may_stop_the_run(bars, paper_settings):
    class StopAtTwo(Callback):
        records = 0

        def on_record(self, record):
            self.records += 1

        def wants_stop(self):
            return self.records == 2

    result = fit(bars(), paper_settings(epochs=50), [StopAtTwo()])
    assert len(result.history) == 2


def test_all_finite_on_black_and_on_white_images(paper_settings):
    for value in (0, 255):
        images = ImageSet(np.full((16, 8, 8, 1), value, dtype=np.uint8), names=[str(i) for i in range(16)])
        assert np.isfinite(fit(images, paper_settings(16, epochs=3)).label_features).all()


def test_missing_device_is_refused_before_training(monkeypatch, bars, paper_settings):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for device in ("cuda", "mps"):
        with pytest.raises(InputError, match=f"'{device}' was asked for.* give 'auto' or 'cpu'"):
            fit(bars(), paper_settings(device=device))


def test_images_too_small_for_the_preset_are_refused_before_training(bars, paper_settings):
    with pytest.raises(InputError, match="at least 16"):
        check_fittable(paper_settings(preset="cifar10"))
    check_fittable(paper_settings())
