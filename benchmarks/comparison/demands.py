"""What is demanded of `fast`, and whether the results meet it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from comparison.methods import QUALITY_METHODS
from comparison.results import Group, Spread
from comparison.sets import SETS

SETS_TO_WIN: Final = 5
_ROUNDING = 1e-9

Groups = Mapping[str, Group]  # of one set, by method


@dataclass(frozen=True)
class Verdict:
    """A demand and what came of it."""

    demand: str
    found: str
    met: bool | None  # None: not measured yet


def verdicts(by_set: Mapping[str, Groups], longer: Mapping[str, Groups]) -> list[Verdict]:
    """All demands, in order.

    Args:
        by_set: the groups of each set under its own budget, or under a shorter one.
        longer: the groups of sets whose aim may take longer, under the longest budget that counts.
    """
    judged = [verdict for name in SETS for verdict in _accuracy(name, by_set.get(name, {}), longer.get(name, {}))]
    return [*judged, _no_empty_cluster(by_set), _never_below_kmeans(by_set), _in_time(by_set), _wins(by_set)]


def _accuracy(name: str, groups: Groups, longer: Groups) -> list[Verdict]:
    chosen = SETS[name]
    fast = groups.get("fast")
    scores = fast.spread("accuracy") if fast else None
    must = f"{chosen.title}: ACC at least {chosen.must} in {chosen.minutes:g} minutes (must)"
    aim = f"{chosen.title}: ACC {chosen.aim} (aim)"
    if fast is None or scores is None:
        return [Verdict(must, "not measured", None), Verdict(aim, "not measured", None)]
    n = len(fast.done)
    seeds = _seeds(fast)
    if n < chosen.n_seeds:
        seeds += f" of {chosen.n_seeds}"
    if fast.lines[0]["minutes"] < chosen.minutes:
        seeds += f", {_minutes(fast)}"
    found = f"{scores} ({seeds})"
    enough = n >= chosen.n_seeds
    must_met = _reaches(scores.mean, chosen.must) if enough else None
    best, best_found = scores.mean, found
    patient = longer["fast"].spread("accuracy") if "fast" in longer else None
    if patient is not None and patient.mean > best:
        best, best_found = patient.mean, f"{patient} ({_seeds(longer['fast'])}, {_minutes(longer['fast'])})"
    return [
        Verdict(must, found, must_met),
        Verdict(aim, f"{best_found}, {best - chosen.aim:+.3f}", _reaches(best, chosen.aim) if enough else None),
    ]


def _seeds(group: Group) -> str:
    n = len(group.done)
    return f"{n} seeds" if n != 1 else "1 seed"


def _minutes(group: Group) -> str:
    return f"{group.lines[0]['minutes']:g} minutes"


def _reaches(value: float, bound: float) -> bool:
    return value >= bound - _ROUNDING


def _no_empty_cluster(by_set: Mapping[str, Groups]) -> Verdict:
    demand = "no seed of any set ends with an empty cluster"
    runs = [line for groups in by_set.values() if "fast" in groups for line in groups["fast"].done]
    bad = [f"{line['set']} seed {line['seed']}: {line['empty_clusters']}" for line in runs if line["empty_clusters"]]
    if not runs:
        return Verdict(demand, "not measured", None)
    return Verdict(demand, "; ".join(bad) or f"none in {len(runs)} runs", not bad)


def _never_below_kmeans(by_set: Mapping[str, Groups]) -> Verdict:
    """Strictly: the worst seed of `fast` against the best of k-means."""
    demand = "no seed ends below k-means on pixels (its best seed)"
    compared = {
        name: (fast.least, kmeans.most)
        for name, groups in by_set.items()
        if (fast := _of(groups, "fast")) and (kmeans := _of(groups, "kmeans"))
    }
    if not compared:
        return Verdict(demand, "not measured", None)
    bad = [
        f"{SETS[name].title}: {ours:.3f} < {theirs:.3f}" for name, (ours, theirs) in compared.items() if ours < theirs
    ]
    least = min(ours - theirs for ours, theirs in compared.values())
    return Verdict(demand, "; ".join(bad) or f"{len(compared)} sets, by {least:.3f} at the least", not bad)


def _in_time(by_set: Mapping[str, Groups]) -> Verdict:
    demand = "no seed takes longer than its budget"
    runs = [line for groups in by_set.values() if "fast" in groups for line in groups["fast"].done]
    if not runs:
        return Verdict(demand, "not measured", None)
    shares = {f"{line['set']} seed {line['seed']}": line["seconds"] / (line["minutes"] * 60) for line in runs}
    bad = [f"{run}: {share:.0%}" for run, share in shares.items() if share > 1]
    return Verdict(demand, "; ".join(bad) or f"at most {max(shares.values()):.0%} of it", not bad)


def _wins(by_set: Mapping[str, Groups]) -> Verdict:
    """A peer that was stopped at the limit has no clusters to show, and is beaten."""
    demand = f"`fast` beats every other method, by mean ACC, on at least {SETS_TO_WIN} of {len(SETS)} sets"
    won, lost = [], []
    missing = set()
    for name, groups in by_set.items():
        ours = _of(groups, "fast")
        others = {method: _of(groups, method) for method in groups if method != "fast"}
        if ours is None or not others:
            continue
        better = [method for method, theirs in others.items() if theirs and theirs.mean >= ours.mean]
        if better:
            lost.append(f"{SETS[name].title} (behind {', '.join(better)})")
        else:
            won.append(SETS[name].title)
            missing |= {method for method in QUALITY_METHODS if method not in groups}
    if not won and not lost:
        return Verdict(demand, "not measured", None)
    found = f"on {len(won)}: {', '.join(won) or 'none'}" + (f"; not on {', '.join(lost)}" if lost else "")
    if missing:
        found += f"; not everywhere measured: {', '.join(sorted(missing))}"
    if len(lost) > len(SETS) - SETS_TO_WIN:
        return Verdict(demand, found, False)
    return Verdict(demand, found, True if len(won) >= SETS_TO_WIN and not missing else None)


def _of(groups: Groups, method: str) -> Spread | None:
    return groups[method].spread("accuracy") if method in groups else None
