"""Only regular files are opened, and none that is larger than its limit."""

import os
import socket

import pytest

from keras_bert_rebuild.files.regular import check_regular, read_bytes, read_text


def test_pipes_sockets_devices_and_folders_are_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        for path, kind in ((tmp_path / "pipe", "a named pipe"), (tmp_path / "link", "a named pipe"), (tmp_path / "s", "a socket")):
            with pytest.raises(ValueError, match=f"expected a file at .*; it is {kind}"):
                read_bytes(path, "json_bytes")
    with pytest.raises(ValueError, match="it is a folder"):
        check_regular(tmp_path)
    with pytest.raises(ValueError, match="it is a device"):
        check_regular("/dev/zero")
    with pytest.raises(ValueError, match=r"a\\x00b is not a file name"):
        check_regular("a\0b")


def test_a_link_to_a_file_and_a_file_that_is_not_there_pass(tmp_path):
    (tmp_path / "file").write_bytes(b"123")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert check_regular(tmp_path / "link") == 3
    assert check_regular(tmp_path / "none") == 0
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "none", "json_bytes")


def test_a_file_above_the_limit_is_not_read(tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)  # a hole
    with pytest.raises(ValueError, match=r"large must have at most 67,108,864 bytes; got 1,099,511,627,776\."):
        read_bytes(tmp_path / "large", "json_bytes")


def test_another_encoding_is_named(tmp_path):
    (tmp_path / "a.json").write_text("{}", encoding="utf-16")
    with pytest.raises(ValueError, match=r"a\.json must be JSON in UTF-8; byte 0 is not; it begins like UTF-16\."):
        read_text(tmp_path / "a.json", "json_bytes", "JSON")
