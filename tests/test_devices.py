"""What is chosen for the machine."""

import pytest

from gatcluster import devices
from gatcluster.devices import chosen_precision, computes_in_bf16


@pytest.fixture
def processor(tmp_path, monkeypatch):
    """A machine whose processor has these features."""

    def with_features(text: str | None) -> None:
        path = tmp_path / "cpuinfo"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(f"processor\t: 0\nflags\t\t: fpu vme {text} sse2\n")
        monkeypatch.setattr(devices, "_PROCESSORS", path)
        computes_in_bf16.cache_clear()

    yield with_features
    computes_in_bf16.cache_clear()


@pytest.mark.parametrize("feature", ["avx512_bf16", "amx_bf16", "bf16"])
def test_processors_made_for_16_bits_are_known(processor, feature):
    processor(feature)
    assert computes_in_bf16()


@pytest.mark.parametrize("feature", ["", "avx512f avx2", "avx512_bf16x", None])
def test_others_are_not_taken_for_them(processor, feature):
    processor(feature)
    assert not computes_in_bf16()


def test_auto_takes_16_bits_only_in_fast_on_such_a_cpu(processor, monkeypatch):
    processor("avx512_bf16")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    assert chosen_precision("auto", "fast", "cpu") == chosen_precision("auto", "fast", "auto") == "bf16-mixed"
    assert chosen_precision("auto", "paper", "cpu") == "32-true"
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert chosen_precision("auto", "fast", "auto") == chosen_precision("auto", "fast", "cuda") == "32-true"
    assert chosen_precision("auto", "fast", "cpu") == "bf16-mixed"


def test_what_is_asked_for_stays(processor):
    processor("avx512_bf16")
    assert chosen_precision("32-true", "fast", "cpu") == "32-true"
