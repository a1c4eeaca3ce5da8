"""Released checkpoints by name, fetched when asked for."""

import shutil
from collections import namedtuple
from pathlib import Path
from urllib.parse import urlparse

import keras

PretrainedInfo = namedtuple("PretrainedInfo", ["url", "extract_name", "target_name"])

_GOOGLE = "https://storage.googleapis.com/bert_models/"


class PretrainedList:
    """Addresses of released checkpoints, for `get_pretrained`."""

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


def get_pretrained(info):
    """Download a checkpoint, unless it is there already, and unpack it.

    Args:
        info: an address, or a `PretrainedInfo` of address, folder inside the archive and the name that it is to have; such as those
            of `PretrainedList`.

    Returns:
        The folder of the checkpoint, in Keras's cache.

    Raises:
        ValueError: the archive has no such folder.
    """
    url, extract_name, target_name = info if isinstance(info, PretrainedInfo) else (info, None, None)
    archive = Path(urlparse(url).path).name
    name = extract_name or archive.split(".")[0]
    extracted = Path(keras.utils.get_file(archive, origin=url, extract=True))
    target = extracted / (target_name or name)
    if not target.exists():
        source = extracted / name
        if not source.exists():
            raise ValueError(f"expected a folder {name} in the archive {url}; it is not there.")
        shutil.move(source, target)
    return str(target)
