"""Scores of a clustering: with labels, after the fact; and without."""

from gatcluster.evaluation.metrics import Metrics, clustering_accuracy, evaluate_clusters

__all__ = ["Metrics", "clustering_accuracy", "evaluate_clusters"]
