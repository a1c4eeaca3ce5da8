"""A file fetched from an address, with a bar that shows the rate and the time left."""

import hashlib
import http.client
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlparse

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

# Seconds without a byte after which a connection counts as lost.
TIMEOUT = 30

_BLOCK = 1 << 16  # bytes


def download(url, path, sha256=None):
    """Fetch a file.

    Args:
        url: its address: http, https or file.
        path: where to write it. After an error a part of it may be there; the caller removes the folder.
        sha256: the expected hash of the file, in hexadecimal digits; None checks nothing.

    Raises:
        ValueError: `url` is not such an address, or the file has another hash.
        ConnectionError: the file cannot be fetched completely.
        OSError: `path` cannot be written.
    """
    if urlparse(url).scheme not in ("http", "https", "file"):
        raise ValueError(f"expected an address that starts with https://, http:// or file://; got {url!r}.")
    digest = hashlib.sha256()
    # On stderr, since stdout belongs to the program.
    with _open(url) as response, Path(path).open("wb") as file, _bar(Console(stderr=True)) as bar:
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdecimal() else None
        task = bar.add_task(urlparse(url).path.rsplit("/", 1)[-1], total=total)
        received = 0
        while block := _read(response, url):
            file.write(block)
            digest.update(block)
            received += len(block)
            bar.update(task, completed=received)
    # http.client accepts an end before the promised length.
    if total is not None and received != total:
        raise ConnectionError(f"cannot fetch {url} (the connection ended after {received:,} of {total:,} bytes)")
    if sha256 is not None and digest.hexdigest() != sha256.lower():
        raise ValueError(f"{url} is not the expected file: its sha256 is {digest.hexdigest()}, not {sha256.lower()}.")


def _bar(console):
    columns = BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    return Progress(TextColumn("{task.description}", markup=False), *columns, console=console)


def _open(url):
    try:
        return urllib.request.urlopen(url, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        raise ConnectionError(f"cannot fetch {url} (HTTP {error.code} {error.reason})") from None
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        raise _not_fetched(url, error) from None


def _read(response, url):
    try:
        return response.read1(_BLOCK)  # the bytes that have arrived, so that the bar moves on a slow line
    except (OSError, http.client.HTTPException) as error:
        raise _not_fetched(url, error) from None


def _not_fetched(url, error):
    reason = " ".join(str(getattr(error, "reason", error)).split())
    return ConnectionError(f"cannot fetch {url} ({reason or type(error).__name__})")
