"""One file for each way in which images lie on a disk.

Every format has a function that finds its images, which are either encoded (:class:`~gatcluster.data.encoded.
EncodedImages`, decoded elsewhere) or plain pixels (:class:`~gatcluster.data.stored.StoredImages`). A format that
carries labels has a function ``labels`` as well, which only :mod:`gatcluster.evaluation` calls: learning never sees
a label.
"""
