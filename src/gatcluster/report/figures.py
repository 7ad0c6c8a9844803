"""Figures for a paper: pure functions from data to a matplotlib figure.

No pyplot, so no display is needed and no global state changes. Every figure can be told apart without colours: clusters
are named where they lie, and from the eighth on their markers differ.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray
from PIL import Image

from gatcluster.learning.history import Record
from gatcluster.report.circular_map import circular_map, cluster_corners

# Okabe and Ito's colours, which people with any colour vision tell apart; a grey for their yellow, too light on white.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5A5A5A")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
_INK: Final = "#222222"
_FAINT: Final = "#8A8A8A"
_TEXT, _SMALL = 8.0, 7.0  # points
_DPI: Final = 300
_LEAST_SIDE: Final = 160  # pixels of the longer side of an image that is shown
_MOST_COLUMNS: Final = 20  # clusters beside each other in a grid
_LOSS_NAMES: Final = {
    "total": "total",
    "relation": "$L_R$ relation",
    "transformation": "$L_T$ transformation",
    "attention": "$L_A$ attention",
    "entropy": "$L_E$ entropy",
    "contrast": "contrast",
}


class PaperFigure(Figure):
    """A figure that a notebook shows by itself, whether or not pyplot was set up in it."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=150, bbox_inches="tight")
        return buffer.getvalue()


def save_figure(figure: Figure, suffix: str, dpi: int = _DPI) -> bytes:
    """The bytes of a png, svg or pdf file; the same figure gives the same bytes.

    Args:
        figure: what to save.
        suffix: png, svg or pdf.
        dpi: pixels per inch of a png, and of the pictures inside an svg or a pdf.
    """
    undated: dict[str, Any] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[suffix]
    # Text in a PDF stays text; in an SVG it becomes outlines, which look the same where the font is missing.
    with matplotlib.rc_context({"pdf.fonttype": 42, "svg.fonttype": "path", "svg.hashsalt": "gatcluster"}):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix, dpi=dpi, bbox_inches="tight", pad_inches=0.04, metadata=undated)
    return buffer.getvalue()


def cluster_style(cluster: int) -> tuple[str, str]:
    """Colour and marker of a cluster: 56 clusters differ in at least one of them.

    >>> cluster_style(0), cluster_style(7)
    (('#0072B2', 'o'), ('#0072B2', 's'))
    """
    return COLOURS[cluster % len(COLOURS)], MARKERS[cluster // len(COLOURS) % len(MARKERS)]


def map_figure(label_features: NDArray[np.floating], labels: Sequence[str] | None = None) -> Figure:
    """The paper's circular map: every image at its place between the clusters.

    Args:
        label_features: (N, k).
        labels: colour images by these, with a legend, and not by their clusters; N.
    """
    n, k = label_features.shape
    clusters = label_features.argmax(axis=1)
    places, corners = circular_map(label_features), cluster_corners(k)
    sizes = np.bincount(clusters, minlength=k)
    figure = PaperFigure(figsize=(3.6, 3.6))
    axes = figure.add_axes((0.08, 0.08, 0.84, 0.84))
    axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor="#D0D0D0", linewidth=0.6, zorder=0))
    kinds = [f"{cluster}" for cluster in range(k)] if labels is None else sorted(set(labels))
    of_kind = clusters if labels is None else np.searchsorted(kinds, labels)
    area = float(np.clip(9000 / max(n, 1), 1.5, 14))
    for kind, text in enumerate(kinds):
        colour, marker = cluster_style(kind)
        # Thousands of vectors make a file that no viewer likes: then the points, and only they, are a picture.
        x, y = places[of_kind == kind].T
        axes.scatter(
            x, y, s=area, c=colour, marker=marker, alpha=0.6 if n < 10_000 else 0.3, linewidths=0, label=text,
            rasterized=n > 3000,
        )  # fmt: skip
    spelled = k <= 24  # beyond, there is room for the numbers of the clusters alone
    for cluster, (x, y) in enumerate(corners):
        reach = 1.13 if spelled else 1.07
        size = _TEXT + 1 if spelled else max(3.5, _TEXT - k / 25)
        above = (0, 3.5) if spelled else (0, 0)
        place: dict[str, Any] = {
            "xy": (x * reach, y * reach),
            "textcoords": "offset points",
            "ha": "center",
            "va": "center",
        }
        axes.annotate(f"{cluster}", xytext=above, fontsize=size, color=_INK, **place)
        if spelled:
            axes.annotate(f"{sizes[cluster]:,}", xytext=(0, -5), fontsize=_SMALL - 1, color=_FAINT, **place)
    axes.set(xlim=(-1.22, 1.22), ylim=(-1.22, 1.22), aspect="equal")
    axes.axis("off")
    if labels is not None:
        axes.legend(
            loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=_SMALL, frameon=False, markerscale=2.0,
            handletextpad=0.2, ncols=1 + len(kinds) // 20, title="label", title_fontsize=_SMALL,
        )  # fmt: skip
    return figure


