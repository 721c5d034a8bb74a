"""A hub on this machine, which speaks the protocol of Hugging Face's as far as its client asks."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Files = dict[str, bytes]
Reply = tuple[int, dict[str, str], bytes]  # status, headers and body


class Hub(ThreadingHTTPServer):
    """Commits of repositories, in memory."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.commits: dict[str, dict[str, Files]] = {}  # by repository and digest
        self.branches: dict[str, dict[str, str]] = {}  # digest of the newest commit
        self.closed: set[str] = set()  #: repositories that nobody may write to
        self.asked: list[str] = []
        self.distort: Callable[[int, dict[str, str], bytes], Reply] = lambda *whole: whole

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def commit(self, repository: str, branch: str, files: Files) -> str:
        digest = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.commits.setdefault(repository, {})[digest] = files
        self.branches.setdefault(repository, {})[branch] = digest
        return digest

    def files(self, repository: str, revision: str) -> tuple[str, Files]:
        digest = self.branches.get(repository, {}).get(revision, revision)
        return digest, self.commits[repository][digest]


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(f"{self.command} {path}")
        if found := re.fullmatch(r"/api/models/(\w+/[\w-]+)/(revision|tree)/(.+)", path):
            repository, what, revision = found.groups()
            if repository not in self.server.branches:
                return self.refuse("RepoNotFound")
            try:
                digest, files = self.server.files(repository, revision)
            except KeyError:
                return self.refuse("RevisionNotFound")
            tree = [
                {"type": "file", "path": name, "size": len(data), "oid": _etag(data)}
                for name, data in files.items()
            ]
            siblings = [{"rfilename": name} for name in files]
            about = {"id": repository, "sha": digest, "siblings": siblings}
            return self.reply(json.dumps(tree if what == "tree" else about).encode())
        if found := re.fullmatch(r"/(\w+/[\w-]+)/resolve/([^/]+)/(.+)", path):
            repository, revision, name = found.groups()
            digest, files = self.server.files(repository, revision)
            data = files[name]
            return self.reply(data, {"ETag": f'"{_etag(data)}"', "X-Repo-Commit": digest})
        return self.refuse("RepoNotFound")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append(f"POST {self.path}")
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            repository = f"{asked['organization']}/{asked['name']}"
            if repository in self.server.closed:
                return self.reply(b"{}", status=403)
            if repository not in self.server.branches:
                self.server.commit(repository, "main", {})
            return self.answer(url=f"{self.server.address}/{repository}")
        if self.path == "/api/validate-yaml":
            return self.answer(errors=[], warnings=[])
        found = re.fullmatch(r"/api/models/(\w+/[\w-]+)/(preupload|commit|branch)/(.+)", self.path)
        if found is None:
            return self.refuse("RepoNotFound")
        repository, what, branch = found.groups()
        own = self.server.branches[repository]
        if what == "branch":
            own.setdefault(branch, own["main"])
            return self.answer()
        if what == "preupload":
            asked = [file["path"] for file in json.loads(body)["files"]]
            modes = [{"path": p, "uploadMode": "regular", "shouldIgnore": False} for p in asked]
            return self.answer(files=modes)
        files = dict(self.server.files(repository, branch)[1])
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            if line["key"] == "deletedFile":
                del files[value["path"]]
        digest = self.server.commit(repository, branch, files)
        where = f"{self.server.address}/{repository}/commit/{digest}"
        return self.answer(commitUrl=where, commitOid=digest)

    def answer(self, **values: Any) -> None:
        self.reply(json.dumps(values).encode())

    def reply(self, data: bytes, more: dict[str, str] | None = None, status: int = 200) -> None:
        status, more, data = self.server.distort(status, more or {}, data)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **more}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def refuse(self, code: str) -> None:
        self.reply(b"{}", {"X-Error-Code": code}, 404)


def _etag(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


@contextmanager
def local_hub() -> Iterator[Hub]:
    with Hub() as hub:
        Thread(target=hub.serve_forever, daemon=True).start()
        yield hub
        hub.shutdown()
