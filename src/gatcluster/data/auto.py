"""What `auto` decides about images, from their pixels alone."""

from __future__ import annotations

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from gatcluster.choices import Augment
from gatcluster.data.augment import lightness, turned
from gatcluster.data.images import ImageSet
from gatcluster.data.ink import backgrounds, edges, ink
from gatcluster.data.upright import has_no_upright

_SAMPLE = 2000
# A glyph (a letter, a digit, a symbol, a silhouette) is ink on paper: this share of its pixels is paper.
_PAPER_SHARE = 0.3
_PAPER_TOLERANCE = 0.08
_COLOURLESS = 0.02

# Paper of any colour: flat once noise is averaged away, and another from image to image.
_NOISE = 3  # pixels a side
_CALM_PAPER_TOLERANCE = 0.06
_FLAT_SHARE = 0.7  # of the outermost pixels of most images
_VISIBLE = 0.15  # how far the strongest ink of most images is from its paper, at least
_VARIED = 0.1  # standard deviation of a colour from image to image
_GAUDY = 0.3  # of pens: saturated colours of any hue have 0.4, things of this world hardly 0.2
_UNEVEN = 0.65  # from here on; colours drawn evenly have 0.5, those of photos 0.9
_PROBES = 500
_APART = 15  # times the usual distance from a point to the next
_GROUP_SHARE = 0.05
_LEAST_IMAGES = 40  # of fewer, nothing is said about their colours
_TINY = 1e-9

_TURN = 10.0  # degrees
_THUMBNAIL = 16
# From this ratio on a turned image is foreign to its set; it takes this much less for it to be entirely at home.
_FOREIGN = 1.35
_FOREIGN_SPAN = 0.15
_NEAREST = 5


def choose_augment(images: ImageSet) -> Augment:
    """The kind of transformations that suit the images: "glyph" for ink on paper, else "photo".

    Ink on paper is colourless, and in most images a good part of the pixels has the lightness of the paper: the
    lightest or the darkest that the image has. Images of one row or column have nothing to transform: "none".
    """
    if min(images.size) == 1:
        return "none"
    if images.channels not in (1, 3) or not is_colourless(images):
        return "photo"
    return "glyph" if float(paper_share(lightness(_sample(images))).median()) > _PAPER_SHARE else "photo"


def is_colourless(images: ImageSet) -> bool:
    """Whether the channels of images are all but the same."""
    return colourfulness(_sample(images)) <= _COLOURLESS


def has_arbitrary_colours(images: ImageSet) -> bool:
    """Whether images are drawings whose colours tell nothing, so that only the ink is worth seeing.

    The paper of most images is flat, and there is ink on it. Then either the paper is of another colour from image to
    image, and neither papers nor pens fall into groups: kinds that have colours of their own would be groups; but black
    and white pens on grey are not looked at. Or the paper is the same, but the pens are of all colours alike, or of all
    hues. Photos have no flat border.
    """
    if min(images.size) == 1 or len(images) < _LEAST_IMAGES:
        return False
    sample = _sample(images)
    calm = _without_noise(sample)
    paper = backgrounds(calm)
    is_flat = float(_paper_share_of_edge(calm, paper).median()) > _FLAT_SHARE
    if not is_flat or float((calm - paper).abs().amax(dim=(1, 2, 3)).median()) < _VISIBLE:
        return False
    is_coloured, papers, pens = colourfulness(sample) > _COLOURLESS, paper[:, :, 0, 0], _pen_colours(sample)
    if _spread(papers) > _VARIED:
        return count_groups(papers) < 2 and not (is_coloured and count_groups(pens) > 1)
    if not is_coloured or _spread(pens) <= _VARIED or count_groups(pens) > 1:
        return False
    return _spread(pens) > _GAUDY or unevenness(pens) < _UNEVEN


def count_groups(points: Tensor) -> int:
    """How many groups points (n, d) form: sets of at least a twentieth of them, far apart from all others.

    >>> count_groups(torch.tensor([0.0, 0.01, 0.02, 0.03, 0.9, 0.91, 0.92])[:, None])
    2
    """
    joins = linkage(points.double().numpy(), "single")  # the distances at which groups meet are in the third column
    groups = fcluster(joins, _APART * max(float(np.median(joins[:, 2])), _TINY), "distance")
    return int((np.bincount(groups) >= _GROUP_SHARE * len(points)).sum())


def unevenness(points: Tensor) -> float:
    """How far points (n, d) are from being spread evenly in their box: 0.5 where they are, near 1 in tight groups.

    The distance from places drawn evenly to the nearest point, as a share of that and the distance between a point and
    its nearest (after Hopkins and Skellam, "A new method for determining the type of distribution of plant
    individuals", 1954).
    """
    known = points.double().numpy()
    search = NearestNeighbors(n_neighbors=2).fit(known)
    places = np.random.default_rng(0).uniform(known.min(axis=0), known.max(axis=0), (_PROBES, known.shape[1]))
    from_places = search.kneighbors(places, n_neighbors=1)[0].mean()
    from_points = search.kneighbors(known)[0][:, 1].mean()
    return float((from_places + _TINY) / (from_places + from_points + 2 * _TINY))


