from __future__ import annotations

import tarfile

import pytest

from gatcluster.data.unpack import unpack
from gatcluster.errors import InputError


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def names(folder) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def archive(tmp_path, tar_gz):
    """Writes an archive into a folder of its own, below the one that evil members aim at."""
    (tmp_path / "dest").mkdir()

    def make(files, *members):
        path = tmp_path / "dest" / "a.tar.gz"
        path.write_bytes(tar_gz(files, *members))
        return path

    return make


def test_an_archive_becomes_its_folder(archive, tmp_path):
    told = []
    path = archive({"data/a.bin": b"a", "data/deep/b.bin": b"bb", "other/c.bin": b"c"})
    unpack(path, tmp_path / "dest" / "data", lambda *news: told.append(news))
    assert names(tmp_path) == {
        "dest",
        "dest/a.tar.gz",
        "dest/data",
        "dest/data/a.bin",
        "dest/data/deep",
        "dest/data/deep/b.bin",
    }
    assert (tmp_path / "dest/data/deep/b.bin").read_bytes() == b"bb"
    size = path.stat().st_size
    assert told[-1] == ("unpacking a.tar.gz", size, size)


EVIL = {
    "upwards": {"../evil": b"x"},
    "upwards inside": {"data/../../evil": b"x"},
    "absolute": {"/tmp/gatcluster-evil": b"x"},
    "backslashes": {"data\\..\\..\\evil": b"x"},
}
EVIL_MEMBERS = {
    "symbolic link out": member("data/link", tarfile.SYMTYPE, "/etc"),
    "symbolic link inside": member("data/link", tarfile.SYMTYPE, "good.bin"),
    "hard link": member("data/link", tarfile.LNKTYPE, "data/good.bin"),
    "pipe": member("data/pipe", tarfile.FIFOTYPE),
    "device": member("data/device", tarfile.CHRTYPE),
}


@pytest.mark.parametrize("case", EVIL)
def test_a_member_outside_is_refused_and_nothing_is_left(archive, tmp_path, case):
    path = archive({"data/good.bin": b"good", **EVIL[case]})
    with pytest.raises(InputError, match=r"cannot unpack .*would lie outside"):
        unpack(path, tmp_path / "dest" / "data", lambda *_: None)
    assert names(tmp_path) == {"dest", "dest/a.tar.gz"}


@pytest.mark.parametrize("case", EVIL_MEMBERS)
def test_a_member_that_is_no_file_is_refused_and_nothing_is_left(archive, tmp_path, case):
    path = archive({"data/good.bin": b"good"}, EVIL_MEMBERS[case])
    with pytest.raises(InputError, match=r"cannot unpack .*neither a file nor a folder"):
        unpack(path, tmp_path / "dest" / "data", lambda *_: None)
    assert names(tmp_path) == {"dest", "dest/a.tar.gz"}


@pytest.mark.parametrize("keep", [0, 5, 0.5, 0.9])
def test_a_truncated_archive_is_refused_and_nothing_is_left(archive, tmp_path, keep):
    path = archive({"data/a.bin": bytes(range(256)) * 100})
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(InputError, match="cannot unpack"):
        unpack(path, tmp_path / "dest" / "data", lambda *_: None)
    assert names(tmp_path) == {"dest", "dest/a.tar.gz"}


def test_an_archive_of_something_else_is_refused(archive, tmp_path):
    path = archive({"other/c.bin": b"c"})
    with pytest.raises(InputError, match="no folder data in it"):
        unpack(path, tmp_path / "dest" / "data", lambda *_: None)
    assert names(tmp_path) == {"dest", "dest/a.tar.gz"}


def test_an_interruption_leaves_nothing(archive, tmp_path):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    path = archive({"data/a.bin": b"a"})
    with pytest.raises(KeyboardInterrupt):
        unpack(path, tmp_path / "dest" / "data", interrupt)
    assert names(tmp_path) == {"dest", "dest/a.tar.gz"}


def test_what_a_killed_run_left_does_not_get_into_the_folder(archive, tmp_path):
    left = tmp_path / "dest" / ".data.unpacking" / "data"
    left.mkdir(parents=True)
    (left / "half.bin").write_bytes(b"half")
    unpack(archive({"data/a.bin": b"a"}), tmp_path / "dest" / "data", lambda *_: None)
    assert names(tmp_path / "dest") == {"a.tar.gz", "data", "data/a.bin"}
