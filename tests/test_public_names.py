"""What ``import gatcluster`` offers, and how soon."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import gatcluster


def test_every_public_name_is_there():
    assert set(gatcluster.__all__) == {
        "Callback",
        "ConvergenceWarning",
        "GATCluster",
        "InputError",
        "LossWeights",
        "__version__",
    }
    for name in gatcluster.__all__:
        assert getattr(gatcluster, name) is not None


def test_a_star_import_brings_all_of_them():
    names: dict[str, object] = {}
    exec("from gatcluster import *", names)
    assert set(gatcluster.__all__) <= set(names)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'GatCluster'"):
        gatcluster.GatCluster  # noqa: B018


def test_the_version_is_that_of_the_package():
    assert gatcluster.__version__ == version("gatcluster")


def test_errors_fit_what_scikit_learn_users_catch():
    assert issubclass(gatcluster.InputError, ValueError)
    assert issubclass(gatcluster.ConvergenceWarning, UserWarning)


@pytest.mark.parametrize(
    "statement",
    ["import gatcluster", "import sys, gatcluster.cli as c; sys.argv = ['gatcluster', '--help']; run_main(c)"],
)
def test_torch_is_not_imported_before_it_is_needed(statement):
    program = f"""
import sys

def run_main(cli):
    try:
        cli.main()
    except SystemExit as stop:
        assert stop.code == 0

{statement}
assert "torch" not in sys.modules and "sklearn" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
