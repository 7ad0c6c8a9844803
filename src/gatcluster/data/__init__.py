"""What reads images: folders, files and arrays in, one :class:`ImageSet` out; and batched augmentation.

Nothing is imported here: worker processes that decode images have no need of torch.
"""
