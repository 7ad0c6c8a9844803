"""The paper's data sets from their publishers: what to fetch, from where, and how to know that it is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gatcluster.data.destination import OnBytes, check_space, unheard, writable
from gatcluster.data.transfer import ResumingDownloader
from gatcluster.data.unpack import unpack
from gatcluster.errors import InputError


@dataclass(frozen=True)
class RemoteFile:
    """A file as it was published."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class DataSet:
    """A data set as it was published.

    Attributes:
        folder: What it becomes in the destination, and what can be given to `gatcluster fit`.
        n_classes: How many classes the paper clusters it into.
        mirrors: Addresses that end in a slash and hold the files, the publisher's own first.
        files: What to fetch: one archive, or files that are kept as they are.
        unpacked: For an archive, the size of each file in it that is needed.
    """

    folder: str
    n_classes: int
    mirrors: tuple[str, ...]
    files: tuple[RemoteFile, ...]
    unpacked: Mapping[str, int] | None = None


# Sizes and SHA-256 are those that TensorFlow Datasets records; other public projects record the same.
DATA_SETS: Mapping[str, DataSet] = {
    "cifar10": DataSet(
        folder="cifar-10-batches-bin",
        n_classes=10,
        mirrors=("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/"),
        files=(
            RemoteFile(
                "cifar-10-binary.tar.gz",
                170_052_171,
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            ),
        ),
        unpacked={
            "data_batch_1.bin": 30_730_000,
            "data_batch_2.bin": 30_730_000,
            "data_batch_3.bin": 30_730_000,
            "data_batch_4.bin": 30_730_000,
            "data_batch_5.bin": 30_730_000,
            "test_batch.bin": 30_730_000,
        },
    ),
    "cifar100": DataSet(
        folder="cifar-100-binary",
        n_classes=20,  # the coarse ones
        mirrors=("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/"),
        files=(
            RemoteFile(
                "cifar-100-binary.tar.gz",
                168_513_733,
                "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            ),
        ),
        unpacked={"train.bin": 153_700_000, "test.bin": 30_740_000},
    ),
    "stl10": DataSet(
        folder="stl10_binary",
        n_classes=10,
        mirrors=("https://ai.stanford.edu/~acoates/stl10/", "https://cs.stanford.edu/~acoates/stl10/"),
        files=(
            RemoteFile(
                "stl10_binary.tar.gz",
                2_640_397_119,
                "f31fd99273a1acb8609c8db427cebb1de3f71de77758cdc0e22956e1289b9866",
            ),
        ),
        unpacked={
            "train_X.bin": 138_240_000,
            "train_y.bin": 5_000,
            "test_X.bin": 221_184_000,
            "test_y.bin": 8_000,
            "unlabeled_X.bin": 2_764_800_000,
        },
    ),
    "mnist": DataSet(
        folder="mnist",
        n_classes=10,
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        files=(
            RemoteFile(
                "train-images-idx3-ubyte.gz",
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            RemoteFile(
                "train-labels-idx1-ubyte.gz",
                28_881,
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            RemoteFile(
                "t10k-images-idx3-ubyte.gz",
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            RemoteFile(
                "t10k-labels-idx1-ubyte.gz",
                4_542,
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
    ),
    "fashion-mnist": DataSet(
        folder="fashion-mnist",
        n_classes=10,
        mirrors=(
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
        ),
        files=(
            RemoteFile(
                "train-images-idx3-ubyte.gz",
                26_421_880,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            ),
            RemoteFile(
                "train-labels-idx1-ubyte.gz",
                29_515,
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            ),
            RemoteFile(
                "t10k-images-idx3-ubyte.gz",
                4_422_102,
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            ),
            RemoteFile(
                "t10k-labels-idx1-ubyte.gz",
                5_148,
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
        ),
    ),
}


@dataclass(frozen=True)
class Download:
    """What became of a call: where the data are, and the files that had to be fetched for it."""

    path: Path
    fetched: Sequence[str]


def download(name: str, destination: Path, mirror: str | None = None, on_bytes: OnBytes = unheard) -> Download:
    """Bring a data set of :data:`DATA_SETS` into a folder, or find that it is there already.

    Args:
        name: Which one.
        destination: The folder to make it in; several data sets can share one.
        mirror: An address to use instead of the publisher's: it has a folder for each data set, with the files.
        on_bytes: Told how far the work is.

    """
    data_set = DATA_SETS[name]
    if mirror is not None and not mirror.startswith(("http://", "https://")):
        raise InputError(f"cannot use mirror '{mirror}': give an address such as https://mirror.example.org/data")
    mirrors = data_set.mirrors if mirror is None else (f"{mirror.rstrip('/')}/{name}/",)
    path = destination / data_set.folder
    if data_set.unpacked is None:
        return Download(path, _files(data_set.files, path, mirrors, on_bytes))
    if path.exists():
        _check_unpacked(path, data_set.unpacked)
        return Download(path, [])
    return Download(path, _archive(data_set.files[0], path, data_set.unpacked, mirrors, on_bytes))


def _files(files: Sequence[RemoteFile], folder: Path, mirrors: Sequence[str], on_bytes: OnBytes) -> list[str]:
    """Files that are kept as they are; returns the names of those that were not there."""
    missing = [file for file in files if not _is_there(file, folder)]
    check_space(folder, sum(_missing_bytes(file, folder) for file in missing))
    with writable(folder):
        for file in missing:
            _fetch(file, folder, mirrors, on_bytes)
    return [file.name for file in missing]


def _archive(
    file: RemoteFile, path: Path, unpacked: Mapping[str, int], mirrors: Sequence[str], on_bytes: OnBytes
) -> list[str]:
    """An archive that becomes a folder. It is removed then, unless it was the user's own."""
    folder = path.parent
    is_there = _is_there(file, folder)
    check_space(folder, sum(unpacked.values()) + (0 if is_there else _missing_bytes(file, folder)))
    with writable(folder):
        if not is_there:
            _fetch(file, folder, mirrors, on_bytes)
        unpack(folder / file.name, path, on_bytes)
        _check_unpacked(path, unpacked)
        if is_there:
            return []
        (folder / file.name).unlink()
    return [file.name]


def _fetch(file: RemoteFile, folder: Path, mirrors: Sequence[str], on_bytes: OnBytes) -> None:
    """Fetch a file from the first mirror that has it; each continues what another began."""
    import pooch

    pooch.get_logger().setLevel("WARNING")  # it would announce every file on standard error
    problems = []
    for mirror in mirrors:
        try:
            pooch.retrieve(
                mirror + file.name,
                known_hash=f"sha256:{file.sha256}",
                fname=file.name,
                path=folder.resolve(),
                downloader=ResumingDownloader(_part(file, folder), file.size, on_bytes),
            )
            return
        except InputError as error:
            problems.append(str(error))
        except ValueError as error:  # pooch's "hash ... does not match ...: expected ... but got ... . Deleted ..."
            mismatch = str(error).partition(". ")[0]
            problems.append(f"wrong checksum from {mirror}: {mismatch}; it was removed, run again to fetch it anew")
    raise InputError("; ".join(problems))


def _is_there(file: RemoteFile, folder: Path) -> bool:
    """Whether the published file lies in a folder; one that is called like it, but differs, is not replaced."""
    path = folder / file.name
    if not path.exists():
        return False
    import pooch

    found = pooch.file_hash(path, alg="sha256")
    if found != file.sha256:
        raise InputError(
            f"{path} is not the published file (sha256 {found}, not {file.sha256}): move it away and run again"
        )
    return True


def _check_unpacked(path: Path, unpacked: Mapping[str, int]) -> None:
    for name, size in unpacked.items():
        found = (path / name).stat().st_size if (path / name).is_file() else None
        if found != size:
            what = "is missing" if found is None else f"has {found:,} bytes, not {size:,}"
            raise InputError(f"{path} is not the published data: {name} {what}; move it away and run again")


def _missing_bytes(file: RemoteFile, folder: Path) -> int:
    part = _part(file, folder)
    return max(file.size - (part.stat().st_size if part.exists() else 0), 0)


def _part(file: RemoteFile, folder: Path) -> Path:
    return folder / f"{file.name}.part"
