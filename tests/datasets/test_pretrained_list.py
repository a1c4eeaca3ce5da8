"""Released checkpoints, fetched from an archive made by the test."""

import hashlib
import http.server
import io
import os
import shutil
import socket
import tarfile
import threading
import warnings
import zipfile
from pathlib import Path

import keras
import pytest

from keras_bert_rebuild import PretrainedInfo, PretrainedList, get_pretrained


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "keras" / "datasets"


@pytest.fixture
def archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "tiny_bert.v1.zip", "w") as archive:
        archive.writestr("tiny_bert/bert_config.json", "{}")
        archive.writestr("notes/readme.txt", "")
    return tmp_path / "tiny_bert.v1.zip"


def test_the_folder_of_the_archive_is_returned(cache, archive):
    folder = get_pretrained(archive.as_uri())
    assert folder == str(cache / "tiny_bert")
    assert (Path(folder) / "bert_config.json").exists()


def test_only_the_folder_stays_in_the_cache(cache, archive):
    get_pretrained(archive.as_uri())
    assert os.listdir(cache) == ["tiny_bert"]
    plain = cache / "plain"
    plain.mkdir()
    assert (cache / "tiny_bert").stat().st_mode == plain.stat().st_mode  # others may read it


def test_the_folder_gets_the_requested_name(cache, archive):
    folder = get_pretrained(PretrainedInfo(archive.as_uri(), "tiny_bert", "my_bert"))
    assert folder == str(cache / "my_bert")
    assert os.listdir(folder) == ["bert_config.json"]


def test_an_archive_of_files_alone_becomes_a_folder(cache, tmp_path):
    with zipfile.ZipFile(tmp_path / "flat.zip", "w") as archive:
        archive.writestr("bert_config.json", "{}")
    assert os.listdir(get_pretrained((tmp_path / "flat.zip").as_uri())) == ["bert_config.json"]


def test_a_tar_is_unpacked_as_well(cache, tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]")
    for ending in ("tar.gz", "tgz"):
        with tarfile.open(tmp_path / f"{ending[:2]}_bert.{ending}", "w:gz") as archive:
            archive.add(tmp_path / "vocab.txt", f"{ending[:2]}_bert/vocab.txt")
        folder = get_pretrained((tmp_path / f"{ending[:2]}_bert.{ending}").as_uri())
        assert (Path(folder) / "vocab.txt").read_text() == "[PAD]"


def test_the_second_call_needs_no_network(cache, archive):
    first = get_pretrained(archive.as_uri())
    archive.unlink()
    assert get_pretrained(archive.as_uri()) == first


def test_an_archive_with_the_right_hash_is_unpacked(cache, archive):
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert get_pretrained(PretrainedInfo(archive.as_uri(), "tiny_bert", "my_bert", sha256)) == str(cache / "my_bert")


def test_an_archive_with_another_hash_leaves_nothing_behind(cache, archive):
    with pytest.raises(ValueError, match="its sha256 is"):
        get_pretrained(PretrainedInfo(archive.as_uri(), "tiny_bert", "my_bert", "0" * 64))
    assert os.listdir(cache) == []


def test_an_archive_without_the_folder_is_one_sentence(cache, archive):
    with pytest.raises(ValueError, match=r"expected a folder publish in the archive .*; it has notes, tiny_bert"):
        get_pretrained(PretrainedInfo(archive.as_uri(), "publish", "x"))
    assert os.listdir(cache) == []


@pytest.mark.parametrize("extract_name", ["..", "../..", "/"])
def test_a_folder_outside_the_archive_is_not_moved(cache, archive, extract_name):
    with pytest.raises(ValueError, match="expected a folder"):
        get_pretrained(PretrainedInfo(archive.as_uri(), extract_name, "x"))
    assert archive.exists()
    assert os.listdir(cache) == []


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_a_damaged_archive_leaves_nothing_behind(cache, archive, tmp_path, kind):
    path = archive if kind == "zip" else write_tar(tmp_path / "tiny_bert.tar.gz", ("tiny_bert/a", bytes(99999), {}))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras's own, that it could not unpack it
        with pytest.raises(ValueError, match=rf"^{path.as_uri()} is damaged or not a supported archive \(.*\)\.$"):
            get_pretrained(path.as_uri())
    assert os.listdir(cache) == []


OUTSIDE = ["../evil", "tiny_bert/../../../evil", "/evil"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_zip_member_outside_the_folder_is_not_written(cache, archive, name):
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr(name, "x")
    with pytest.warns(UserWarning, match=f"Skipping invalid path during archive extraction: '{name}'"):
        folder = get_pretrained(archive.as_uri())
    assert os.listdir(folder) == ["bert_config.json"]
    assert os.listdir(cache) == ["tiny_bert"]
    assert not list(archive.parent.rglob("evil"))


def write_tar(path, *members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content, fields in (("tiny_bert/vocab.txt", b"[PAD]", {}), *members):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for field, value in fields.items():
                setattr(member, field, value)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    "members",
    [
        *([(name, b"x", {})] for name in OUTSIDE),
        *([("tiny_bert/up", b"", {"type": kind, "linkname": "../../.."})] for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE)),
    ],
    ids=[*OUTSIDE, "symbolic link", "hard link"],
)
def test_a_tar_member_or_link_outside_the_folder_is_not_written(cache, tmp_path, members):
    with pytest.warns(UserWarning, match="Skipping invalid path during archive extraction"):
        folder = get_pretrained(write_tar(tmp_path / "tiny_bert.tar.gz", *members).as_uri())
    assert os.listdir(folder) == ["vocab.txt"]
    assert not list(tmp_path.rglob("evil"))


