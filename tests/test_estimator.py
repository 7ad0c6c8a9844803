"""GATCluster, as scikit-learn's tools and a person with images use it."""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from gatcluster import Callback, ConvergenceWarning, GATCluster, InputError, LossWeights
from gatcluster.evaluation.label_free import information_score
from gatcluster.evaluation.metrics import clustering_accuracy

# Most tests train for two epochs: what they ask does not depend on how good the clusters are.
pytestmark = pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning")

N = 24


def colour_images(n: int = N, side: int = 8) -> np.ndarray:
    """RGB images (n, side, side, 3), uint8: dark ones, then light ones, with noise."""
    noise = np.random.default_rng(0).integers(0, 60, size=(n, side, side, 3))
    noise[n // 2 :] += 190
    return noise.astype(np.uint8)


def grey_images(n: int = N, side: int = 8) -> np.ndarray:
    """Grey images (n, side, side), floats in [0, 1]: dark ones, then light ones."""
    return colour_images(n, side)[..., 0] / 255


def quick(n_clusters: int = 2, **parameters: object) -> GATCluster:
    return GATCluster(n_clusters, **{"epochs": 2, "random_state": 0, **parameters})


@pytest.fixture(scope="module")
def fitted() -> GATCluster:
    """Fitted to ``grey_images()``; tests must not change it."""
    return quick(3).fit(grey_images())


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder with the images of ``colour_images()`` as PNG files."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, pixels in enumerate(colour_images()):
        Image.fromarray(pixels).save(folder / f"{number:02}.png")
    return folder


# --- scikit-learn's own checks ---

ASKS_FOR_ONE_CLUSTER = "the check sets n_clusters=1, and one cluster is no clustering: fewer than 2 are refused"
EXCEPTIONS = {
    "check_dont_overwrite_parameters": ASKS_FOR_ONE_CLUSTER,
    "check_methods_subset_invariance": ASKS_FOR_ONE_CLUSTER,
    "check_fit2d_1feature": ASKS_FOR_ONE_CLUSTER,
    "check_fit2d_predict1d": ASKS_FOR_ONE_CLUSTER,
}


@parametrize_with_checks(
    [GATCluster(n_clusters=3, epochs=2, random_state=0)], expected_failed_checks=lambda _: EXCEPTIONS
)
def test_scikit_learn_tools_can_rely_on_the_estimator(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it scikit-learn skips its check of array API dispatch
    check(estimator)


def test_scikit_learn_s_check_of_clusters_holds_after_training():
    model = GATCluster(n_clusters=3, recipe="paper", epochs=10, sub_batch=10, random_state=0)
    estimator_checks.check_clustering("GATCluster", model)


class TwoClusters(GATCluster):
    """Has two clusters, whatever is asked for."""

    n_clusters = property(lambda self: 2, lambda self, value: None)


@pytest.mark.parametrize("name", [name for name, reason in EXCEPTIONS.items() if reason == ASKS_FOR_ONE_CLUSTER])
def test_the_checks_that_ask_for_one_cluster_hold_for_two(name):
    getattr(estimator_checks, name)("GATCluster", TwoClusters(2, epochs=2, random_state=0))


# --- scikit-learn's tools ---


def test_a_clone_has_the_same_parameters_and_no_fit(fitted):
    model = clone(fitted.set_params(loss_weights=LossWeights(entropy=2)))
    fitted.set_params(loss_weights=None)
    assert model.get_params() == {**fitted.get_params(), "loss_weights": LossWeights(entropy=2)}
    with pytest.raises(NotFittedError):
        model.predict(grey_images())


def test_a_pickled_estimator_predicts_the_same(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(copy.predict_proba(grey_images()), fitted.predict_proba(grey_images()))
    assert_array_equal(copy.labels_, fitted.labels_)
    assert copy.history_ == fitted.history_


def test_a_pipeline_of_rows_predicts_its_own_labels():
    rows = np.random.default_rng(0).normal(size=(N, 12)) * 100
    pipeline = make_pipeline(MinMaxScaler(), quick(3)).fit(rows)
    assert_array_equal(pipeline.predict(rows), pipeline[-1].labels_)
    assert pipeline.transform(rows).shape == (N, 3)


def test_a_pipeline_may_turn_rows_into_images():
    rows = grey_images().reshape(N, 64)
    pipeline = make_pipeline(FunctionTransformer(lambda rows: rows.reshape(-1, 8, 8)), quick())
    assert_array_equal(pipeline.fit_predict(rows), quick().fit_predict(grey_images()))


def test_a_grid_search_chooses_by_the_label_free_score():
    search = GridSearchCV(quick(), {"n_clusters": np.arange(2, 4)}, cv=2).fit(grey_images())
    assert set(search.cv_results_["param_n_clusters"]) == {2, 3}
    assert ((search.cv_results_["mean_test_score"] >= 0) & (search.cv_results_["mean_test_score"] <= 1)).all()
    assert search.predict(grey_images()).shape == (N,)


def test_a_grid_search_may_score_against_labels():
    truth = np.arange(N) % 2
    search = GridSearchCV(quick(), {"epochs": [1, 2]}, cv=2, scoring="adjusted_rand_score")
    search.fit(grey_images(), truth)
    expected = adjusted_rand_score(truth, search.best_estimator_.predict(grey_images()))
    assert search.score(grey_images(), truth) == expected


def test_a_grid_search_takes_a_list_of_paths(photos):
    paths = sorted(str(path) for path in photos.iterdir())
    search = GridSearchCV(quick(), {"n_clusters": [2]}, cv=2).fit(paths)
    assert search.best_estimator_.names_ == paths


def test_set_output_makes_transform_a_data_frame_and_leaves_predict_alone(fitted):
    model = pickle.loads(pickle.dumps(fitted)).set_output(transform="pandas")
    frame = model.transform(grey_images())
    assert list(frame.columns) == ["gatcluster0", "gatcluster1", "gatcluster2"]
    assert_array_equal(frame.to_numpy(), fitted.transform(grey_images()))
    assert_array_equal(model.predict(grey_images()), fitted.labels_)
    assert isinstance(model.predict_proba(grey_images()), np.ndarray)
    assert model.score(grey_images()) == fitted.score(grey_images())


def test_feature_names_out_are_one_for_each_cluster(fitted):
    assert list(fitted.get_feature_names_out()) == ["gatcluster0", "gatcluster1", "gatcluster2"]


def test_the_score_is_the_information_of_the_label_features(fitted):
    assert fitted.score(grey_images()) == information_score(fitted.label_features_)


# --- what it takes ---


def colour_forms(photos: Path) -> dict[str, object]:
    """The same colour images, in every form that fit takes."""
    pixels = colour_images()
    floats = pixels.astype(np.float32) / np.float32(255)
    return {
        "NHWC uint8": pixels,
        "NHWC float32": floats,
        "NHWC float64": floats.astype(np.float64),
        "NHWC int64": pixels.astype(np.int64),
        "NCHW uint8": np.moveaxis(pixels, 3, 1),
        "NCHW float": np.moveaxis(floats, 3, 1),
        "NCHW tensor uint8": torch.from_numpy(pixels).permute(0, 3, 1, 2),
        "NCHW tensor float": torch.from_numpy(floats).permute(0, 3, 1, 2).requires_grad_(),
        "NHWC tensor": torch.from_numpy(pixels),
        "list of str": sorted(str(path) for path in photos.iterdir()),
        "list of Path": sorted(photos.iterdir()),
        "folder": photos,
        "folder as str": str(photos),
    }


def test_every_form_of_the_same_colour_images_gives_the_same_clusters(photos):
    model = quick(3, epochs=1).fit(colour_images())
    for name, form in colour_forms(photos).items():
        assert_allclose(model.predict_proba(form), model.label_features_, atol=1e-6, err_msg=name)
        assert_allclose(clone(model).fit(form).label_features_, model.label_features_, atol=1e-3, err_msg=name)


def test_every_form_of_the_same_grey_images_gives_the_same_clusters(tmp_path):
    pixels = colour_images()[..., 0]
    np.save(tmp_path / "images.npy", pixels)
    model = quick(3, epochs=1).fit(pixels)
    forms = [pixels / 255, torch.from_numpy(pixels), pixels[..., None], pixels[:, None], tmp_path / "images.npy"]
    for form in forms:
        assert_allclose(model.predict_proba(form), model.label_features_, atol=1e-6)
        assert_allclose(clone(model).fit(form).label_features_, model.label_features_, atol=1e-3)


def test_images_of_a_folder_keep_their_names_and_unreadable_files_are_named(photos, tmp_path):
    (photos / "broken.png").write_bytes(b"no image")
    (photos / "notes.txt").write_text("no image either")
    model = quick().fit(photos)
    assert model.names_ == [f"{number:02}.png" for number in range(N)]
    assert [file.name for file in model.skipped_] == ["broken.png"]
    model.save(tmp_path / "run")
    assert GATCluster.load(tmp_path / "run").skipped_ == model.skipped_
    assert model.labels_.shape == (N,)


def test_images_of_an_array_are_named_by_position(fitted):
    assert fitted.names_ == [str(number) for number in range(N)]


def test_a_data_frame_of_rows_is_clustered():
    frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(N, 5)), columns=list("abcde"))
    model = quick().fit(frame)
    assert list(model.feature_names_in_) == list("abcde")
    assert_array_equal(model.predict(frame), model.labels_)


def test_fit_leaves_the_array_as_it_was_and_takes_one_that_cannot_be_written():
    images = grey_images()
    images.setflags(write=False)
    before = images.copy()
    quick().fit(images).predict(images)
    assert_array_equal(images, before)


@pytest.mark.parametrize(("image_size", "size"), [(16, (16, 16)), ((16, 24), (16, 24)), (np.int64(12), (12, 12))])
def test_image_size_resizes_arrays_at_fit_and_at_predict(image_size, size):
    model = quick(image_size=image_size).fit(grey_images())
    assert model.settings_.images.size == size
    assert_array_equal(model.predict(grey_images()), model.labels_)


def test_a_preset_of_the_paper_is_trained_and_brings_files_to_its_size(photos):
    model = quick(preset="cifar10", epochs=1).fit(photos)
    assert model.settings_.images.size == (32, 32)
    assert model.attention_maps(photos).shape == (N, 5, 5)


def test_colour_decides_whether_the_network_sees_colours(photos):
    shapes = {
        colour: next(quick(colour=colour, epochs=1).fit(photos).network_.parameters()).shape[1]
        for colour in ("auto", "grey", "colour", "ink")
    }
    assert shapes == {"auto": 3, "grey": 1, "colour": 3, "ink": 1}


def test_dark_and_light_images_are_told_apart():
    model = GATCluster(2, recipe="paper", epochs=15, random_state=0, augment="glyph", sub_batch=6)
    assert adjusted_rand_score(np.arange(N) >= N // 2, model.fit_predict(grey_images())) == 1


# --- what it gives ---


def drawings_in_any_colours(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Bars, frames and discs of any pen on any paper, (n, 16, 16, 3), and which is which, (n,)."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:16, :16]
    kinds = np.arange(n) % 3
    images = np.empty((n, 16, 16, 3), np.uint8)
    for image, kind in zip(images, kinds, strict=True):
        across, down = (np.abs(axis - random.uniform(6, 9)) / random.uniform(0.8, 1.2) for axis in (x, y))
        bar, frame = np.maximum(across - 1.5, down - 5), np.abs(np.maximum(across, down) - 4) - 1
        outside = (bar, frame, np.hypot(across, down) - 4)[kind]  # how many pixels from the nearest ink
        paper = random.integers(0, 256, 3)
        pen = (paper + random.integers(80, 177, 3)) % 256
        image[:] = paper + (pen - paper) * (0.5 - outside).clip(0, 1)[..., None]
    return images, kinds


def test_drawings_are_told_apart_whatever_their_colours_and_their_paper():
    images, kinds = drawings_in_any_colours(300, seed=0)
    model = GATCluster(3, epochs=12, random_state=0).fit(images)
    assert model.settings_.images.ink
    assert clustering_accuracy(kinds, model.labels_) > 0.95
    others, kinds_of_others = drawings_in_any_colours(60, seed=1)
    assert clustering_accuracy(kinds_of_others, model.predict(others)) > 0.95


def test_predict_on_the_training_images_gives_labels(fitted):
    assert_array_equal(fitted.predict(grey_images()), fitted.labels_)
    assert fitted.labels_.dtype == np.int64
    assert set(fitted.labels_) <= {0, 1, 2}


def test_fit_predict_gives_labels():
    model = quick()
    assert_array_equal(model.fit_predict(grey_images()), model.labels_)


def test_predict_proba_and_transform_are_the_label_features_whose_rows_sum_to_one(fitted):
    features = fitted.predict_proba(grey_images())
    assert features.shape == (N, 3)
    assert (features >= 0).all()
    assert_allclose(features.sum(axis=1), 1, atol=1e-5)
    assert_array_equal(features, fitted.transform(grey_images()))
    assert_array_equal(features, fitted.label_features_)
    assert_array_equal(features.argmax(axis=1), fitted.labels_)
    assert_array_equal(clone(fitted).fit_transform(grey_images()), features)


def test_attention_maps_are_one_for_each_image_between_zero_and_one(fitted):
    maps = fitted.attention_maps(grey_images(10))
    height, width = fitted.network_.backbone.map_size
    assert maps.shape == (10, height, width)
    assert (maps > 0).all()
    assert (maps <= 1).all()
    assert maps.std() > 0


def test_history_has_a_record_for_each_outer_iteration():
    model = quick(3, recipe="paper", epochs=3, batch_size=12).fit(grey_images())
    assert [record.iteration for record in model.history_] == [1, 2, 3, 4, 5, 6]
    assert [record.epoch for record in model.history_] == [1, 1, 2, 2, 3, 3]
    last = model.history_[-1]
    assert sum(last.cluster_sizes) == N
    assert len(last.cluster_sizes) == 3
    assert np.isfinite(list(last.losses.values())).all()
    assert set(last.losses) >= {"relation", "transformation", "attention", "entropy", "total"}
    assert 1 / 3 <= last.mean_confidence <= 1
    assert last.images_per_second > 0


def test_one_image_may_be_predicted(fitted):
    assert_array_equal(fitted.predict(grey_images()[:1]), fitted.labels_[:1])


@pytest.mark.parametrize("method", ["predict", "predict_proba", "transform", "attention_maps", "score"])
def test_what_needs_a_fit_says_so(method):
    with pytest.raises(NotFittedError, match="not fitted"):
        getattr(quick(), method)(grey_images())


# --- randomness ---


def features_with(random_state: object) -> np.ndarray:
    return quick(3, random_state=random_state).fit(grey_images()).label_features_


def test_the_same_int_gives_the_same_result_and_another_int_another():
    assert_array_equal(features_with(3), features_with(3))
    assert not np.array_equal(features_with(3), features_with(4))


def test_fitting_again_gives_the_same_result():
    model = quick(3)
    assert_array_equal(model.fit(grey_images()).label_features_, model.fit(grey_images()).label_features_)


def test_a_random_state_is_drawn_from():
    first, second = np.random.RandomState(1), np.random.RandomState(1)
    assert_array_equal(features_with(first), features_with(second))
    assert not np.array_equal(features_with(first), features_with(np.random.RandomState(1)))


def test_none_follows_numpy_s_global_seed_as_everywhere_in_scikit_learn():
    state = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(5)  # noqa: NPY002
        first, other = features_with(None), features_with(None)
        np.random.seed(5)  # noqa: NPY002
        assert_array_equal(features_with(None), first)
        assert not np.array_equal(first, other)
    finally:
        np.random.set_state(state)  # noqa: NPY002


@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_no_global_random_state_is_touched(recipe):
    def states() -> tuple[object, ...]:
        legacy = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
        return random.getstate(), legacy["key"].tolist(), legacy["pos"], torch.get_rng_state().tolist()

    before = states()
    model = quick(recipe=recipe).fit(grey_images())
    model.predict(grey_images())
    model.attention_maps(grey_images())
    assert states() == before


def test_labels_never_reach_the_training():
    labels = np.arange(N) % 2
    with_labels, without = quick(3).fit(grey_images(), labels), quick(3).fit(grey_images())
    assert_array_equal(with_labels.label_features_, without.label_features_)
    assert with_labels.score(grey_images(), labels) == without.score(grey_images())


# --- what it says ---


def test_empty_clusters_are_a_warning_that_counts_them():
    alike = np.full((N, 8, 8), 0.5)
    with pytest.warns(ConvergenceWarning, match="only 1 of the 3 clusters asked for hold any image"):
        model = quick(3).fit(alike)
    assert len(set(model.labels_)) == 1


def test_callbacks_look_on_and_may_stop_the_training():
    class StopAfterTwo(Callback):
        records: list[object] = []  # noqa: RUF012

        def on_record(self, record):
            self.records.append(record)

        def wants_stop(self):
            return len(self.records) >= 2

    watcher = StopAfterTwo()
    model = quick(recipe="paper", epochs=1000, callbacks=[watcher]).fit(grey_images())
    assert len(model.history_) == 2
    assert watcher.records == model.history_


def test_verbose_prints_to_standard_error_and_silence_is_the_default(capsys):
    quick().fit(grey_images())
    assert capsys.readouterr() == ("", "")
    quick(verbose=True).fit(grey_images())
    out, err = capsys.readouterr()
    assert out == ""
    assert "epoch 1" in err


def test_minutes_plan_the_training():
    model = quick(epochs=None, minutes=0.002).fit(grey_images())
    assert model.settings_.training.minutes == 0.002
    assert model.settings_.training.epochs is None
    assert model.labels_.shape == (N,)


BAD_PARAMETERS = [
    ({"n_clusters": 1}, "at least 2 clusters"),
    ({"n_clusters": -3}, "at least 2 clusters"),
    ({"n_clusters": "3"}, "n_clusters must be a number"),
    ({"n_clusters": None}, "n_clusters must be a number"),
    ({"n_clusters": 2.5}, "n_clusters.*integer"),
    ({"n_clusters": N + 1}, f"k is {N + 1}, but there are only {N} images"),
    ({"recipe": "slow"}, "unknown recipe 'slow'.*fast, paper"),
    ({"preset": "cifar11"}, "unknown preset 'cifar11'.*stl10.*cifar10"),
    ({"preset": "cifar10"}, "too small for preset 'cifar10'.*at least 16"),
    ({"image_size": 4}, "at least 8"),
    ({"image_size": 5000}, "at most 4096"),
    ({"image_size": (8, 8, 8)}, "image size"),
    ({"image_size": "8x8"}, "image size"),
    ({"image_size": 8.5}, "image size"),
    ({"epochs": 0}, "epochs is 0"),
    ({"epochs": "3"}, "epochs must be a number"),
    ({"minutes": 1.0}, "epochs and minutes exclude each other"),
    ({"epochs": None, "minutes": 0}, "minutes is 0"),
    ({"epochs": None, "minutes": -1.0}, "minutes is -1"),
    ({"epochs": None, "minutes": float("nan")}, "minutes is nan"),
    ({"epochs": None, "minutes": float("inf")}, "minutes is inf"),
    ({"device": "tpu"}, "device.*'auto', 'cpu', 'cuda'"),
    ({"augment": "wild"}, "unknown augment 'wild'.*auto, photo, glyph, none"),
    ({"colour": "pink"}, "unknown colour 'pink'.*auto, grey, colour"),
    ({"resize": "stretch"}, "unknown resize 'stretch'.*crop, squash"),
    ({"batch_size": 0}, "batch_size"),
    ({"sub_batch": 1}, "sub_batch"),
    ({"learning_rate": 0.0}, "learning_rate.*greater than 0"),
    ({"precision": "8"}, "precision.*'32-true'"),
    ({"patience": 0}, "patience"),
    ({"random_state": -1}, "seed"),
    ({"random_state": "one"}, "seed"),
]


@pytest.mark.parametrize(("parameters", "message"), BAD_PARAMETERS)
def test_a_bad_parameter_is_a_value_error_that_says_what_is_wrong(parameters, message):
    with pytest.raises(ValueError, match=message) as error:
        quick(**parameters).fit(grey_images())
    assert "\n" not in str(error.value)


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="no CUDA device"):
        quick(device="cuda").fit(grey_images())


BAD_IMAGES = {
    "NaN": (np.where(np.arange(64).reshape(8, 8) == 9, np.nan, grey_images()), "NaN"),
    "infinity": (np.where(np.arange(64).reshape(8, 8) == 9, np.inf, grey_images()), "inf"),
    "NaN in a tensor": (torch.full((4, 8, 8), float("nan")), "NaN or infinity"),
    "floats to 255": (grey_images() * 255, "divide by 255"),
    "negative integers": (colour_images().astype(int) - 1, "0..255"),
    "five axes": (np.zeros((4, 2, 8, 8, 3)), "5 dimensions"),
    "one axis": (np.zeros(4), "Reshape your data"),
    "no images": (np.zeros((0, 8, 8)), "0 sample"),
    "one image": (np.zeros((1, 8, 8)), "1 sample"),
    "text": (np.full((4, 8, 8), "x"), "numbers|numeric|float"),
    "missing folder": ("no-such-folder", "no such file or folder: no-such-folder"),
    "missing file": (["no-such-file.png"], "no such file: no-such-file.png"),
}


@pytest.mark.parametrize("name", BAD_IMAGES)
def test_images_that_cannot_be_clustered_are_a_value_error(name):
    images, message = BAD_IMAGES[name]
    with pytest.raises(ValueError, match=message):
        quick().fit(images)


def test_rows_are_never_taken_for_images(fitted):
    rows = grey_images().reshape(N, 64)
    for data in (rows, torch.from_numpy(rows), grey_images()[0]):
        with pytest.raises(ValueError, match="reshape"):
            fitted.predict(data)
    with pytest.raises(ValueError, match="reshape"):
        quick(image_size=8).fit(rows)


def test_images_of_other_channels_are_refused(fitted):
    with pytest.raises(ValueError, match="3 channels, but the model was trained on 1"):
        fitted.predict(colour_images())


def test_rows_of_another_length_are_refused():
    model = quick().fit(np.random.default_rng(0).normal(size=(N, 6)))
    with pytest.raises(ValueError, match="features"):
        model.predict(np.zeros((3, 7)))


# --- save and load ---


def assert_same_model(loaded: GATCluster, model: GATCluster, images: object) -> None:
    assert_array_equal(loaded.labels_, model.labels_)
    assert_array_equal(loaded.label_features_, model.label_features_)
    assert_array_equal(loaded.predict_proba(images), model.predict_proba(images))
    assert_array_equal(loaded.attention_maps(images), model.attention_maps(images))
    assert loaded.history_ == model.history_
    assert loaded.settings_ == model.settings_
    assert loaded.names_ == model.names_


@pytest.fixture
def no_pickle(monkeypatch):
    """Makes reading a pickle an error, however it is tried."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a pickle was read")

    for module, name in [(pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")]:
        monkeypatch.setattr(module, name, refuse)


@pytest.mark.usefixtures("no_pickle")
def test_a_saved_model_comes_back_the_same_without_a_pickle(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    assert_same_model(GATCluster.load(tmp_path / "run"), fitted, grey_images())
    assert_same_model(GATCluster.load(str(tmp_path / "run")), fitted, grey_images())


@pytest.mark.parametrize(
    "parameters",
    [
        {"recipe": "paper", "preset": "cifar10", "image_size": (16, 20), "colour": "colour", "augment": "none"},
        {"loss_weights": LossWeights(entropy=2.5), "learning_rate": 0.01, "sub_batch": 6, "batch_size": 12},
    ],
)
def test_a_loaded_model_can_be_fitted_again_to_the_same_end(parameters, tmp_path):
    model = quick(**parameters).fit(colour_images())
    model.save(tmp_path / "run")
    loaded = GATCluster.load(tmp_path / "run")
    assert_same_model(loaded, model, colour_images())
    assert_array_equal(clone(loaded).fit(colour_images()).label_features_, model.label_features_)


def test_a_model_of_rows_is_saved_with_its_range(tmp_path):
    rows = np.random.default_rng(0).normal(size=(N, 6)) * 50
    model = quick(3).fit(rows)
    model.save(tmp_path / "run")
    loaded = GATCluster.load(tmp_path / "run")
    assert_same_model(loaded, model, rows)
    assert loaded.n_features_in_ == 6
    with pytest.raises(ValueError, match="7 features"):
        loaded.predict(np.zeros((3, 7)))


def test_a_run_folder_with_a_pickle_in_place_of_an_array_is_refused(fitted, tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    fitted.save(tmp_path / "run")
    np.save(tmp_path / "run" / "label_features.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"label_features\.npy"):
        GATCluster.load(tmp_path / "run")
    assert not (tmp_path / "sprung").exists()


def test_save_overwrites_a_run_only_when_asked(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    other = quick().fit(grey_images())
    with pytest.raises(InputError, match="not empty"):
        other.save(tmp_path / "run")
    assert GATCluster.load(tmp_path / "run").n_clusters == 3
    other.save(tmp_path / "run", overwrite=True)
    assert GATCluster.load(tmp_path / "run").n_clusters == 2


def test_save_before_fit_says_so_and_writes_nothing(tmp_path):
    with pytest.raises(NotFittedError):
        quick().save(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_load_of_something_else_is_refused(tmp_path):
    with pytest.raises(InputError, match="not a run folder"):
        GATCluster.load(tmp_path / "nowhere")
    with pytest.raises(InputError, match="not a run folder"):
        GATCluster.load(tmp_path)