def curves_figure(history: Sequence[Record], n_clusters: int) -> Figure:
    """How the training went: losses, confidence, how evenly clusters are used, and how many images changed theirs."""
    figure = PaperFigure(figsize=(6.6, 4.0), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True)
    losses, confidence, evenness, changed = panels.ravel()
    at = np.array([record.iteration for record in history])
    dots: dict[str, Any] = {"marker": "o", "markersize": 3} if len(at) < 3 else {}  # a line needs two ends
    for place, name in enumerate(name for name in _LOSS_NAMES if any(name in record.losses for record in history)):
        values = [record.losses.get(name, math.nan) for record in history]
        colour = _INK if name == "total" else COLOURS[place % len(COLOURS)]
        style = ("-", "--", "-.", ":")[place % 4] if name != "contrast" else (0, (1, 1))
        losses.plot(at, values, label=_LOSS_NAMES[name], color=colour, linestyle=style, linewidth=1.1, **dots)
    if all(value > 0 for record in history for value in record.losses.values()):
        losses.set_yscale("log")
    figure.legend(
        *losses.get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=_SMALL, frameon=False,
        handlelength=2.4, columnspacing=1.4,
    )  # fmt: skip
    most = math.log(n_clusters)
    evenly = [None if record.entropy is None else record.entropy / most for record in history]
    for axes, followed, title, colour in (
        (confidence, [record.mean_confidence for record in history], "mean confidence", COLOURS[0]),
        (evenness, evenly, "evenness of clusters", COLOURS[2]),
        (changed, [record.changed for record in history], "images that changed cluster", COLOURS[1]),
    ):
        known = np.array([math.nan if value is None else value for value in followed], dtype=float)
        axes.plot(at, known, color=colour, linewidth=1.1, **dots)
        axes.set_ylim(0, 1.03)
        axes.set_ylabel(title, fontsize=_TEXT)
    changed.yaxis.set_major_formatter(PercentFormatter(1.0))
    losses.set_ylabel("loss", fontsize=_TEXT)
    for axes in (evenness, changed):
        axes.set_xlabel("iteration", fontsize=_TEXT)
    for axes in panels.ravel():
        _plain_axes(axes)
        axes.set_xlim(0, at[-1] * (1.05 if dots else 1) if len(at) else 1)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        _mark_stages(axes, history, named=axes is losses)
    return figure


def sizes_figure(label_features: NDArray[np.floating], history: Sequence[Record]) -> Figure:
    """How many images each cluster holds, and how sure of them it is; and how the sizes came about."""
    n, k = label_features.shape
    clusters, sure = label_features.argmax(axis=1), label_features.max(axis=1)
    sizes = np.bincount(clusters, minlength=k)
    known = [record for record in history if record.cluster_sizes]
    figure = PaperFigure(figsize=(6.6 if known else 3.6, 2.6), layout="constrained")
    panels = figure.subplots(1, 2 if known else 1, squeeze=False)[0]
    bars = panels[0]
    colours = [cluster_style(cluster)[0] for cluster in range(k)]
    bars.bar(range(k), sizes, color=colours, width=0.8)
    if k <= 30:
        for cluster, size in enumerate(sizes):
            text = "" if size == 0 else f"{sure[clusters == cluster].mean():.2f}".lstrip("0")
            bars.annotate(
                text, (cluster, size), (0, 1.5), textcoords="offset points", ha="center", va="bottom", color=_INK,
                fontsize=_SMALL - (1.5 if k > 12 else 0.5), bbox={"fc": "white", "ec": "none", "pad": 0.6},
            )  # fmt: skip
    bars.axhline(n / k, color=_INK, linewidth=0.7, linestyle=(0, (4, 3)), label="even split", zorder=0)
    bars.set_ylim(0, max(float(sizes.max()) * 1.22, 1.0))
    bars.legend(fontsize=_SMALL, frameon=False, loc="upper right", handlelength=2.4, borderaxespad=0.1)
    bars.set_xlabel("cluster (above each bar: mean confidence)" if k <= 30 else "cluster", fontsize=_TEXT)
    bars.set_ylabel("images", fontsize=_TEXT)
    if k <= 20:
        bars.set_xticks(range(k))
    else:
        bars.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    bars.set_xlim(-0.7, k - 0.3)
    if known:
        _stacked_sizes(panels[1], known, k)
    for axes in panels:
        _plain_axes(axes)
    return figure


