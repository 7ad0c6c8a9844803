"""One file over HTTP, continued where an earlier transfer of it was cut off."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rich.filesize import decimal

from gatcluster.data.destination import OnBytes
from gatcluster.errors import InputError

if TYPE_CHECKING:
    from requests import Response

_CHUNK = 1 << 16
_SECONDS_TO_CONNECT, _SECONDS_OF_SILENCE = 15, 60


class ResumingDownloader:
    """A downloader for pooch, whose own begins anew after each interruption.

    What arrives is kept in the file ``part`` until it has ``size`` bytes; only then pooch gets it and checks the hash.
    A transfer that ends early, however it ends, leaves ``part``, and the next one asks the server for the rest.
    """

    def __init__(self, part: Path, size: int, on_bytes: OnBytes) -> None:
        self._part, self._size, self._on_bytes = part, size, on_bytes

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        """Bring a URL to a file."""
        held = self._part.stat().st_size if self._part.exists() else 0
        if held < self._size:
            self._fetch(url, held)
        elif held > self._size:  # of another file
            self._fetch(url, 0)
        self._part.replace(output_file)

    def _fetch(self, url: str, held: int) -> None:
        """Bring the part to its full size, given how much of it can be used."""
        response = _answer(url, held)
        if response.status_code != 200 and not _is_rest(response, held):  # the server cannot continue here
            response.close()
            response = _answer(url, 0)
        with response:
            if response.status_code == 200:  # the server sends everything, whatever it was asked for
                held = 0
            self._check_size(response, held)
            done = self._store(url, response, held)
        if done < self._size:
            raise InputError(_cut_off(url, done, self._size))

    def _check_size(self, response: Response, held: int) -> None:
        """Notice at once, not after gigabytes, that another file is being sent (a login page, say)."""
        length = response.headers.get("Content-Length", "")
        if length.isdigit() and held + int(length) != self._size:
            raise InputError(
                f"{response.url} is not the published file: it has {held + int(length):,} bytes, not {self._size:,}"
            )

    def _store(self, url: str, response: Response, held: int) -> int:
        """Write what arrives, behind what is held; returns the bytes held in the end."""
        import urllib3

        done = held
        with self._part.open("ab" if held else "wb") as file:
            self._on_bytes(f"downloading {_name(url)}", done, self._size)
            try:
                # Not decoded: a server that calls a .gz file an encoding must not get it unpacked here.
                for chunk in response.raw.stream(_CHUNK, decode_content=False):
                    file.write(chunk[: self._size - done])
                    done += len(chunk)
                    if done > self._size:
                        break
                    self._on_bytes(f"downloading {_name(url)}", done, self._size)
            except urllib3.exceptions.HTTPError:
                raise InputError(_cut_off(url, done, self._size)) from None
        return min(done, self._size)


def _answer(url: str, held: int) -> Response:
    """The server's answer: 200, or, if something is held, maybe 206 or 416."""
    import requests

    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={held}-"} if held else {})
    try:
        response = requests.get(url, headers=headers, stream=True, timeout=(_SECONDS_TO_CONNECT, _SECONDS_OF_SILENCE))
    except requests.Timeout:
        raise InputError(f"no answer from {urlsplit(url).netloc}: try again later") from None
    except requests.RequestException as error:
        raise InputError(f"cannot reach {urlsplit(url).netloc}: {_reason(error)}") from None
    if response.status_code == 200 or (held and response.status_code in (206, 416)):
        return response
    response.close()
    raise InputError(f"{url} answered {response.status_code} {response.reason}".rstrip())


def _is_rest(response: Response, held: int) -> bool:
    return response.status_code == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {held}-")


def _cut_off(url: str, done: int, size: int) -> str:
    return f"{url} was cut off at {decimal(done)} of {decimal(size)}: run the same command again to resume"


def _name(url: str) -> str:
    return urlsplit(url).path.rpartition("/")[2]


def _reason(error: BaseException) -> str:
    """The innermost cause of a failed connection, which names it in the fewest words."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
