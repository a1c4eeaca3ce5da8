"""Files fetched from a server in a thread of the test, and from disk."""

import hashlib
import http.server
import socket
import threading

import pytest

from keras_bert_rebuild.datasets import pretrained as module
from keras_bert_rebuild.datasets.pretrained import download

CONTENT = bytes(range(256)) * 1000


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by the last part of the address: whole, chunked, cut, cut_chunk, stuck; everything else is missing."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        kind = self.path.strip("/")
        self.close_connection = True
        if kind not in ("whole", "chunked", "cut", "cut_chunk", "stuck"):
            self.send_error(404)
            return
        self.send_response(200)
        if "chunk" in kind:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        if "chunk" in kind:
            self.wfile.write(b"%x\r\n" % len(CONTENT))
        self.wfile.write(CONTENT if kind in ("whole", "chunked") else CONTENT[:1000])
        if kind == "chunked":
            self.wfile.write(b"\r\n0\r\n\r\n")
        if kind == "stuck":
            self.server.may_end.wait()

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.may_end = threading.Event()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.may_end.set()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("kind", ["whole", "chunked"])
def test_a_file_is_written_as_it_is(server, tmp_path, kind):
    download(f"{server}/{kind}", tmp_path / "file", hashlib.sha256(CONTENT).hexdigest().upper())
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_the_bar_shows_name_size_and_rate_and_leaves_stdout_alone(server, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    download(f"{server}/whole", tmp_path / "file")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert all(part in shown.err for part in ("whole", "256.0/256.0 kB", "/s", "0:00:00"))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("cut", "the connection ended after 1,000 of 256,000 bytes"),
        ("cut_chunk", "IncompleteRead"),
        ("stuck", "timed out"),
        ("nothing", "HTTP 404 Not Found"),
    ],
)
def test_a_download_that_fails_names_address_and_reason(server, tmp_path, monkeypatch, kind, reason):
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    with pytest.raises(ConnectionError, match=rf"^cannot fetch {server}/{kind} \(.*{reason}"):
        download(f"{server}/{kind}", tmp_path / "file")


def test_a_closed_port_names_address_and_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConnectionError, match=rf"^cannot fetch http://127.0.0.1:{port}/x \(.*refused"):
        download(f"http://127.0.0.1:{port}/x", tmp_path / "file")


def test_a_file_with_another_hash_is_one_sentence(tmp_path):
    (tmp_path / "source").write_bytes(CONTENT)
    found = hashlib.sha256(CONTENT).hexdigest()
    with pytest.raises(ValueError, match=f"is not the expected file: its sha256 is {found}, not {'0' * 64}"):
        download((tmp_path / "source").as_uri(), tmp_path / "file", "0" * 64)


def test_a_file_that_is_not_there_is_not_fetched(tmp_path):
    with pytest.raises(ConnectionError, match=r"cannot fetch file://.*No such file"):
        download((tmp_path / "none").as_uri(), tmp_path / "file")


@pytest.mark.parametrize("url", ["tiny_bert.zip", "s3://bucket/tiny_bert.zip", "data:,x"])
def test_other_addresses_are_one_sentence(url, tmp_path):
    with pytest.raises(ValueError, match="expected a URL that starts with https://"):
        download(url, tmp_path / "file")


def test_a_name_that_cannot_be_written_is_a_disk_error_and_not_a_network_error(tmp_path):
    (tmp_path / "source").write_bytes(CONTENT)
    with pytest.raises(FileNotFoundError):
        download((tmp_path / "source").as_uri(), tmp_path / "no folder" / "file")
