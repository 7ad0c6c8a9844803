"""The two heads: image features to label features, over the whole image and where the attention points."""

from __future__ import annotations

from torch import Tensor, nn

from gatcluster.model.attention import gaussian_attention_map, gaussian_parameters


def _classifier(channels: int, n_clusters: int) -> nn.Sequential:
    """The last rows of both tables: three linear layers, softmax last. In the paper ``channels`` is k."""
    return nn.Sequential(
        nn.Linear(channels, channels),
        nn.ReLU(inplace=True),
        nn.Linear(channels, channels),
        nn.ReLU(inplace=True),
        nn.Linear(channels, n_clusters),
        nn.Softmax(dim=1),
    )


class LabelHead(nn.Module):
    """The label feature module: 1x1 convolution, global pooling, three linear layers, softmax.

    Args:
        in_channels: channels of the backbone's map.
        channels: channels of the 1x1 convolution and width of the linear layers; k in the paper.
        n_clusters: k.
    """

    def __init__(self, in_channels: int, channels: int, n_clusters: int) -> None:
        super().__init__()
        self.convolution = nn.Sequential(
            nn.Conv2d(in_channels, channels, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True)
        )
        self.classifier = _classifier(channels, n_clusters)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Map image features (N, C, H, W) to label features (N, k), and to the map before pooling (N, C', H, W)."""
        convolved = self.convolution(features)
        return self.classifier(convolved.mean(dim=(2, 3))), convolved


class AttentionHead(nn.Module):
    """The attention module: three numbers from the image features, a Gaussian map of them, and its own classifier.

    Args:
        in_channels: channels of the backbone's map.
        map_size: height and width of that map.
        channels: channels of the label head's convolved map.
        n_clusters: k.
        alpha: the paper's α of the Gaussian kernel.
    """

    def __init__(
        self, in_channels: int, map_size: tuple[int, int], channels: int, n_clusters: int, alpha: float
    ) -> None:
        super().__init__()
        self.map_size = map_size
        self.alpha = alpha
        self.parameters_of_gaussian = nn.Linear(in_channels * map_size[0] * map_size[1], 3)
        self.classifier = _classifier(channels, n_clusters)

    def gaussian(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Centre (N, 2), rows first, and variance (N,) of the map, from image features (N, C, H, W)."""
        flat = features.flatten(1)  # (N, C·H·W)
        # Not in the paper. Smaller inputs make for smaller steps of the three numbers; what the layer can express is
        # the same. Without this the Gaussian missed its object more often, probably because the sigmoids saturate.
        return gaussian_parameters(self.parameters_of_gaussian(flat / flat.shape[1] ** 0.25))

    def attention_map(self, features: Tensor) -> Tensor:
        """The Gaussian map (N, H, W) of image features (N, C, H, W)."""
        mu, delta = self.gaussian(features)
        return gaussian_attention_map(mu, delta, *self.map_size, alpha=self.alpha)

    def forward(self, features: Tensor, convolved: Tensor) -> tuple[Tensor, Tensor]:
        """Attention label features (N, k) and the attention map (N, H, W).

        Args:
            features: (N, C, H, W) from the backbone, which place the Gaussian.
            convolved: (N, C', H, W) from the label head, which it weights.
        """
        attention = self.attention_map(features)
        weighted = convolved * attention[:, None]  # (N, C', H, W)
        return self.classifier(weighted.mean(dim=(2, 3))), attention