def _spread(colours: Tensor) -> float:
    """The standard deviation of colours (n, C) from image to image, mean over the channels."""
    return float(colours.std(dim=0).mean())


def _without_noise(images: Tensor) -> Tensor:
    edge = _NOISE // 2
    padded = torch.nn.functional.pad(images, (edge, edge, edge, edge), mode="replicate")
    return torch.nn.functional.avg_pool2d(padded, _NOISE, stride=1)


def _paper_share_of_edge(images: Tensor, paper: Tensor) -> Tensor:
    """The share of the outermost pixels that have the paper's colour, (n,)."""
    differs = (edges(images) - paper[:, :, :, 0]).abs().amax(dim=1)  # (n, 2H + 2W)
    return (differs < _CALM_PAPER_TOLERANCE).float().mean(dim=1)


def _pen_colours(images: Tensor) -> Tensor:
    """The mean colour of each image, (n, C), in which a pixel counts the more the farther it is from the paper."""
    weights = ink(images).square()
    return (images * weights).sum(dim=(2, 3)) / weights.sum(dim=(2, 3)).clamp_min(_TINY)


def choose_geometry(images: ImageSet, kind: Augment, as_ink: bool = False) -> float:
    """How far glyphs may be moved and turned, relative to the most that suits any: 0.25 to 1.

    Where an image that is turned by ten degrees is much farther from all other images than it was before (clothes,
    always upright), turning is not something to be blind to. Photos are not judged: they differ too much from each
    other for distances of pixels to mean anything.
    """
    if kind != "glyph":
        return 1.0
    foreignness = turn_foreignness(_drawn(images, as_ink))
    return float(np.clip((_FOREIGN - foreignness) / _FOREIGN_SPAN, 0.25, 1.0))


def may_be_turned(images: ImageSet, as_ink: bool = False) -> bool:
    """Whether glyphs have no upright, and may be turned by any angle."""
    return has_no_upright(_drawn(images, as_ink))


def turn_foreignness(images: Tensor) -> float:
    """How much farther from its set a grey image (n, 1, H, W) is once it is turned by ten degrees: a ratio."""
    upright = _thumbnails(images, 0.0)  # (n, d)
    own = _distance_to_others(upright, upright)
    distances = [_distance_to_others(_thumbnails(images, angle), upright) for angle in (-_TURN, _TURN)]
    return float(sum((distance / own).median() for distance in distances) / 2)


def _thumbnails(images: Tensor, degrees: float) -> Tensor:
    """Images turned by an angle, made small, as unit vectors (n, d)."""
    drawn = turned(images, degrees, background_fill=True) - backgrounds(images)
    small = torch.nn.functional.adaptive_avg_pool2d(
        drawn, (min(_THUMBNAIL, images.shape[2]), min(_THUMBNAIL, images.shape[3]))
    )
    return torch.nn.functional.normalize(small.flatten(1), dim=1)


def _distance_to_others(images: Tensor, others: Tensor) -> Tensor:
    """Distance of each image to its fifth nearest among the others, (n,); the nearest may be a duplicate."""
    cosines = images @ others.T
    cosines.fill_diagonal_(-1)
    nearest = cosines.topk(min(_NEAREST, len(others)), dim=1).values[:, -1]
    return (2 - 2 * nearest).clamp_min(1e-6).sqrt()


def mean_lightness(images: ImageSet, as_ink: bool = False) -> float:
    """The mean over all pixels and channels of a sample, or over its ink."""
    sample = _sample(images)
    return float((ink(sample) if as_ink else sample).mean())


def colourfulness(images: Tensor) -> float:
    """Mean distance of the channels of images (n, C, H, W) from grey, 0 for grey images."""
    return float((images - images.mean(dim=1, keepdim=True)).abs().mean())


def paper_share(images: Tensor) -> Tensor:
    """The share of each grey image's pixels that is paper: grey images (n, 1, H, W) to (n,).

    Paper is what is about as light as the lightest pixel, or about as dark as the darkest, whichever is more.
    """
    flat = images.flatten(1)
    low, high = flat.min(dim=1, keepdim=True).values, flat.max(dim=1, keepdim=True).values
    reach = _PAPER_TOLERANCE * (high - low)
    dark, light = (flat <= low + reach).float().mean(dim=1), (flat >= high - reach).float().mean(dim=1)
    return torch.maximum(dark, light)


def _drawn(images: ImageSet, as_ink: bool) -> Tensor:
    """A sample as ink, or in grey: (n, 1, H, W) where the channels are 1 or 3."""
    return ink(_sample(images)) if as_ink else lightness(_sample(images))


def _sample(images: ImageSet) -> Tensor:
    """Up to 2,000 images, evenly spaced."""
    return images.batch(np.unique(np.linspace(0, len(images) - 1, _SAMPLE).astype(np.int64)))
