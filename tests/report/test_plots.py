"""Figures of a fitted estimator, and its display in a notebook."""

from __future__ import annotations

import matplotlib.figure
import numpy as np
import pytest
import sklearn
from sklearn.exceptions import NotFittedError

from gatcluster import GATCluster
from gatcluster.report.plots import surest_images


def images(n: int = 24) -> np.ndarray:
    random = np.random.default_rng(0)
    return np.concatenate([random.random((n // 2, 8, 8)) / 2, 0.5 + random.random((n // 2, 8, 8)) / 2])


@pytest.fixture(scope="module")
def model() -> GATCluster:
    return GATCluster(2, epochs=3, random_state=0).fit(images())


def test_an_estimator_draws_figures_that_a_notebook_shows(model):
    figures = [
        model.plot_map(),
        model.plot_map(["a"] * 24),
        model.plot_clusters(images()),
        model.plot_attention(images()),
    ]
    for figure in figures:
        assert isinstance(figure, matplotlib.figure.Figure)
        assert figure._repr_png_().startswith(b"\x89PNG")


def test_clusters_are_those_of_the_images_that_are_given(model):
    light = images()[12:]
    figure = model.plot_clusters(light, images_per_cluster=3)
    said = [text.get_text() for text in figure.axes[0].texts]
    sizes = np.bincount(model.predict(light), minlength=2)
    assert said == ["cluster 0", str(sizes[0]), "cluster 1", str(sizes[1])]


def test_an_estimator_that_is_not_fitted_has_no_figures():
    for call in ("plot_map", "plot_clusters", "plot_attention"):
        with pytest.raises(NotFittedError):
            getattr(GATCluster(), call)(*([] if call == "plot_map" else [images()]))


def test_a_notebook_shows_scikit_learns_display_and_the_clusters_below(model):
    for shown in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert "sk-top-container" in shown
        assert "2 clusters of 24 images" in shown
        assert shown.count("data:image/png;base64,") == sum(min(6, size) for size in np.bincount(model.labels_))
    unfitted = GATCluster(2)
    assert "sk-top-container" in unfitted._repr_html_()
    assert "clusters of" not in unfitted._repr_html_()


def test_scikit_learns_setting_for_text_is_respected(model):
    with sklearn.config_context(display="text"):
        assert set(model._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(model, "_repr_html_")


def test_a_loaded_estimator_shows_its_clusters_without_images(model, tmp_path):
    model.save(tmp_path / "run")
    shown = GATCluster.load(tmp_path / "run")._repr_html_()
    assert "2 clusters of 24 images" in shown
    assert "data:image/png" not in shown


def test_surest_images_pass_over_what_is_gone():
    features = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]])
    assert surest_images(features, 2) == [[0, 1], [3]]
    assert surest_images(features, 2, lambda index: index not in (0, 3)) == [[1, 2], []]
