"""Figures: what is in them, for any number of clusters, without a display and without global state."""

from __future__ import annotations

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from PIL import Image

from gatcluster.learning.history import Record
from gatcluster.report.circular_map import circular_map
from gatcluster.report.figures import (
    attention_figure,
    cluster_style,
    curves_figure,
    grid_figure,
    map_figure,
    save_figure,
    sizes_figure,
)


def label_features(n=60, k=3):
    return np.random.default_rng(k).dirichlet(np.full(k, 0.2), n).astype(np.float32)


def history(k=3, paper=False):
    losses = {"relation": 0.5, "total": 1.0, "entropy": -0.5 if paper else 0.1}
    clustering = [Record("clustering", i, i, losses, 0.1, i, 10.0, [i] * k, 0.5, 0.6, 0.1) for i in range(3, 7)]
    warm_up = [Record("warm-up", i, i, {"contrast": 2.0}, 0.1, i, 10.0) for i in (1, 2)]
    return clustering if paper else warm_up + clustering


def texts(figure):
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


def test_the_map_shows_every_image_at_its_place_and_every_cluster_by_name():
    features = label_features(60, 10)
    figure = map_figure(features)
    drawn = np.concatenate([points.get_offsets() for points in figure.axes[0].collections])
    expected = circular_map(features)[np.argsort(features.argmax(axis=1), kind="stable")]
    np.testing.assert_allclose(drawn, expected, atol=1e-6)
    sizes = [str(size) for size in np.bincount(features.argmax(1), minlength=10)]
    said = [text.get_text() for text in figure.axes[0].texts]
    assert sorted(said) == sorted([str(cluster) for cluster in range(10)] + sizes)


def test_the_map_coloured_by_labels_has_a_legend_of_them():
    figure = map_figure(label_features(4, 2), ["cat", "dog", "cat", "$x^"])
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["$x^", "cat", "dog"]
    save_figure(figure, "png", 50)  # a label is no formula


def test_fifty_six_clusters_differ_in_colour_or_marker():
    assert len({cluster_style(cluster) for cluster in range(56)}) == 56


def relative_luminance(colour):
    channels = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def test_colours_are_visible_on_white_and_differ_for_the_colour_blind():
    """Deuteranopia and protanopia as linear maps of RGB (Viénot, Brettel and Mollon, 1999)."""
    rgb = np.array([matplotlib.colors.to_rgb(cluster_style(cluster)[0]) for cluster in range(7)])
    for matrix in (
        np.eye(3),
        [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
        [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
    ):
        seen = (rgb**2.2 @ np.transpose(matrix)).clip(0, 1) ** (1 / 2.2)
        distances = np.linalg.norm(seen[:, None] - seen[None], axis=2)[np.triu_indices(7, 1)]
        assert distances.min() > 0.1
    assert all(1.05 / (relative_luminance(cluster_style(cluster)[0]) + 0.05) > 2 for cluster in range(7))


def test_curves_show_every_loss_and_the_stages():
    figure = curves_figure(history(), 3)
    said = texts(figure)
    assert {"contrast", "total", "$L_R$ relation", "$L_E$ entropy", "warm-up", "clustering", "iteration"} <= set(said)
    losses = {line.get_label(): line.get_ydata() for line in figure.axes[0].lines}
    assert np.isnan(losses["total"]).tolist() == [True, True, False, False, False, False]
    assert losses["contrast"][:2].tolist() == [2.0, 2.0]


def test_curves_of_the_paper_have_negative_losses():
    assert curves_figure(history(paper=True), 3).axes[0].get_yscale() == "linear"
    assert curves_figure(history(), 3).axes[0].get_yscale() == "log"


def test_sizes_are_the_sizes():
    features = label_features(100, 4)
    figure = sizes_figure(features, history(4))
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert heights == np.bincount(features.argmax(1), minlength=4).tolist()
    assert len(sizes_figure(features, []).axes) == 1  # nothing is known of the way there


def test_a_grid_has_a_column_for_each_cluster_surest_on_top():
    dark, light = Image.new("L", (16, 16), 0), Image.new("L", (16, 16), 200)
    figure = grid_figure([[dark, light], [], [light]], [9, 0, 1], ["cats", "none", "a very long name $^{"])
    sheet = np.asarray(figure.axes[0].images[0].get_array())
    height, width = sheet.shape[0] // 2, sheet.shape[1] // 3
    middles = [[int(sheet[int((r + 0.5) * height), int((c + 0.5) * width), 0]) for c in range(3)] for r in range(2)]
    assert middles == [[0, 255, 200], [200, 255, 255]]
    assert "9" in texts(figure)
    save_figure(figure, "svg")


def test_attention_shows_image_features_and_overlay_of_each_cluster():
    maps = np.zeros((3, 20, 20), np.float32)
    maps[:, 5, 15] = 1
    features = np.eye(3, dtype=np.float32)
    figure = attention_figure(
        [Image.new("RGB", (16, 16)), None, Image.new("RGB", (16, 16))], features, maps, ["a", "b", "c"]
    )
    assert len(figure.axes) == 9
    assert [bar.get_height() for bar in figure.axes[7].patches] == [0, 0, 1]
    overlay = figure.axes[2].images[1]
    assert np.unravel_index(np.asarray(overlay.get_array())[..., 3].argmax(), (20, 20)) == (5, 15)
    assert overlay.get_extent() == figure.axes[2].images[0].get_extent()
    assert "empty" in texts(figure)


@pytest.mark.parametrize("k", [2, 60])
def test_any_number_of_clusters_can_be_drawn(k):
    features = label_features(300, k)
    tile = Image.new("RGB", (12, 8))
    figures = [
        map_figure(features),
        curves_figure(history(k), k),
        sizes_figure(features, history(k)),
        grid_figure([[tile]] * k, [1] * k, [str(cluster) for cluster in range(k)]),
    ]
    for figure in figures:
        assert save_figure(figure, "png", 30).startswith(b"\x89PNG")


def test_the_same_figure_is_the_same_file():
    for suffix, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        first, second = (save_figure(map_figure(label_features()), suffix) for _ in range(2))
        assert first.startswith(start)
        assert first == second


def test_vector_files_of_many_images_stay_small():
    assert len(save_figure(map_figure(label_features(20_000, 10)), "pdf", 150)) < 500_000


def test_neither_pyplot_nor_settings_are_touched():
    code = """
import sys, matplotlib
def settings():  # to ask for the backend would import pyplot
    return {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}
before = settings()
import numpy as np
from gatcluster.report.figures import map_figure, save_figure
figure = map_figure(np.eye(3))
save_figure(figure, "svg"), figure._repr_png_()
assert "matplotlib.pyplot" not in sys.modules
assert settings() == before
"""
    subprocess.run([sys.executable, "-c", code], check=True)
