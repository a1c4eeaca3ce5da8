"""Released checkpoints by name, downloaded and unpacked on request by Keras, with its progress bar."""

import hashlib
import http.client
import os
import struct
import tarfile
import tempfile
import urllib.error
import zipfile
import zlib
from collections import namedtuple
from pathlib import Path
from urllib.parse import unquote, urlparse

import keras

# What Keras, zipfile and tarfile raise for damage, encryption and another hash.
_DAMAGE: tuple[type[Exception], ...] = (zipfile.BadZipFile, tarfile.TarError, zlib.error, struct.error, NotImplementedError)
_DAMAGE += (EOFError, ValueError, OverflowError, RuntimeError, IndexError)

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
        ValueError: the archive has no such folder or another sha256, or is damaged or not an archive; or the path of the folder is
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
        source = _folder_in(_unpacked(info, Path(partial)), name, info)
        try:
            source.rename(target)
        except OSError:
            if not target.is_dir():  # otherwise another process was faster
                raise


def _unpacked(info, folder):
    """The folder, in an empty one, that the archive was unpacked to; Keras leaves out members that would be written elsewhere."""
    url, sha256 = info.url, info.sha256 and info.sha256.lower()
    if urlparse(url).scheme not in ("http", "https", "file"):
        raise ValueError(f"expected a URL that starts with https://, http:// or file://; got {url!r}.")
    check = {"file_hash": sha256, "hash_algorithm": "sha256"}
    reason = "neither .zip nor .tar.gz"
    try:
        unpacked = Path(keras.utils.get_file("unpacked", url, cache_dir=folder, cache_subdir="", extract=True, **check))
        if unpacked.is_dir():
            return unpacked
    except _DAMAGE as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        for archive in (path for path in folder.iterdir() if path.is_file()):
            with archive.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if sha256 not in (None, digest):
                raise ValueError(f"{url} is not the expected file: its sha256 is {digest}, not {sha256}.") from None
    except (ConnectionError, TimeoutError, http.client.HTTPException) as error:
        raise _not_fetched(url, error) from None
    except Exception as error:  # of this very class, for an address that cannot be opened
        if not isinstance(error.__context__, urllib.error.URLError):
            raise
        raise _not_fetched(url, error.__context__) from None
    raise ValueError(f"{url} is damaged or not a supported archive ({reason}).")


def _not_fetched(url, error):
    status = f"HTTP {error.code} " if isinstance(error, urllib.error.HTTPError) else ""
    reason = " ".join(str(getattr(error, "reason", error)).split())
    return ConnectionError(f"cannot fetch {url} ({status}{reason or type(error).__name__})")


def _folder_in(unpacked, name, info):
    source = unpacked / name
    if source.is_dir() and source.resolve().is_relative_to(unpacked.resolve()):
        return source
    if not info.extract_name and any(path.is_file() for path in unpacked.iterdir()):
        return unpacked
    names = ", ".join(sorted(path.name for path in unpacked.iterdir())) or "nothing"
    raise ValueError(f"expected a folder {name} in the archive {info.url}; it has {names}.")
