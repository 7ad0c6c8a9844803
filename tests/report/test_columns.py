"""Columns as scripts: what is in a name stays in its string, and numbers come back as they were."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatcluster.report.columns import in_16_bits, numbers_script, texts_script, values_script

HARMLESS = re.compile(rb'gatcluster\.column\("[a-z]+", "[A-Za-z0-9]+", "[A-Za-z0-9+/=]*"\);\n')


def content(script: bytes) -> bytes:
    assert HARMLESS.fullmatch(script)
    return base64.b64decode(script.split(b'"')[5])


@pytest.mark.parametrize("kind", ["uint8", "uint16", "int16", "uint32", "float32"])
def test_numbers_come_back_in_little_endian_order_row_by_row(kind):
    numbers = np.array([[1, 2, 3], [4, 5, 120]], dtype=kind)
    back = np.frombuffer(content(numbers_script("x", numbers.T.copy().T)), dtype=np.dtype(kind).newbyteorder("<"))
    assert back.tolist() == [1, 2, 3, 4, 5, 120]


@given(st.lists(st.binary(max_size=12).map(lambda raw: raw.decode("utf-8", "surrogateescape")), max_size=8))
def test_names_of_any_bytes_come_back_byte_for_byte_and_never_leave_their_string(names):
    packed = content(texts_script("names", names))
    count = int.from_bytes(packed[:4], "little")
    ends = np.frombuffer(packed[4 : 4 + 4 * count], dtype="<u4").tolist()
    texts = packed[4 + 4 * count :]
    found = [texts[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert [part.decode("utf-8", "surrogateescape") for part in found] == names


def test_plain_data_has_no_markup_and_no_line_that_a_script_would_end_at():
    tree = {"<script>": ["</script><!--", 'quo"te', "\u2028\u2029", "caf\udce9", None, 1.5, True]}
    script = values_script("summary", tree)
    assert b"<" not in script
    assert script.isascii()
    assert script.count(b"\n") == 1
    text = script.decode("ascii").removeprefix('gatcluster.values("summary", ').removesuffix(");\n")
    assert json.loads(text) == tree


def test_what_json_has_no_word_for_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        values_script("summary", {"loss": float("nan")})


def test_shares_in_16_bits_keep_four_digits():
    shares = np.random.default_rng(0).random(1000)
    assert np.abs(in_16_bits(shares) / 65535 - shares).max() < 1e-5
    assert in_16_bits(np.array([-0.1, 1.1])).tolist() == [0, 65535]
