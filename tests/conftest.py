"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _cache_of_all_tests(tmp_path_factory) -> Iterator[None]:
    """Nothing is written to the user's cache, not even by what tests share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GATCLUSTER_CACHE", str(tmp_path_factory.mktemp("cache-of-all")))
        yield


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory, monkeypatch) -> Path:
    """A cache folder of each test's own; it is not there yet."""
    folder: Path = tmp_path_factory.mktemp("cache") / "gatcluster"
    monkeypatch.setenv("GATCLUSTER_CACHE", str(folder))
    return folder
