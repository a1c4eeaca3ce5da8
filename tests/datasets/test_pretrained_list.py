"""Released checkpoints, fetched from an archive that the test makes."""

import zipfile

import keras
import pytest

from keras_bert_rebuild import PretrainedInfo, PretrainedList, get_pretrained


@pytest.fixture
def address(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    monkeypatch.setattr(keras.utils, "get_file", lambda name, origin, extract: _get_file(tmp_path, name, origin, extract))
    with zipfile.ZipFile(tmp_path / "tiny_bert.zip", "w") as archive:
        archive.writestr("tiny_bert/bert_config.json", "{}")
    return (tmp_path / "tiny_bert.zip").as_uri()


def _get_file(tmp_path, name, origin, extract):
    """What Keras 3 does: the folder that an archive was unpacked to."""
    assert extract
    target = tmp_path / "cache" / name.replace(".zip", "_extracted")
    with zipfile.ZipFile(tmp_path / origin.rsplit("/", 1)[1]) as archive:
        archive.extractall(target)
    return str(target)


def test_the_folder_of_the_archive_is_returned(address):
    from pathlib import Path

    assert (Path(get_pretrained(address)) / "bert_config.json").exists()


def test_the_folder_gets_the_name_that_is_asked_for(address):
    from pathlib import Path

    info = PretrainedInfo(address, "tiny_bert", "my_bert")
    for _ in range(2):  # and stays there
        folder = Path(get_pretrained(info))
        assert folder.name == "my_bert"
        assert (folder / "bert_config.json").exists()


def test_an_archive_without_the_folder_is_one_sentence(address):
    with pytest.raises(ValueError, match="expected a folder publish in the archive"):
        get_pretrained(PretrainedInfo(address, "publish", "x"))


def test_the_released_checkpoints_are_listed():
    assert PretrainedList.multi_cased_base.endswith("multi_cased_L-12_H-768_A-12.zip")
    assert PretrainedList.chinese_wwm_base.extract_name == "publish"
