"""A Hugging Face hub on the loopback interface, with the routes that the client asks for: the client is the real one."""

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from huggingface_hub import constants

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class LoopbackHub:
    """Repositories, folders on disk, as a hub has them.

    Args:
        repositories: repository to folder.
    """

    def __init__(self, repositories):
        self.repositories = {name: Path(folder) for name, folder in repositories.items()}
        self.asked = []
        """The method and the path of every request."""

        self.gated, self.broken_off, self.wrong, self.down = set(), {}, set(), False
        """Repositories that need a permission; files, by path, to the number of bytes after which their first download ends; paths
        of files that come with other bytes; and whether every answer is an error of the server."""

    def content(self, repository, name):
        data = (self.repositories[repository] / name).read_bytes()
        return bytes(len(data)) if name in self.wrong else data

    def files(self, repository):
        folder = self.repositories[repository]
        return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())

    def entry(self, repository, name):
        """What the hub says of a file; weights are in its store of large files, with a checksum."""
        data = (self.repositories[repository] / name).read_bytes()
        entry = {
            "type": "file",
            "path": name,
            "rfilename": name,
            "size": len(data),
            "oid": _git_hash(data),
            "blobId": _git_hash(data),
        }
        if is_large(name):
            entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "oid": hashlib.sha256(data).hexdigest(), "size": len(data)}
            entry["lfs"]["pointerSize"] = 134
        return entry

    def etag(self, repository, name):
        data = (self.repositories[repository] / name).read_bytes()
        return hashlib.sha256(data).hexdigest() if is_large(name) else _git_hash(data)


def is_large(name):
    return name.endswith((".safetensors", ".bin", ".h5"))


def _git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@contextmanager
def asked_by_the_client(hub, monkeypatch, cache):
    """While this hub runs, the client asks it, and keeps what it downloads in the folder `cache`."""
    with running(hub) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield hub


@contextmanager
def running(hub):
    """The address of a hub while it runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments):
            pass

        def do_HEAD(self):
            self.answer(body=False)

        def do_GET(self):
            self.answer()

        def answer(self, body=True):
            path = unquote(urlsplit(self.path).path)
            hub.asked.append((self.command, path))
            if hub.down:
                return self.say(503, b"{}")
            parts = path.strip("/").split("/")
            if parts[:2] == ["api", "models"]:
                return self.facts("/".join(parts[2:4]), parts[4:])
            repository, name = "/".join(parts[:2]), "/".join(parts[4:])  # between them "resolve" and a revision
            if repository not in hub.repositories or name not in hub.files(repository):
                return self.say(404, b"{}", {"X-Error-Code": "EntryNotFound"})
            data, status = hub.content(repository, name), 200
            headers = {"ETag": f'"{hub.etag(repository, name)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
            start = self.headers.get("Range")
            if body and start is not None:
                first = int(start.removeprefix("bytes=").partition("-")[0])
                headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
                data, status = data[first:], 206
            ends = hub.broken_off.pop(name, None) if body else None
            return self.say(status, data, headers, body, ends)

        def facts(self, repository, rest):
            if repository not in hub.repositories:
                return self.say(404, b'{"error": "Repository not found"}', {"X-Error-Code": "RepoNotFound"})
            if repository in hub.gated:
                return self.say(403, b'{"error": "gated"}', {"X-Error-Code": "GatedRepo"})
            if len(rest) > 1 and rest[1] not in ("main", COMMIT):
                return self.say(404, b'{"error": "Invalid rev"}', {"X-Error-Code": "RevisionNotFound"})
            files = [hub.entry(repository, name) for name in hub.files(repository)]
            values = files if rest[:1] == ["tree"] else {"id": repository, "sha": COMMIT, "siblings": files}
            return self.say(200, json.dumps(values).encode())

        def say(self, status, data, headers=(), body=True, ends=None):
            self.send_response(status)
            for key, value in dict(headers).items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if body:
                self.wfile.write(data[:ends])
            if ends is not None:
                self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