def _stacked_sizes(axes: Axes, history: Sequence[Record], k: int) -> None:
    """The share of each cluster over the training, one above the other."""
    at = [record.iteration for record in history]
    counts = np.array([record.cluster_sizes for record in history], dtype=float)  # (records, k)
    shares = counts / counts.sum(axis=1, keepdims=True)
    if len(at) == 1:  # a band needs two ends
        at, shares = [at[0], at[0] + 1], np.repeat(shares, 2, axis=0)
    colours = [cluster_style(cluster)[0] for cluster in range(k)]
    axes.stackplot(at, shares.T, colors=colours, edgecolor="white", linewidth=0.3)
    middles = shares[-1].cumsum() - shares[-1] / 2
    for cluster, (middle, share) in enumerate(zip(middles, shares[-1], strict=True)):
        if share > 0.025:
            axes.annotate(
                f"{cluster}", (at[-1], middle), (3, 0), textcoords="offset points", fontsize=_SMALL, va="center",
                color=colours[cluster], annotation_clip=False,
            )  # fmt: skip
    axes.set(xlim=(at[0], at[-1]), ylim=(0, 1))
    axes.set_xlabel("iteration", fontsize=_TEXT)
    axes.set_ylabel("share of the images seen so far", fontsize=_TEXT)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def grid_figure(columns: Sequence[Sequence[Image.Image]], sizes: Sequence[int], names: Sequence[str]) -> Figure:
    """The paper's figure 1: one column for each cluster, its surest images from the top.

    Args:
        columns: for each cluster some images, surest first; all of one shape.
        sizes: how many images each cluster holds.
        names: of the clusters.
    """
    k = len(columns)
    n_blocks = -(-k // _MOST_COLUMNS)
    per_block = -(-k // n_blocks)
    rows = max(1, *(len(column) for column in columns))
    shape = next((column[0].size for column in columns if column), (1, 1))
    aspect = shape[1] / shape[0]
    width = min(6.6, 0.75 * per_block)
    tile = width / per_block
    block_height = rows * tile * aspect + 0.34
    figure = PaperFigure(figsize=(width, n_blocks * block_height))
    for block in range(n_blocks):
        shown = range(block * per_block, min(k, (block + 1) * per_block))
        bottom = 1 - (block + 1) * block_height / figure.get_figheight()
        height = (block_height - 0.34) / figure.get_figheight()
        axes = figure.add_axes((0, bottom, len(shown) / per_block, height))
        axes.imshow(_tiled([columns[c] for c in shown], rows), extent=(0, len(shown), rows, 0), aspect="auto",
                    interpolation="antialiased")  # fmt: skip
        axes.axis("off")
        most = max(3, round(tile / 0.06))  # characters of this font that fit above a column
        for place, cluster in enumerate(shown):
            name = names[cluster] if len(names[cluster]) <= most else names[cluster][: most - 1] + "…"
            for text, above, colour in ((name, 10.5, _INK), (f"{sizes[cluster]:,}", 2.5, _FAINT)):
                axes.annotate(
                    text, (place + 0.5, 0), (0, above), textcoords="offset points", ha="center", va="bottom",
                    fontsize=_SMALL, color=colour, annotation_clip=False, parse_math=False,
                )  # fmt: skip
    return figure


def _tiled(columns: Sequence[Sequence[Image.Image]], rows: int) -> NDArray[np.uint8]:
    """Images side by side on white, (height, width, 3), all brought to one size with a gap around them."""
    all_images = [image for column in columns for image in column]
    width = max((image.width for image in all_images), default=1)
    height = max((image.height for image in all_images), default=1)
    width, height = _enlarged(Image.new("L", (width, height)), _LEAST_SIDE).size
    gap = max(1, round(width * 0.03))
    sheet = Image.new("RGB", (len(columns) * (width + 2 * gap), rows * (height + 2 * gap)), "white")
    for x, column in enumerate(columns):
        for y, image in enumerate(column):
            place = (x * (width + 2 * gap) + gap, y * (height + 2 * gap) + gap)
            sheet.paste(image.convert("RGB").resize((width, height), Image.Resampling.BICUBIC), place)
    return np.asarray(sheet)


def _enlarged(image: Image.Image, least: int) -> Image.Image:
    """A small image enlarged smoothly, because shapes are easier to see than pixels; a large one as it is."""
    scale = max(1.0, least / max(image.size))
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, Image.Resampling.BICUBIC)


def attention_figure(
    pictures: Sequence[Image.Image | None],
    label_features: NDArray[np.floating],
    attention: NDArray[np.floating],
    names: Sequence[str],
) -> Figure:
    """The paper's figure 4: for each cluster an image, its label features, and its attention map laid over it.

    Args:
        pictures: one image of each cluster; None where it has none.
        label_features: (k, k), of these images.
        attention: (k, H, W), over these images, in (0, 1].
        names: of the clusters.
    """
    k = len(pictures)
    across = 1 if k <= 3 else 2 if k <= 24 else 4
    down = -(-k // across)
    shape = next((picture.size for picture in pictures if picture), (1, 1))
    height = 0.9 * shape[1] / shape[0]
    figure = PaperFigure(figsize=(3.3 * across, (height + 0.22) * down + 0.3))
    outer = figure.add_gridspec(
        down, across, wspace=0.12, hspace=0.22 / height, left=0.01, right=0.99, top=0.99, bottom=0.01
    )
    for cluster, picture in enumerate(pictures):
        # Down the columns, as one reads a list.
        inner = outer[cluster % down, cluster // down].subgridspec(1, 3, wspace=0.12, width_ratios=(1, 1.3, 1))
        image, bars, overlay = (figure.add_subplot(inner[0, place]) for place in range(3))
        title = names[cluster] if len(names[cluster]) <= 16 else names[cluster][:15] + "…"
        image.set_title(title, fontsize=_SMALL, color=_INK, pad=2, parse_math=False)
        if picture is None:
            image.text(
                0.5, 0.5, "empty", transform=image.transAxes, ha="center", va="center", fontsize=_SMALL, color=_FAINT
            )
            for axes in (image, bars, overlay):
                axes.axis("off")
            continue
        picture = _enlarged(picture.convert("RGB"), _LEAST_SIDE)
        image.imshow(picture, interpolation="antialiased")
        bars.set_box_aspect(picture.height / picture.width / 1.3)
        _bars_of_features(bars, label_features[cluster], cluster, last=(cluster + 1) % down == 0 or cluster == k - 1)
        _overlay(overlay, picture, attention[cluster])
        for axes in (image, overlay):
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set(visible=False)
    return figure


def _bars_of_features(axes: Axes, features: NDArray[np.floating], cluster: int, last: bool) -> None:
    colours = [cluster_style(cluster)[0] if place == cluster else "#B5B5B5" for place in range(len(features))]
    axes.bar(range(len(features)), features, color=colours, width=0.8)
    axes.set(ylim=(0, 1.02), xlim=(-0.7, len(features) - 0.3))
    axes.set_yticks([0, 1])
    axes.xaxis.set_major_locator(MaxNLocator(min(len(features), 10), integer=True))
    _plain_axes(axes, size=_SMALL - 1.5)
    axes.tick_params(length=1.5, pad=1.5)
    if last:
        axes.set_xlabel("cluster: label feature", fontsize=_SMALL - 1, labelpad=1.5)


def _overlay(axes: Axes, picture: Image.Image, attention: NDArray[np.floating]) -> None:
    """The image in grey, the attention over it: the stronger, the more opaque; a line at half its height."""
    grey = np.asarray(picture.convert("L"), dtype=float) / 255
    heat = matplotlib.colormaps["inferno"](0.25 + 0.7 * attention)
    heat[..., 3] = 0.75 * attention
    extent = (0, picture.width, picture.height, 0)
    axes.imshow(grey, cmap="gray", vmin=0, vmax=1, interpolation="antialiased", extent=extent)
    axes.imshow(heat, interpolation="bilinear", extent=extent)
    if attention.min() < 0.5 < attention.max():
        rows, columns = ((np.arange(size) + 0.5) for size in attention.shape)
        x, y = columns * picture.width / attention.shape[1], rows * picture.height / attention.shape[0]
        axes.contour(x, y, attention, levels=[0.5], colors="white", linewidths=0.8)
    axes.set(xlim=(0, picture.width), ylim=(picture.height, 0))


def _plain_axes(axes: Axes, size: float = _SMALL) -> None:
    axes.tick_params(labelsize=size, width=0.6, length=2.5, color=_FAINT, labelcolor=_INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(linewidth=0.6, color=_FAINT)


def _mark_stages(axes: Axes, history: Sequence[Record], named: bool) -> None:
    """A line where one stage of the training gives way to the next."""
    for before, after in pairwise(history):
        if before.stage != after.stage:
            at = (before.iteration + after.iteration) / 2
            axes.axvline(at, color=_FAINT, linewidth=0.6, linestyle=(0, (2, 2)))
            if named:
                for text, side, place in ((before.stage, "right", -3), (after.stage, "left", 3)):
                    axes.annotate(
                        text, (at, 1), (place, 1), xycoords=("data", "axes fraction"), textcoords="offset points",
                        ha=side, va="bottom", fontsize=_SMALL - 0.5, color=_FAINT,
                    )  # fmt: skip
