"""gatcluster: group unlabelled images into k clusters, end to end from pixels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gatcluster.config import LossWeights
    from gatcluster.errors import ConvergenceWarning, InputError
    from gatcluster.estimator import GATCluster
    from gatcluster.learning.callbacks import Callback

    __version__: str

__all__ = ["Callback", "ConvergenceWarning", "GATCluster", "InputError", "LossWeights", "__version__"]

_HOME = {
    "Callback": "gatcluster.learning.callbacks",
    "ConvergenceWarning": "gatcluster.errors",
    "GATCluster": "gatcluster.estimator",
    "InputError": "gatcluster.errors",
    "LossWeights": "gatcluster.config",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: torch takes seconds, and `gatcluster --help` has no need of it."""
    if name == "__version__":
        from importlib.metadata import version  # slow to import, and of no use to a worker process

        return version("gatcluster")
    if name not in _HOME:
        raise AttributeError(f"module 'gatcluster' has no attribute '{name}'")
    return getattr(import_module(_HOME[name]), name)
