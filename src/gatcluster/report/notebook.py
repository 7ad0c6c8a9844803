"""What a notebook shows of a fitted estimator: a small table of its clusters below scikit-learn's own display."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gatcluster.data.images import ImageSet
from gatcluster.report.plots import surest_images
from gatcluster.runs.source import picture_of

_SIDE: Final = 40  # pixels of a thumbnail's longer side
_PER_CLUSTER: Final = 6
_MOST_CLUSTERS: Final = 50  # a notebook is no report

# Colours are the notebook's own, so that it can be read on light and on dark.
_CELL: Final = "padding:2px 10px;text-align:right;border:none"


def thumbnails(images: ImageSet, label_features: NDArray[np.floating]) -> list[list[str]]:
    """For each cluster its surest images as data URIs: a few kilobytes, where the images may be gigabytes."""
    shown = surest_images(label_features, _PER_CLUSTER)[:_MOST_CLUSTERS]
    return [[_data_uri(picture_of(images, index)) for index in chosen] for chosen in shown]


def clusters_html(label_features: NDArray[np.floating], pictures: Sequence[Sequence[str]], skipped: int = 0) -> str:
    """A table with the size, the mean confidence and the most typical images of each cluster.

    Args:
        label_features: (N, k).
        pictures: for each cluster some images as data URIs; empty where images are not at hand.
        skipped: files that could not be read.
    """
    n, k = label_features.shape
    clusters, confidence = label_features.argmax(axis=1), label_features.max(axis=1)
    rows = []
    for cluster in range(min(k, _MOST_CLUSTERS)):
        own = confidence[clusters == cluster]
        sure = f"{own.mean():.2f}" if len(own) else "-"
        cells = [str(cluster), f"{len(own):,}", sure]
        row = "".join(f'<td style="{_CELL}">{html.escape(cell)}</td>' for cell in cells)
        if pictures:
            images = "".join(
                f'<img src="{html.escape(uri, quote=True)}" alt="image {place + 1} of cluster {cluster}" '
                'style="display:inline-block;margin:0 2px 0 0;vertical-align:middle">'
                for place, uri in enumerate(pictures[cluster])
            )
            row += f'<td style="{_CELL};text-align:left;white-space:nowrap">{images}</td>'
        rows.append(f"<tr>{row}</tr>")
    heads = ["cluster", "images", "confidence", *(["most typical"] if pictures else [])]
    left = ";text-align:left"
    head = "".join(
        f'<th style="{_CELL}{left if text == "most typical" else ""}" scope="col">{text}</th>' for text in heads
    )
    more = f"; the first {_MOST_CLUSTERS} are shown" if k > _MOST_CLUSTERS else ""
    left_out = f"; {skipped:,} files could not be read" if skipped else ""
    return (
        '<table style="margin:8px 0"><caption style="text-align:left;padding:4px 10px;white-space:nowrap">'
        f"{k:,} clusters of {n:,} images, mean confidence {confidence.mean():.2f}{more}{left_out}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _data_uri(picture: Image.Image) -> str:
    scale = _SIDE / max(picture.size)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    buffer = io.BytesIO()
    picture.resize(size, Image.Resampling.BICUBIC).save(buffer, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
