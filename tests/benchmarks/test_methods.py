import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from comparison import label_free_scores, methods, peers
from comparison.autoencoder import Autoencoder
from comparison.sets import SETS, find_source, subset
from comparison.variants import VARIANTS, fit_variant
from gatcluster.config import ImageSettings, make_settings
from gatcluster.data.images import ImageSet
from gatcluster.errors import InputError
from gatcluster.evaluation import clustering_accuracy
from gatcluster.learning import fast, neighbours


@pytest.fixture(scope="module")
def digits():
    source = find_source(SETS["digits"], None)
    return ImageSet(source[:600, :, :, None], [str(i) for i in range(600)])


@pytest.mark.parametrize("size", [(8, 8), (9, 13), (16, 16), (28, 28), (64, 48)])
def test_the_autoencoder_gives_back_what_it_is_given(size):
    images = torch.rand(3, 1, *size)
    assert Autoencoder(1, size)(images).shape == images.shape


def test_the_autoencoder_learns(digits):
    clusters = peers.autoencoder(digits, 10, seed=0, seconds=2.0).clusters
    assert clustering_accuracy(load_digits().target[:600], clusters) > 0.4


@pytest.mark.parametrize("method", ["ward", "spectral"])
def test_all_images_get_a_cluster_where_a_method_sees_only_some(digits, method, monkeypatch):
    monkeypatch.setattr(peers, "MOST_IMAGES", 400)
    found = peers.PEERS[method](digits, 10, 0, 60.0)
    assert found.details["fitted_on"] == 400
    assert found.clusters.shape == (600,)
    assert clustering_accuracy(load_digits().target[:600], found.clusters) > 0.6


def test_a_subset_is_drawn_by_the_seed():
    source = find_source(SETS["digits"], None)
    first, chosen = subset(source, 50, seed=1)
    assert np.array_equal(first[..., 0], source[chosen])
    assert np.array_equal(subset(source, 50, seed=1)[1], chosen)
    assert not np.array_equal(subset(source, 50, seed=2)[1], chosen)


def test_a_set_that_is_not_there_is_an_error_that_says_where(tmp_path):
    with pytest.raises(InputError, match="--data DIR"):
        find_source(SETS["mnist"], None)
    with pytest.raises(InputError, match=str(tmp_path / "mnist")):
        find_source(SETS["mnist"], tmp_path)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_changes_something_but_the_whole_recipe(name):
    variant = VARIANTS[name]
    form = ImageSettings(size=(32, 32), channels=3, grey=True, augment="photo", strokes=1.0)
    full = make_settings(
        n_clusters=10, n_images=100, images=form, seed=0, recipe=variant.recipe, epochs=1, precision="bf16-mixed"
    )
    before = {**vars(neighbours), **vars(fast)}
    with variant.patched():
        patched = [known for known, value in {**vars(neighbours), **vars(fast)}.items() if before[known] is not value]
    assert {**vars(neighbours), **vars(fast)} == before
    assert (variant.settings(full) != full or bool(patched)) == (not name.endswith("-full"))
    if "colour" in name:
        assert not variant.settings(full).images.grey


@pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning")  # one epoch is not meant to find much
@pytest.mark.parametrize("name", ["fast-adam", "fast-kmeans", "fast-no-priming", "paper-no-R"])
def test_variants_run_to_the_end(digits, name):
    found, full = fit_variant(VARIANTS[name], digits.pixels[:64], 3, seed=0, minutes=None, epochs=1)
    assert found.label_features.shape == (64, 3)
    assert np.allclose(found.label_features.sum(axis=1), 1, atol=1e-4)
    assert found.settings.recipe == full.recipe == VARIANTS[name].recipe


@pytest.mark.filterwarnings("ignore::gatcluster.errors.ConvergenceWarning")
def test_a_variant_without_transformations_is_scored_with_those_of_the_whole_recipe(digits, monkeypatch):
    forms = []

    def noted(features, network, images, form):
        forms.append(form)
        return label_free_scores.label_free_scores(features, network, images, form)

    monkeypatch.setattr(methods, "label_free_scores", noted)
    work = methods.Work(digits.pixels[:64], 3, seed=0, minutes=None, epochs=1)
    scores = methods.cluster("fast-no-geometry", work).label_free()
    assert set(scores) == set(label_free_scores.SCORES)
    assert forms[0].geometry > 0
