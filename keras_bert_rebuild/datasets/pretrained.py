"""Released checkpoints by name, downloaded on request, with a progress bar."""

import hashlib
import http.client
import os
import tempfile
import urllib.error
import urllib.request
from collections import namedtuple
from pathlib import Path
from urllib.parse import unquote, urlparse

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from keras_bert_rebuild.datasets.unpack import unpack

# Seconds without data after which a connection is considered lost.
TIMEOUT = 30

_BLOCK = 1 << 16  # bytes


def download(url, path, sha256=None):
    """Download a file.

    Args:
        url: an http, https or file URL.
        path: where to write it. After an error, part of it may be there; the caller removes the folder.
        sha256: the expected hash of the file, in hexadecimal; None skips the check.

    Raises:
        ValueError: `url` is not such a URL, or the file has another hash.
        ConnectionError: the download fails or is incomplete.
        OSError: `path` cannot be written.
    """
    if urlparse(url).scheme not in ("http", "https", "file"):
        raise ValueError(f"expected a URL that starts with https://, http:// or file://; got {url!r}.")
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
    # http.client does not report a download that ends early.
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
        return response.read1(_BLOCK)  # what has arrived so far, so that the bar moves on a slow connection
    except (OSError, http.client.HTTPException) as error:
        raise _not_fetched(url, error) from None


def _not_fetched(url, error):
    reason = " ".join(str(getattr(error, "reason", error)).split())
    return ConnectionError(f"cannot fetch {url} ({reason or type(error).__name__})")


PretrainedInfo = namedtuple("PretrainedInfo", ["url", "extract_name", "target_name", "sha256"], defaults=[None])

_GOOGLE = "https://storage.googleapis.com/bert_models/"


class PretrainedList:
    """URLs of released checkpoints, for `get_pretrained`."""

    __test__ = PretrainedInfo(
        "https://github.com/CyberZHG/keras-bert/archive/master.zip",
        "keras-bert-master",
        "keras-bert",
    )
    multi_cased_base = f"{_GOOGLE}2018_11_23/multi_cased_L-12_H-768_A-12.zip"
    chinese_base = f"{_GOOGLE}2018_11_03/chinese_L-12_H-768_A-12.zip"
    wwm_uncased_large = f"{_GOOGLE}2019_05_30/wwm_uncased_L-24_H-1024_A-16.zip"
    wwm_cased_large = f"{_GOOGLE}2019_05_30/wwm_cased_L-24_H-1024_A-16.zip"
    chinese_wwm_base = PretrainedInfo(
        "https://storage.googleapis.com/hfl-rc/chinese-bert/chinese_wwm_L-12_H-768_A-12.zip",
        "publish",
        "chinese_wwm_L-12_H-768_A-12",
    )


def get_pretrained(info: str | PretrainedInfo) -> str:
    """Download and unpack a checkpoint, unless it is in the cache.

    Args:
        info: the URL of a .zip or .tar.gz file, or a `PretrainedInfo` with URL, folder inside the archive, new name of the folder
            and optionally the sha256 of the archive, such as those of `PretrainedList`. For a bare URL both names are that of the
            archive up to its first dot, and an archive without such a folder is unpacked into a new one.

    Returns:
        The folder of the checkpoint, in the folder `datasets` of Keras's cache (`KERAS_HOME` or `~/.keras`). If it exists already,
        nothing is downloaded.

    Raises:
        ValueError: the archive has no such folder or another sha256, is damaged or unsafe to unpack, or the path of the folder is
            a file.
        OSError: the download fails, or the cache cannot be written.
    """
    if isinstance(info, str):
        info = PretrainedInfo(info, None, None)
    name = info.extract_name or _archive_name(info.url)
    cache = Path(os.path.expanduser(os.environ.get("KERAS_HOME") or "~/.keras")) / "datasets"
    target = cache / (info.target_name or name)
    if target.is_dir():
        return str(target)
    if target.exists():
        raise ValueError(f"expected a folder or an unused path at {target}; it is a file.")
    try:
        _fetch(info, name, target)
    except ConnectionError as error:
        advice = f"download it on another machine and unpack it so that the files of the checkpoint are in {target}"
        raise ConnectionError(f"{error}: {advice}.") from None
    except OSError as error:
        reason = error.strerror or error
        raise OSError(f"cannot write to {target.parent} ({reason}): free some space, or set KERAS_HOME to another cache.") from None
    return str(target)


def _archive_name(url):
    name = unquote(urlparse(url).path).rsplit("/", 1)[-1].split(".")[0]
    if not name or any(character in name for character in "\\:\0"):
        raise ValueError(f"expected the URL of an archive, such as https://…/name.zip; got {url!r}.")
    return name


def _fetch(info, name, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    # Next to its target, since a rename across file systems is a copy.
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent, ignore_cleanup_errors=True) as partial:
        archive, unpacked = Path(partial, "archive"), Path(partial, "unpacked")
        download(info.url, archive, info.sha256)
        unpack(archive, unpacked, info.url)
        source = _folder_in(unpacked, name, info)
        try:
            source.rename(target)
        except OSError:
            if not target.is_dir():  # otherwise another process was faster
                raise


def _folder_in(unpacked, name, info):
    source = unpacked / name
    if source.is_dir() and source.resolve().is_relative_to(unpacked.resolve()):
        return source
    if not info.extract_name and any(path.is_file() for path in unpacked.iterdir()):
        return unpacked
    found = ", ".join(sorted(path.name for path in unpacked.iterdir())) or "nothing"
    raise ValueError(f"expected a folder {name} in the archive {info.url}; it has {found}.")
