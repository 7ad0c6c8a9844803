from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from gatcluster.data.images import ImageSet
from gatcluster.evaluation.metrics import evaluate_clusters
from gatcluster.experiments.baselines import kmeans_on_pixels


def dark_and_light() -> ImageSet:
    noise = np.random.default_rng(0).integers(0, 60, (30, 8, 8, 3))
    noise[::3] += 180
    return ImageSet(noise.astype(np.uint8), [str(i) for i in range(30)])


def test_plain_k_means_parts_dark_images_from_light_ones():
    clusters = kmeans_on_pixels(dark_and_light(), 2, seed=0)
    assert evaluate_clusters([int(i % 3 == 0) for i in range(30)], clusters).accuracy == 1


def test_the_same_seed_gives_the_same_clusters():
    images = dark_and_light()
    assert np.array_equal(kmeans_on_pixels(images, 4, seed=3), kmeans_on_pixels(images, 4, seed=3))


def test_the_demo_is_compared_with_k_means_as_it_is_known_to_do_on_the_digits():
    digits = load_digits()
    images = ImageSet((digits.images[..., None] / 16).astype(np.float32), [str(i) for i in range(len(digits.images))])
    clusters = kmeans_on_pixels(images, 10, seed=0)
    assert 0.7 < evaluate_clusters(digits.target.tolist(), clusters).accuracy < 0.85
