"""A picture of the results: ACC against seconds, one panel for each set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from comparison.methods import QUALITY_METHODS, TITLES
from comparison.results import DONE, Line, latest
from comparison.sets import SETS
from gatcluster.errors import InputError

# Colours that stay apart for most colour-blind eyes (Okabe and Ito), and a mark of its own for each method.
_MARKS: Final[dict[str, tuple[str, str]]] = {
    "fast": ("#d55e00", "*"),
    "paper": ("#e69f00", "P"),
    "kmeans": ("#999999", "o"),
    "ward": ("#0072b2", "s"),
    "spectral": ("#56b4e9", "D"),
    "autoencoder": ("#009e73", "^"),
    "umap": ("#cc79a7", "v"),
}
_COLUMNS: Final = 3
_MUST, _AIM = "--", "-."


def plot_quality(lines: Sequence[Line], path: Path) -> None:
    """Write the picture; its format is told from the suffix of ``path``."""
    try:
        import matplotlib
    except ImportError:
        raise InputError("the plot needs matplotlib: pip install 'gatcluster[bench]'") from None
    matplotlib.use("Agg")
    from matplotlib.lines import Line2D
    from matplotlib.pyplot import close, subplots

    runs = [line for line in latest(lines) if line["status"] == DONE]
    names = [name for name in SETS if any(line["set"] == name for line in runs)]
    if not names:
        raise InputError("there is nothing to plot: no measurement was done")
    columns = min(_COLUMNS, len(names))
    rows = -(-len(names) // columns)
    # The same file from the same results, and text as text: a third of the size.
    with matplotlib.rc_context({"svg.hashsalt": "quality", "svg.fonttype": "none", "font.size": 9}):
        inches = (3.1 * columns + 0.4, 2.5 * rows + 2.4 / columns)  # fewer columns: more rows of the legend
        figure, axes = subplots(rows, columns, figsize=inches, squeeze=False, layout="constrained")
        for axis, name in zip(axes.flat, names, strict=False):
            _panel(axis, name, [line for line in runs if line["set"] == name])
        for axis in list(axes.flat)[len(names) :]:
            axis.set_axis_off()
        used = {line["method"] for line in runs}
        handles = [
            Line2D([], [], color=colour, marker=mark, linestyle="", label=TITLES[method].strip("`"))
            for method, (colour, mark) in _MARKS.items()
            if method in used
        ]
        handles.append(Line2D([], [], color="black", linewidth=0.8, linestyle=":", label="time budget"))
        for label, style in (("must", _MUST), ("aim", _AIM)):
            handles.append(Line2D([], [], color=_MARKS["fast"][0], linewidth=0.8, linestyle=style, label=label))
        figure.legend(handles=handles, loc="outside lower center", ncols=2 * columns - 1, frameon=False)
        for axis in axes[:, 0]:
            axis.set_ylabel("ACC")
        for axis in list(axes.flat)[max(0, len(names) - columns) : len(names)]:
            axis.set_xlabel("seconds")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
        close(figure)


def _panel(axis: Any, name: str, runs: Sequence[Line]) -> None:
    """One set: a mark for each run, the budget, and what is demanded."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    chosen = SETS[name]
    for method in reversed(QUALITY_METHODS):  # `fast` on top
        own = [line for line in runs if line["method"] == method]
        colour, mark = _MARKS[method]
        axis.plot(
            [line["seconds"] for line in own],
            [line["accuracy"] for line in own],
            linestyle="",
            color=colour,
            marker=mark,
            markersize=9 if mark == "*" else 5.5,
            markeredgecolor="white",
            markeredgewidth=0.4,
            alpha=0.85,
        )
    axis.axvline(chosen.minutes * 60, color="black", linewidth=0.8, linestyle=":")
    for bound, style in ((chosen.must, _MUST), (chosen.aim, _AIM)):
        axis.axhline(bound, color=_MARKS["fast"][0], linewidth=0.8, linestyle=style, alpha=0.7)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=8))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.minorticks_off()
    axis.set_ylim(0, 1.02)
    axis.set_title(chosen.title, fontsize=10)
    axis.grid(True, linewidth=0.3, alpha=0.6)
