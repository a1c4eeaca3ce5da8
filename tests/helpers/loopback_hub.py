"""A Hugging Face hub on the loopback interface, with the routes that the client asks for: the client is the real one."""

import base64
import hashlib
import json
import shutil
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from huggingface_hub import constants

# Bytes that are written at a time.
CHUNK = 10_000

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class LoopbackHub:
    """Repositories, folders on disk, as a hub has them.

    Args:
        repositories: repository to folder.
    """

    def __init__(self, repositories):
        self.repositories = {name: Path(folder) for name, folder in repositories.items()}
        """Folder by repository, and for branches besides main by repository@branch."""

        self.commits = {}
        """The last commit of each of these that was pushed to."""

        self.asked = []
        """The method and the path of every request."""

        self.offsets = []
        """Where the downloads began that did not begin at the first byte."""

        self.gated, self.broken_off, self.wrong, self.down = set(), {}, set(), False
        """Repositories that need a permission; files, by path, to the number of bytes after which their first download ends; paths
        of files that come with other bytes; and whether every answer is an error of the server."""

        self.renamed, self.large_elsewhere, self.seconds_per_chunk = {}, False, 0
        """New names by old ones, to which requests are redirected; whether large files are redirected to another path; and how long
        every 10 kB of a file take."""

        self.writers, self.private, self.stored, self.messages = {"hf_writer": "someone"}, set(), {}, []
        """Whose repositories a token may write to; private repositories; uploaded large files by checksum; messages of commits."""

    def key(self, repository, revision="main"):
        """The key of a repository at a revision; None if there is no such revision."""
        if revision in ("main", "HEAD"):
            return repository
        branches = (key for key in self.repositories if key == repository or key.startswith(f"{repository}@"))
        return next((key for key in branches if revision in (self.commit(key), key.partition("@")[2])), None)

    def commit(self, key):
        return self.commits.get(key, COMMIT)

    def pushed(self, key, lines):
        """Apply a commit, a header and operations; return its id."""
        header, *operations = lines
        folder = self.repositories[key]
        for operation in operations:
            values = operation["value"]
            path = folder / values["path"]
            if operation["key"] == "deletedFile":
                path.unlink()
                continue
            large = operation["key"] == "lfsFile"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.stored[values["oid"]] if large else base64.b64decode(values["content"]))
        self.messages.append(header["value"]["summary"])
        self.commits[key] = hashlib.sha1(json.dumps([key, lines]).encode()).hexdigest()
        return self.commits[key]

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
        monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", CHUNK)  # of which the whole ones are on disk, to resume from
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # its store is not spoken here
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(cache / "token"))
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
            monkeypatch.delenv(name, raising=False)
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
            for old, new in hub.renamed.items():
                if f"/{old}/" in f"{path}/":
                    return self.say(307, b"", {"Location": self.path.replace(old, new)}, body)
            parts = path.strip("/").split("/")
            if parts[:2] == ["api", "models"]:
                return self.facts("/".join(parts[2:4]), parts[4:])
            elsewhere = parts[0] == "elsewhere"
            parts = parts[elsewhere:]
            repository, name = "/".join(parts[:2]), "/".join(parts[4:])  # between them "resolve" and a revision
            key = hub.key(repository, parts[3])
            if key not in hub.repositories or name not in hub.files(key):
                return self.say(404, b"{}", {"X-Error-Code": "EntryNotFound"})
            data, status = hub.content(key, name), 200
            headers = {"ETag": f'"{hub.etag(key, name)}"', "X-Repo-Commit": hub.commit(key), "Accept-Ranges": "bytes"}
            if hub.large_elsewhere and is_large(name) and not elsewhere:
                sizes = {"X-Linked-Etag": headers["ETag"], "X-Linked-Size": str(len(data))}
                return self.say(302, b"", {**headers, **sizes, "Location": f"{self.address()}/elsewhere{self.path}"}, body)
            start = self.headers.get("Range")
            if body and start is not None:
                first = int(start.removeprefix("bytes=").partition("-")[0])
                headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
                data, status = data[first:], 206
                hub.offsets.append(first)
            ends = hub.broken_off.pop(name, None) if body else None
            return self.say(status, data, headers, body, ends)

        def address(self):
            return f"http://127.0.0.1:{self.server.server_port}"

        def do_PUT(self):
            data = self.rfile.read(int(self.headers["Content-Length"]))
            hub.asked.append((self.command, self.path))
            hub.stored[hashlib.sha256(data).hexdigest()] = data
            self.say(200, b"")

        def do_POST(self):
            """The routes of an upload; only a token of a writer is accepted."""
            data = self.rfile.read(int(self.headers["Content-Length"]))
            path = unquote(urlsplit(self.path).path)
            hub.asked.append((self.command, path))
            if hub.down:
                return self.say(503, b"{}")
            if path == "/api/validate-yaml":
                return self.say(200, b'{"errors": [], "warnings": []}')
            owner = hub.writers.get(self.headers.get("Authorization", "").removeprefix("Bearer "))
            if owner is None:
                return self.say(401, b"{}", {"X-Error-Message": "Invalid credentials in Authorization header"})
            if path == "/api/repos/create":
                return self.create(owner, json.loads(data))
            if path.startswith("/verify"):
                return self.say(200 if json.loads(data)["oid"] in hub.stored else 404, b"{}")
            parts = path.strip("/").split("/")
            if path.endswith(".git/info/lfs/objects/batch"):
                actions = {name: {"href": f"{self.address()}/{name}"} for name in ("upload", "verify")}
                objects = [{**entry, "actions": actions} for entry in json.loads(data)["objects"]]
                return self.say(200, json.dumps({"transfer": "basic", "objects": objects}).encode())
            repository, what, revision = "/".join(parts[2:4]), parts[4], "/".join(parts[5:])
            if not repository.startswith(f"{owner}/"):
                return self.say(403, b"{}")
            if what == "branch":
                return self.branch(repository, revision)
            key = hub.key(repository, revision)
            if what == "preupload":
                there = hub.files(key)
                files = [
                    {
                        "path": file["path"],
                        "uploadMode": "lfs" if is_large(file["path"]) else "regular",
                        "shouldIgnore": False,
                        "oid": hub.entry(key, file["path"])["oid"] if file["path"] in there else None,
                    }
                    for file in json.loads(data)["files"]
                ]
                return self.say(200, json.dumps({"files": files}).encode())
            assert what == "commit", path
            commit = hub.pushed(key, [json.loads(line) for line in data.splitlines()])
            return self.say(200, json.dumps({"commitOid": commit, "commitUrl": f"{self.address()}/{key}/commit/{commit}"}).encode())

        def create(self, owner, values):
            repository = f"{values['organization']}/{values['name']}"
            if values["organization"] != owner:
                return self.say(403, b"{}")
            if repository in hub.repositories:
                return self.say(409, b"{}")
            hub.repositories[repository] = next(iter(hub.repositories.values())).parent / f"pushed-{len(hub.repositories)}"
            hub.repositories[repository].mkdir()
            if values.get("visibility") == "private" or values.get("private"):
                hub.private.add(repository)
            return self.say(200, json.dumps({"url": f"{self.address()}/{repository}"}).encode())

        def branch(self, repository, name):
            key, folder = f"{repository}@{name}", hub.repositories[repository]
            if key in hub.repositories:
                return self.say(409, b"{}")
            hub.repositories[key] = Path(shutil.copytree(folder, folder.with_name(f"{folder.name}-{name}")))
            hub.commits[key] = hub.commit(repository)
            return self.say(200, b"{}")

        def facts(self, repository, rest):
            if repository not in hub.repositories:
                return self.say(404, b'{"error": "Repository not found"}', {"X-Error-Code": "RepoNotFound"})
            if repository in hub.gated:
                return self.say(403, b'{"error": "gated"}', {"X-Error-Code": "GatedRepo"})
            key = hub.key(repository, "/".join(rest[1:]) or "main")
            if key is None:
                return self.say(404, b'{"error": "Invalid rev"}', {"X-Error-Code": "RevisionNotFound"})
            files = [hub.entry(key, name) for name in hub.files(key)]
            values = files if rest[:1] == ["tree"] else {"id": repository, "sha": hub.commit(key), "siblings": files}
            return self.say(200, json.dumps(values).encode())

        def say(self, status, data, headers=(), body=True, ends=None):
            self.send_response(status)
            for key, value in dict(headers).items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            for start in range(0, len(data[:ends]), CHUNK) if body else ():
                time.sleep(hub.seconds_per_chunk)
                self.wfile.write(data[:ends][start : start + CHUNK])
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
