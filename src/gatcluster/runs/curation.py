"""A person's corrections of a clustering: names for clusters, clusters that are one, images that are in the wrong one.

The file is JSON; the web page of a run writes it, and ``gatcluster export --curation`` applies it::

    {"format": "gatcluster-curation", "version": 1, "names": {"3": "cats"}, "merge": [[1, 4]], "wrong": ["a/1.jpg"]}
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gatcluster.errors import InputError

FORMAT: Final = "gatcluster-curation"
VERSION: Final = 1


@dataclass(frozen=True)
class _Content:
    """What a file holds, before it is compared with a run."""

    names: dict[int, str]
    merge: list[list[int]]
    wrong: list[str]


@dataclass(frozen=True)
class Group:
    """Clusters that a person takes for one: most often a single cluster."""

    clusters: tuple[int, ...]  # ascending; the first stands for all of them
    name: str | None  # that a person gave

    @property
    def number(self) -> int:
        """What the group is known by."""
        return self.clusters[0]


@dataclass(frozen=True)
class Curation:
    """Corrections, with all numbers and paths checked against a run."""

    groups: Sequence[Group]  # ascending by number; every cluster is in exactly one
    wrong: frozenset[str] = frozenset()  # paths as in clusters.csv
    notes: tuple[str, ...] = ()  # what a person should know of how they were read

    def group_of_clusters(self) -> list[Group]:
        """The group of each cluster, by its number."""
        groups = {cluster: group for group in self.groups for cluster in group.clusters}
        return [groups[cluster] for cluster in range(len(groups))]


def no_curation(n_clusters: int) -> Curation:
    """Every cluster as it was found."""
    return Curation([Group((cluster,), None) for cluster in range(n_clusters)])


def read_curation(path: Path, n_clusters: int, paths: Sequence[str]) -> Curation:
    """The corrections in a file.

    Sets to merge that share a cluster unite; clusters of the same name are one. Of several names in a group, that of
    the lowest cluster counts.

    Args:
        path: of the file.
        n_clusters: k of the run.
        paths: of its images, as in ``clusters.csv``.

    Raises:
        InputError: the file is damaged, or speaks of clusters or images that the run does not have.
    """
    content = _read(path)
    names = {cluster: _tidy(name) for cluster, name in content.names.items() if _tidy(name)}
    for cluster in [*names, *(cluster for group in content.merge for cluster in group)]:
        if not 0 <= cluster < n_clusters:
            raise InputError(f"{path} speaks of cluster {cluster}, but the run has clusters 0 to {n_clusters - 1}")
    unknown = sorted(set(content.wrong) - set(paths))
    if unknown:
        raise InputError(f"{path} marks {unknown[0]} as wrong, which is no image of this run: is it of another run?")
    same_name: dict[str, list[int]] = {}
    for cluster, name in names.items():
        same_name.setdefault(name, []).append(cluster)
    groups: list[Group] = []
    notes: list[str] = []
    for clusters in _united([*content.merge, *same_name.values()], n_clusters):
        own = list(dict.fromkeys(names[cluster] for cluster in clusters if cluster in names))
        groups.append(Group(tuple(clusters), own[0] if own else None))
        if len(own) > 1:
            listed = " and ".join(str(cluster) for cluster in clusters)
            notes.append(f"clusters {listed} are one, but have {len(own)} names: '{own[0]}' is used")
    return Curation(groups, frozenset(content.wrong), tuple(notes))


def _read(path: Path) -> _Content:
    try:
        tree: Any = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no curation file: {error}") from None
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise InputError(f"{path} is no curation file: its 'format' is not '{FORMAT}'")
    if tree.get("version") != VERSION:
        raise InputError(f"{path} has curation version {tree.get('version')}; this gatcluster reads version {VERSION}")
    names, merge, wrong = tree.get("names", {}), tree.get("merge", []), tree.get("wrong", [])
    if not (isinstance(names, dict) and all(_is_number(c) and isinstance(n, str) for c, n in names.items())):
        raise InputError(f'{path}: \'names\' must give a name to cluster numbers, such as {{"3": "cats"}}')
    if not (isinstance(merge, list) and all(_is_list_of(part, int) for part in merge)):
        raise InputError(f"{path}: 'merge' must be a list of lists of cluster numbers, such as [[1, 4]]")
    if not _is_list_of(wrong, str):
        raise InputError(f"{path}: 'wrong' must be a list of paths as in clusters.csv")
    return _Content({int(cluster): name for cluster, name in names.items()}, merge, wrong)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _is_list_of(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(part, kind) and not isinstance(part, bool) for part in value)


def _tidy(name: str) -> str:
    """A name without what cannot be seen: spaces around it, several ways to write one letter."""
    return " ".join(unicodedata.normalize("NFC", name).split())


def _united(sets: Sequence[Sequence[int]], n_clusters: int) -> list[list[int]]:
    """All clusters in groups, such that each set lies in one group; ascending.

    >>> _united([[1, 4], [4, 2], []], 5)
    [[0], [1, 2, 4], [3]]
    """
    lowest = list(range(n_clusters))  # of the group that each cluster is in
    for united in sets:
        roots = {lowest[cluster] for cluster in united}
        if roots:
            root = min(roots)
            lowest = [root if number in roots else number for number in lowest]
    return [[c for c in range(n_clusters) if lowest[c] == root] for root in sorted(set(lowest))]
