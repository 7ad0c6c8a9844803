"""Safe names: whatever the text, one part of a path that leads nowhere and exists on every system."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatcluster.runs.safe_names import FreeNames, safe_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cats", "cats"),
        ("Katzen & Hunde, 2.jpg", "Katzen & Hunde, 2.jpg"),
        ("猫", "猫"),
        ("..", "_"),
        (".", "_"),
        ("/etc/passwd", "_etc_passwd"),
        ("C:\\Windows", "C__Windows"),
        (".hidden", "_.hidden"),
        ("-rf", "_rf"),
        ("~root", "_~root"),
        ("CON", "_CON"),
        ("lpt1.png", "_lpt1.png"),
        ("console.png", "console.png"),
        ("ends with dots...", "ends with dots"),
        ("  spaces  ", "spaces"),
        ("two\nlines\r\t", "two_lines__"),
        ("gnp.\u202etxt", "gnp._txt"),  # would be read backwards
        ("caf\udce9", "caf_"),  # a byte that is no Unicode
    ],
)
def test_names(text, name):
    assert safe_name(text) == name


def test_long_names_keep_their_ending():
    name = safe_name("é" * 500 + ".jpeg")
    assert name.endswith("é.jpeg")
    assert len(name.encode()) <= 180


@given(st.text(max_size=400))
def test_whatever_the_text_it_is_one_harmless_part_of_a_path(text):
    name = safe_name(text)
    assert name
    assert not re.search(r'[/\\:*?"<>|\x00-\x1f\x7f]', name)
    assert not name.startswith((".", "-", "~"))
    assert not name.endswith((".", " "))
    assert len(name.encode()) <= 255
    assert safe_name(name) == name


@given(st.lists(st.text(alphabet="aAbB./é-2", max_size=4), max_size=60))
def test_no_name_is_handed_out_twice_even_where_case_does_not_count(texts):
    names = FreeNames("images.csv")
    taken = [names.take(text) for text in texts] + [names.take("Images.CSV")]
    assert len({name.casefold() for name in taken}) == len(taken)
    assert "images.csv" not in {name.casefold() for name in taken}
