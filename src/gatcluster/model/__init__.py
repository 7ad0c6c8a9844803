"""The network: backbones, the label head, the Gaussian-attention head. No training code, no files."""

from gatcluster.model.network import GATNetwork, build_network

__all__ = ["GATNetwork", "build_network"]
