"""What reads images: folders, files and arrays in, one :class:`ImageSet` out; and batched augmentation."""

from gatcluster.data.images import ImageSet
from gatcluster.data.sources import read_images

__all__ = ["ImageSet", "read_images"]
