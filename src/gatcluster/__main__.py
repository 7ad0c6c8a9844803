"""``python -m gatcluster``."""

from gatcluster.cli import main

main()