def test_a_device_in_a_tar_leaves_nothing_behind(cache, tmp_path):
    path = write_tar(tmp_path / "tiny_bert.tar.gz", ("tiny_bert/null", b"", {"type": tarfile.CHRTYPE}))
    with pytest.raises(ValueError, match=r"is damaged or not a supported archive \('tiny_bert/null' is a special file\)\.$"):
        get_pretrained(path.as_uri())
    assert os.listdir(cache) == []


def test_a_file_that_is_not_an_archive_is_one_sentence(cache, archive):
    archive.write_text("<html>please log in</html>")
    with (
        pytest.warns(UserWarning, match="Could not extract archive"),
        pytest.raises(ValueError, match=r"is damaged or not a supported archive \(neither \.zip nor \.tar\.gz\)\.$"),
    ):
        get_pretrained(archive.as_uri())
    assert os.listdir(cache) == []


@pytest.mark.parametrize("url", ["tiny_bert.zip", "s3://bucket/tiny_bert.zip", "data:,/x"])
def test_other_addresses_are_one_sentence(cache, url):
    with pytest.raises(ValueError, match="expected a URL that starts with https://"):
        get_pretrained(url)


def test_without_a_network_the_message_says_what_to_do(cache):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/tiny_bert.zip"
    with pytest.raises(ConnectionError) as error:
        get_pretrained(url)
    sentence = str(error.value)
    assert sentence.startswith(f"cannot fetch {url} (")
    assert sentence.endswith(
        f"download it on another machine and unpack it so that the files of the checkpoint are in {cache / 'tiny_bert'}."
    )
    assert os.listdir(cache) == []


class EndsEarly(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if "none" in self.path:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"PK")

    def log_message(self, *args):
        pass


@pytest.mark.parametrize(
    ("name", "reason"),
    [("tiny_bert", r"retrieval incomplete: got only 2 out of 1000 bytes"), ("none", "HTTP 404 Not Found")],
)
def test_a_download_that_fails_names_address_and_reason_and_leaves_nothing_behind(cache, name, reason):
    with http.server.HTTPServer(("127.0.0.1", 0), EndsEarly) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/{name}.zip"
        with pytest.raises(ConnectionError, match=rf"^cannot fetch {url} \({reason}\): download it on another machine"):
            get_pretrained(url)
        thread.join()
    assert os.listdir(cache) == []


def test_a_file_that_is_not_there_is_not_fetched(cache, tmp_path):
    with pytest.raises(ConnectionError, match=r"cannot fetch file://.*No such file"):
        get_pretrained((tmp_path / "none.zip").as_uri())


def test_ctrl_c_leaves_nothing_behind(cache, archive, monkeypatch):
    def stop(name, url, cache_dir, **rest):
        (cache_dir / "archive").write_text("PK")
        raise KeyboardInterrupt

    monkeypatch.setattr(keras.utils, "get_file", stop)
    with pytest.raises(KeyboardInterrupt):
        get_pretrained(archive.as_uri())
    assert os.listdir(cache) == []


def test_the_first_of_two_simultaneous_downloads_stays(cache, archive, monkeypatch):
    def get_file_late(*args, **settings):
        shutil.copytree(archive.parent / "first", cache / "tiny_bert")
        return get_file(*args, **settings)

    (archive.parent / "first").mkdir()
    (archive.parent / "first" / "vocab.txt").write_text("")
    get_file = keras.utils.get_file
    monkeypatch.setattr(keras.utils, "get_file", get_file_late)
    assert os.listdir(get_pretrained(archive.as_uri())) == ["vocab.txt"]
    assert os.listdir(cache) == ["tiny_bert"]


def test_a_cache_that_cannot_be_written_is_one_sentence(cache, archive):
    cache.parent.write_text("a file where the cache should be")
    with pytest.raises(OSError, match=rf"^cannot write to {cache} \(.*\): free some space, or set KERAS_HOME to another cache\.$"):
        get_pretrained(archive.as_uri())


def test_a_file_instead_of_the_folder_is_one_sentence(cache, archive):
    cache.mkdir(parents=True)
    (cache / "tiny_bert").write_text("")
    with pytest.raises(ValueError, match=rf"expected a folder or an unused path at {cache / 'tiny_bert'}; it is a file\."):
        get_pretrained(archive.as_uri())


@pytest.mark.parametrize(
    "url", ["https://example.org", "https://example.org/", "https://example.org/.zip", "file:///a/..", "", "file:///C%3A.zip"]
)
def test_an_address_without_a_name_is_one_sentence(cache, url):
    with pytest.raises(ValueError, match="expected the URL of an archive"):
        get_pretrained(url)


def test_without_keras_home_the_cache_is_in_the_home_folder(cache, archive, tmp_path, monkeypatch):
    monkeypatch.delenv("KERAS_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    assert get_pretrained(archive.as_uri()) == str(tmp_path / "home" / ".keras" / "datasets" / "tiny_bert")


def test_the_released_checkpoints_are_listed():
    assert PretrainedList.multi_cased_base.endswith("multi_cased_L-12_H-768_A-12.zip")
    assert PretrainedList.chinese_wwm_base.extract_name == "publish"
    assert PretrainedList.chinese_wwm_base.sha256 is None
