"""What a notebook shows of a fitted estimator."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
from PIL import Image

from gatcluster.data.images import ImageSet
from gatcluster.report.notebook import clusters_html, thumbnails

FEATURES = np.array([[0.9, 0.1, 0], [0.6, 0.4, 0], [0.2, 0.8, 0]], np.float32)


class Cells(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.cells, self.sources, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "img":
            self.sources.append(dict(attributes)["src"])
        else:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] == "td":
            self.cells.append(data)


def test_sizes_and_confidence_of_every_cluster_also_of_an_empty_one():
    page = Cells(clusters_html(FEATURES, ()))
    assert page.cells == ["0", "2", "0.75", "1", "1", "0.80", "2", "0", "-"]
    assert not page.open
    assert "3 clusters of 3 images, mean confidence 0.77; 4 files could not be read" in clusters_html(FEATURES, (), 4)


def test_thumbnails_are_the_surest_images_first_and_lie_in_the_page():
    pixels = np.stack([np.full((16, 8, 1), value, np.uint8) for value in (10, 200, 90)])
    page = Cells(clusters_html(FEATURES, thumbnails(ImageSet(pixels, ["a", "b", "c"]), FEATURES)))
    shown = [
        Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,")))) for uri in page.sources
    ]
    assert [image.getpixel((0, 0))[0] for image in shown] == [10, 200, 90]
    assert {image.size for image in shown} == {(20, 40)}


def test_what_would_break_out_of_the_page_is_escaped():
    assert "<script>" not in clusters_html(FEATURES, [['"><script>'], [], []])


def test_many_clusters_do_not_fill_the_notebook():
    features = np.eye(200, dtype=np.float32)
    page = clusters_html(features, ())
    assert len(re.findall("<tr>", page)) == 51
    assert "the first 50 are shown" in page
