"""The tables of the ablation, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from comparison.document import circumstances, table
from comparison.label_free_scores import SCORES, SCORES_EXPLAINED
from comparison.results import OVER, Budget, Group, Line, Spread, grouped, latest, rank_correlation
from comparison.sets import SETS
from comparison.variants import VARIANTS
from gatcluster.choices import Recipe

Columns = Mapping[tuple[str, Budget], Mapping[str, Group]]


def ablation_text(lines: Sequence[Line]) -> str:
    """What each ingredient brings: for each recipe a table of ACC and one of NMI, and how they were measured."""
    lines = latest(lines)
    order = [*SETS]
    columns = dict(sorted(grouped(lines).items(), key=lambda item: order.index(item[0][0])))
    sections = []
    for recipe, heading in (("fast", "### Ingredients of `fast`"), ("paper", "### The paper's own ablation")):
        own = {
            where: kept
            for where, methods in columns.items()
            if (kept := {name: group for name, group in methods.items() if VARIANTS[name].recipe == recipe})
        }
        if own:
            sections.append(f"{heading}\n\nACC, and in brackets its distance from the whole recipe:\n\n")
            sections[-1] += _recipe_table(recipe, own, "accuracy") + "\n\nNMI:\n\n"
            sections[-1] += _recipe_table(recipe, own, "nmi_geometric") + _empty_clusters(own)
    sections.append("### Scores without labels, over these runs\n\n" + _correlations(lines, [*columns]))
    return "\n\n".join([*sections, "### How it was measured\n\n" + circumstances(lines)])


def _recipe_table(recipe: Recipe, columns: Columns, score: str) -> str:
    header = ("variant", *(_column_title(where, methods) for where, methods in columns.items()))
    rows = []
    for name, variant in VARIANTS.items():
        if any(name in methods for methods in columns.values()):
            cells = [_cell(methods, name, f"{recipe}-full", score) for methods in columns.values()]
            rows.append((variant.title, *cells))
    return table(header, rows)


def _column_title(where: tuple[str, Budget], methods: Mapping[str, Group]) -> str:
    name, (minutes, epochs, _) = where
    images = next((line["images"] for group in methods.values() for line in group.done), None)
    seeds = len({line["seed"] for group in methods.values() for line in group.lines})
    length = f"{minutes:g} min" if minutes is not None else f"{epochs or 'default'} epochs"
    size = "" if images is None else f", {images:,} images"
    return f"{SETS[name].title}{size}, {length}, {seeds} seed{'' if seeds == 1 else 's'}"


def _cell(methods: Mapping[str, Group], name: str, whole: str, score: str) -> str:
    """Mean and deviation of a variant; how far its mean is from that of the whole recipe."""
    if name not in methods:
        return ""
    found = methods[name].spread(score)
    if found is None:
        return "over the time" if methods[name].lines[0]["status"] == OVER else "failed"
    full: Spread | None = methods[whole].spread(score) if whole in methods and name != whole else None
    return str(found) + ("" if full is None else f" ({found.mean - full.mean:+.3f})")


def _empty_clusters(columns: Columns) -> str:
    said = [
        f"{VARIANTS[name].title} on {SETS[where[0]].title}, seed {line['seed']}: {line['empty_clusters']}"
        for where, methods in columns.items()
        for name, group in methods.items()
        for line in group.done
        if line["empty_clusters"]
    ]
    return "\n\nEmpty clusters: " + ("; ".join(said) if said else "none") + "."


def _correlations(lines: Sequence[Line], columns: Sequence[tuple[str, Budget]]) -> str:
    """Spearman's rank correlation with ACC over all variants of `fast`."""
    names = list(dict.fromkeys(name for name, _ in columns))
    rows = []
    for title, chosen in [(SETS[name].title, [name]) for name in names] + [("all sets", names)]:
        runs = [line for line in lines if line["set"] in chosen and VARIANTS[line["method"]].recipe == "fast"]
        found = [rank_correlation(runs, score) for score in SCORES]
        rows.append((title, *("-" if value is None else f"{value:+.2f} ({n})" for value, n in found)))
    explained = (
        "Spearman's rank correlation with ACC over all variants and seeds of `fast`; in brackets, how many runs. "
        f"{SCORES_EXPLAINED}"
    )
    return f"{explained}\n\n{table(('runs', *SCORES), rows)}"
