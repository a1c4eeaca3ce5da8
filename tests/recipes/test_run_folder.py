"""The folder of a run records its settings."""

import keras
import pytest

from keras_bert_rebuild.files.yaml_files import read_yaml
from keras_bert_rebuild.recipes.run_folder import RunFolder, versions


def test_settings_and_every_start_are_recorded(tmp_path):
    assert not RunFolder(tmp_path / "run", {"seed": 1, "workers": 1}).resumes
    assert RunFolder(tmp_path / "run", {"seed": 1, "workers": 2}).resumes
    assert read_yaml(tmp_path / "run" / "settings.yaml") == {"seed": 1, "workers": 2}
    assert [start["backend"] for start in read_yaml(tmp_path / "run" / "versions.yaml")["starts"]] == [keras.config.backend()] * 2


def test_a_run_of_a_version_without_a_switch_resumes_while_it_is_off(tmp_path):
    RunFolder(tmp_path / "run", {"seed": 1})
    with pytest.raises(ValueError, match="switch was None and is True"):
        RunFolder(tmp_path / "run", {"seed": 1, "switch": True})
    assert RunFolder(tmp_path / "run", {"seed": 1, "switch": False}).resumes


def test_a_folder_of_other_files_is_not_written_to(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match=r"expected an empty folder or the folder of a run; .* holds other files"):
        RunFolder(tmp_path, {"seed": 1})
    with pytest.raises(ValueError, match=r"expected a folder for the run; .*letter\.txt is a file\."):
        RunFolder(tmp_path / "letter.txt", {"seed": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_versions_name_the_packages_and_the_revision(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert versions()["keras"] == keras.__version__
    assert versions()["git"] is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"seed: [", "must be YAML in UTF-8"),
        (b"\xff", "must be YAML in UTF-8"),
        (b"- seed", "must hold names and values; got list"),
        ("seed: 1".encode("utf-16"), "begins like UTF-16"),
        (b"a: &a [1]\nb: *a", "anchors and aliases are not read, and line 1 has 'a'"),
        (b"[" * 40 + b"]" * 40, "must have at most 32 levels; got 33"),
        (b"seed: " + b"9" * 5000, "must be YAML with plain values"),
        (b"seed: 2026-13-40", "must be YAML with plain values: month must be in"),
        (None, "; it does not exist"),
    ],
)
def test_a_file_that_holds_no_settings_is_one_sentence(tmp_path, content, message):
    if content is not None:
        (tmp_path / "s.yaml").write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        read_yaml(tmp_path / "s.yaml")
    assert "s.yaml" in str(error.value)
    assert "\n" not in str(error.value)


def test_the_devices_of_every_start_are_noted(tmp_path):
    for devices in (1, 8):
        RunFolder(tmp_path / "run", {"seed": 1, "distribute": str(devices)}, {"devices": devices})
    starts = read_yaml(tmp_path / "run" / "versions.yaml")["starts"]
    assert [start["devices"] for start in starts] == [1, 8]


def test_malformed_versions_are_one_sentence(tmp_path):
    RunFolder(tmp_path, {"seed": 1})
    (tmp_path / "versions.yaml").write_text("starts: 3")
    with pytest.raises(ValueError, match=r"versions.yaml must hold a list of starts; got int"):
        RunFolder(tmp_path, {"seed": 1})
