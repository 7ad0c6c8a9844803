"""The whole network: one backbone, two heads."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from gatcluster.config import Settings
from gatcluster.errors import InputError
from gatcluster.model.backbones import Backbone, lean_backbone, paper_backbone
from gatcluster.model.heads import AttentionHead, LabelHead


class NetworkOutput(NamedTuple):
    """What the network says of N images."""

    label_features: Tensor  # (N, k), l: rows sum to 1
    attention_label_features: Tensor  # (N, k), l^a: rows sum to 1
    attention_map: Tensor  # (N, H, W), in (0, 1]


class GATNetwork(nn.Module):
    """Image features, label features and Gaussian attention in one module.

    Args:
        backbone: maps images (N, C, H, W) to image features.
        n_clusters: k.
        head_channels: width of both heads; k in the paper.
        alpha: α of the Gaussian kernel.
        mean: the lightness that is subtracted from images, so that the padding of convolutions is no dark frame.
    """

    def __init__(
        self, backbone: Backbone, n_clusters: int, head_channels: int, alpha: float, mean: float = 0.0
    ) -> None:
        super().__init__()
        self.mean = mean
        self.backbone = backbone
        self.label_head = LabelHead(backbone.channels, head_channels, n_clusters)
        self.attention_head = AttentionHead(backbone.channels, backbone.map_size, head_channels, n_clusters, alpha)

    def forward(self, images: Tensor) -> NetworkOutput:
        """Both heads, for training: images (N, C, H, W) in [0, 1]."""
        return self.heads(self.features(images))

    def features(self, images: Tensor) -> Tensor:
        """Image features (N, C', H', W') of images (N, C, H, W) in [0, 1]."""
        return torch.as_tensor(self.backbone(images - self.mean))

    def heads(self, features: Tensor) -> NetworkOutput:
        """Both heads on image features (N, C, H, W).

        They are in 32 bits even where the backbone is not: they take little time, and a softmax in 16 bits is coarse.
        """
        with torch.autocast(features.device.type, enabled=False):
            label_features, convolved = self.label_head(features.float())
            attention_label_features, attention_map = self.attention_head(features.float(), convolved)
        return NetworkOutput(label_features, attention_label_features, attention_map)

    def label_features(self, images: Tensor) -> Tensor:
        """Label features (N, k) alone: all that clustering new images needs."""
        label_features, _ = self.label_head(self.features(images))
        return torch.as_tensor(label_features)

    def attention_maps(self, images: Tensor) -> Tensor:
        """Where the attention module looks: (N, H, W) at the resolution of the feature map."""
        return self.attention_head.attention_map(self.features(images))

    def attention_gaussians(self, images: Tensor) -> Tensor:
        """The three numbers of which the attention map is made, (N, 3): centre (μ, rows first) and variance (δ)."""
        mu, delta = self.attention_head.gaussian(self.features(images))
        return torch.cat([mu, delta[:, None]], dim=1)

    def embedding(self, images: Tensor) -> Tensor:
        """The backbone's features, averaged over the map: (N, C)."""
        return self.features(images).mean(dim=(2, 3))


def network_shapes(settings: Settings) -> dict[str, Tensor]:
    """The tensors of the network that ``settings`` describe, by name, without memory for what is in them.

    Raises:
        InputError: no machine could hold such a network.
    """
    try:
        with torch.device("meta"):
            return build_network(settings).state_dict()
    except RuntimeError:  # a tensor of more bytes than can be counted
        raise InputError(f"no network for {settings.n_clusters} clusters fits into any memory") from None


def build_network(settings: Settings) -> GATNetwork:
    """The network that ``settings`` describe, with fresh weights drawn from the settings' seed.

    PyTorch's own random state is left as it was.
    """
    k, network = settings.n_clusters, settings.network
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(settings.seed)  # torch.manual_seed would reach the GPUs' generators too
        if network.preset is None:
            backbone = lean_backbone(settings.images.network_channels, settings.images.size, network.width)
            head_channels = backbone.channels
        else:
            backbone = paper_backbone(network.preset, settings.images.network_channels, k, settings.images.size)
            head_channels = k
        built = GATNetwork(backbone, k, head_channels, network.alpha, settings.images.mean)
    # One memory layout always: another picks other kernels, and a loaded model would differ in the last bits.
    return built.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
