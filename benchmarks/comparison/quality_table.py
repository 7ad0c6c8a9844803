"""The table of the quality benchmark, as Markdown."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from comparison.demands import Groups, verdicts
from comparison.document import circumstances, table
from comparison.label_free_scores import SCORES, SCORES_EXPLAINED
from comparison.methods import QUALITY_METHODS, TITLES
from comparison.results import DONE, OVER, Budget, Group, Line, grouped, latest, rank_correlation
from comparison.sets import SETS

_SCORES = {"accuracy": "ACC", "nmi_geometric": "NMI", "ari": "ARI"}
_RECIPES = ("fast", "paper")

Budgets = Mapping[tuple[str, Budget], Groups]


def quality_text(lines: Sequence[Line], plot: Path, page: Path) -> str:
    """Everything that the benchmark found: demands, scores, label-free scores, and how it was measured."""
    lines = latest(lines)
    budgets = grouped(lines)
    names = [name for name in SETS if any(name == where[0] for where in budgets)]
    own = {name: within_budget(name, budgets) for name in names}
    longer = {name: _longest_budget_that_counts(name, budgets) for name in names}
    sections = [
        "### Demands\n\n" + _demand_table(own, longer),
        f"![ACC against seconds, one panel for each set]({os.path.relpath(plot, page.parent)})",
        *(_set_section(name, budgets) for name in names),
        "### Scores without labels\n\n" + _correlation_table(lines, names),
        "### How it was measured\n\n" + circumstances(lines),
    ]
    return "\n\n".join(sections)


def within_budget(name: str, budgets: Budgets) -> Groups:
    """For each method the measurements on a set that count for the demands.

    These are the ones under the budget of the set, or under the longest one below it that has more seeds: what is
    reached in less time is reached.
    """
    found: dict[str, Group] = {}
    for minutes, groups in _by_minutes(name, budgets):
        for method, group in groups.items():
            if minutes <= SETS[name].minutes and (method not in found or len(group.done) >= len(found[method].done)):
                found[method] = group
    return found


def _by_minutes(name: str, budgets: Budgets) -> list[tuple[float, Groups]]:
    """The groups of a set, the shortest budget first."""
    own = [(where[1][0] or 0.0, groups) for where, groups in budgets.items() if where[0] == name]
    return sorted(own, key=lambda item: item[0])


def _longest_budget_that_counts(name: str, budgets: Budgets) -> Groups:
    bound = SETS[name].aim_minutes
    allowed = [where for where in budgets if where[0] == name and bound and (where[1][0] or 0) <= bound]
    return budgets[max(allowed, key=lambda where: where[1][0] or 0)] if allowed else {}


def _demand_table(own: Mapping[str, Groups], longer: Mapping[str, Groups]) -> str:
    said = {True: "met", False: "**not met**", None: "open"}
    rows = [(verdict.demand, verdict.found, said[verdict.met]) for verdict in verdicts(own, longer)]
    return table(("demand", "found", ""), rows, left=3)


def _set_section(name: str, budgets: Budgets) -> str:
    """One table for a set: a row for each method and each budget it had."""
    all_groups = _by_minutes(name, budgets)
    groups = [(minutes, some[method]) for method in QUALITY_METHODS for minutes, some in all_groups if method in some]
    images = next((line["images"] for _, group in groups for line in group.done), None)
    heading = f"### {SETS[name].title}" + (f", {images:,} images" if images else "")
    best = {
        score: max((found.mean for _, group in groups if (found := group.spread(score))), default=None)
        for score in _SCORES
    }
    header = ("method", "minutes", "seeds", *_SCORES.values(), "least ACC", "seconds", "peak MB")
    rows = [_row(group, best, minutes) for minutes, group in groups]
    notes = _notes([group for _, group in groups])
    return f"{heading}\n\n{table(header, rows)}" + (f"\n\n{notes}" if notes else "")


def _row(group: Group, best: Mapping[str, float | None], minutes: float) -> tuple[str, ...]:
    title, n = TITLES[group.method], len(group.done)
    if n == 0:
        stopped = any(line["status"] == OVER for line in group.lines)
        said = f"stopped after {minutes:g} min" if stopped else "failed"
        return (title, f"{minutes:g}", "0", said, *[""] * 5)
    scores = []
    for score in _SCORES:
        found = group.spread(score)
        assert found is not None
        scores.append(f"**{found}**" if found.mean == best[score] else str(found))
    seconds, peak, accuracy = group.spread("seconds"), group.spread("peak_bytes"), group.spread("accuracy")
    assert seconds is not None
    assert accuracy is not None
    took = f"{seconds.mean:.0f}" if seconds.mean >= 10 else f"{seconds.mean:.1f}"
    if seconds.deviation is not None:
        took += f" ± {seconds.deviation:.0f}" if seconds.mean >= 10 else f" ± {seconds.deviation:.1f}"
    memory = "" if peak is None else f"{peak.mean / 1e6:.0f}"
    return (title, f"{minutes:g}", str(n), *scores, f"{accuracy.least:.3f}", took, memory)


def _notes(groups: Sequence[Group]) -> str:
    """What the rows do not say: errors, measurements stopped, methods that looked at a part of the images."""
    notes = []
    for group in groups:
        title = TITLES[group.method]
        for line in group.lines:
            if line["status"] == OVER and group.done:
                notes.append(f"{title}, seed {line['seed']}: stopped, over the time.")
            elif line["status"] not in (DONE, OVER):
                notes.append(f"{title}, seed {line['seed']}: {line['error']}")
        for line in group.done[:1]:
            fitted = line["details"].get("fitted_on")
            if fitted is not None and fitted < line["images"]:
                notes.append(f"{title}: fitted on {fitted:,} images, drawn by the seed; the others follow.")
    fast = [line for group in groups if group.method == "fast" for line in group.done]
    notes += [f"`auto` chose: {text}." for text in dict.fromkeys(_choices(line["details"]) for line in fast)]
    return " ".join(dict.fromkeys(notes + _numbers(fast)))


def _choices(details: Mapping[str, Any]) -> str:
    """What `auto` decided, in words."""
    height, width = details["size"]
    colours = "grey" if details["grey"] else "channels as they are"
    return f"{details['augment']}, geometry {details['geometry']:.2f}, {colours}, {height}x{width}"


def _numbers(lines: Sequence[Line]) -> list[str]:
    """In how many bits which runs were computed: within the same minutes, 16 bits see more images."""
    minutes: dict[str, set[float]] = {}
    for line in lines:
        bits = {"bf16-mixed": "16 bits", "32-true": "32 bits"}.get(line["details"].get("precision", ""))
        if bits is not None:  # older lines do not say
            minutes.setdefault(bits, set()).add(line["minutes"])
    if len(minutes) == 1:
        return [f"`fast` computed in {bits}." for bits in minutes]
    runs = [f"those of {' and '.join(f'{m:g}' for m in sorted(own))} minutes in {b}" for b, own in minutes.items()]
    return [f"Runs of `fast`: {', '.join(runs)}."] if runs else []


def _correlation_table(lines: Sequence[Line], names: Sequence[str]) -> str:
    """Spearman's rank correlation of each label-free score with ACC, for each set and over all."""
    header = ("runs", *(f"{score}, {runs}" for runs in ("`fast`", "both") for score in SCORES))
    rows = []
    for title, chosen in [(SETS[name].title, [name]) for name in names] + [("all sets", list(names))]:
        row = [title]
        for recipes in (("fast",), _RECIPES):
            runs = [line for line in lines if line["set"] in chosen and line["method"] in recipes]
            for score in SCORES:
                value, n = rank_correlation(runs, score)
                row.append(f"{'-' if value is None else f'{value:+.2f}'} ({n})")
        rows.append(row)
    explained = (
        "Spearman's rank correlation with ACC over runs, the number of runs in brackets: of `fast` alone, and of "
        f"`fast` and `paper` together. {SCORES_EXPLAINED} Over all sets a score mostly says which sets are easy."
    )
    return f"{explained}\n\n{table(header, rows)}"
