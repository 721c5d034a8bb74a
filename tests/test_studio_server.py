"""The server of the studio as a process: start, addresses, connections, and its end."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import fcfg
from fcfg.cli import main
from fcfg.studio.answers import Answers
from fcfg.studio.engine import Job
from fcfg.studio.questions import PreparedQuestion
from fcfg.studio.safety import Rule
from fcfg.studio.server import address_of, open_socket, rule_for, serve
from refusal import refused
from studios import FACTUAL, meanwhile, png, studio_of
from tiny import tiny_pipeline


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    fcfg.save(tiny_pipeline(), folder)
    return folder


def post(address: str, path: str, body: bytes) -> Any:
    request = urllib.request.Request(address.rstrip("/") + path, body)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.read()


def test_the_command_prints_its_address_opens_it_and_ends_quietly(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    told: list[Any] = []

    def visit() -> None:
        while not opened:
            time.sleep(0.01)
        with urllib.request.urlopen(opened[0] + "api/model", timeout=60) as reply:
            told.append(json.load(reply))
        image = json.loads(post(opened[0], "/api/images", png()))["id"]
        question = {"image": image, "attributes": FACTUAL, "do": {"smiling": 1}}
        told.append(post(opened[0], "/api/answer", json.dumps(question).encode()))

    words = ["studio", str(folder), "--compare", str(folder), "--port", "0", "--device", "cpu"]
    assert meanwhile(visit, lambda: main(words)) == 0
    out, err = capfd.readouterr()
    assert re.search(r"Studio of tiny, tiny-2 on cpu, \d+ threads: http://127.0.0.1:\d+/", out)
    assert opened == re.findall(r"http://\S+", out)
    assert err == ""
    assert [model["name"] for model in told[0]["models"]] == ["tiny", "tiny-2"]
    assert json.loads(told[1].splitlines()[-1])["type"] == "done"


class Slow(Answers):
    """Answers that never end by themselves."""

    def answer(self, question: PreparedQuestion, job: Job) -> None:
        job.emit({"type": "started"})
        for _ in range(10_000):
            job.check()
            time.sleep(0.01)


def test_a_client_that_goes_away_cancels_its_question_and_the_next_one_starts(monkeypatch) -> None:
    monkeypatch.setattr("fcfg.studio.app._QUEUE", 0.02)
    ready, opened = Event(), open_socket("127.0.0.1", 0)
    studio = studio_of(tiny_pipeline(), answers=Slow(), ready=ready.set)
    port = opened.getsockname()[1]

    connections: dict[str, http.client.HTTPConnection] = {}

    def connect(name: str, visitor: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connections[name] = connection
        image = json.loads(post(f"http://127.0.0.1:{port}", "/api/images", png()))["id"]
        body = {"image": image, "attributes": FACTUAL, "do": {"smiling": 1}, "visitor": visitor}
        connection.request("POST", "/api/answer", json.dumps(body))
        return connection.getresponse()

    def visit() -> None:
        assert ready.wait(60)
        first = connect("first", "a")
        assert json.loads(first.readline()) == {"type": "started"}
        second = connect("second", "b")
        assert json.loads(second.readline()) == {"type": "queued", "ahead": 1}
        time.sleep(0.3)  # long enough to look at the queue again, which has not changed
        first.close()
        connections["first"].close()
        start = time.monotonic()
        assert json.loads(second.readline()) == {"type": "started"}
        assert time.monotonic() - start < 10
        third = connect("third", "b")  # moves on, as a slider does
        assert json.loads(second.readline()) == {"type": "cancelled"}
        assert second.readline() == b""
        assert json.loads(third.readline())["type"] in ("started", "queued")
        for reply in (second, third):
            reply.close()
        for connection in connections.values():
            connection.close()

    with opened:
        meanwhile(visit, lambda: serve(studio, opened))
    assert studio.engine.waiting == 0


def test_after_kill_9_a_new_server_takes_the_same_port_and_nothing_is_left_behind(
    folder: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    before = sorted(path.name for path in folder.iterdir())
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    places = {"HOME": home, "TMPDIR": temporary, "PYTHONPATH": Path(fcfg.__file__).parents[1]}
    environment = os.environ | {name: str(path) for name, path in places.items()}
    command = [sys.executable, "-m", "fcfg", "studio", str(folder), "--no-open"]
    for ending in (signal.SIGKILL, signal.SIGINT):
        with subprocess.Popen(
            [*command, "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=home,
            env=environment,
        ) as process:
            try:
                assert process.stdout is not None
                assert b"Studio of tiny" in process.stdout.readline()
                address = f"http://127.0.0.1:{port}"
                image = json.loads(post(address, "/api/images", png()))["id"]
                question = {"image": image, "attributes": FACTUAL, "do": {"smiling": 1}}
                assert b'"done"' in post(address, "/api/answer", json.dumps(question).encode())
                process.send_signal(ending)
                _, errors = process.communicate(timeout=60)
            finally:
                process.kill()  # does nothing if it has ended
        assert process.returncode == (0 if ending is signal.SIGINT else -signal.SIGKILL)
        assert errors == b""
    assert sorted(path.name for path in folder.iterdir()) == before
    assert list(home.iterdir()) == []
    assert list(temporary.iterdir()) == []


def test_wrong_input_of_the_command_is_one_line_and_code_2(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused_with(*words: str) -> str:
        assert main(["studio", *words]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert error.startswith("fcfg studio: ")
        return error

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "got one in use; choose another with --port" in refused_with("--port", port)
    assert "--host" in refused_with("--host", "203.0.113.7", "--port", "0")
    assert "shipped models (digits, portraits" in refused_with("nowhere", "--port", "0")
    other = refused_with(str(folder), "--compare", "portraits", "--port", "0")
    assert "attributes, graph, size and channels" in other
    assert "precision" in refused_with("--precision", "int8")
    original = importlib.util.find_spec
    monkeypatch.setattr(
        "fcfg.cli.studio.find_spec", lambda name: None if name == "uvicorn" else original(name)
    )
    assert "got no uvicorn; run: pip install 'fcfg[app]'" in refused_with()


def test_only_other_addresses_than_loopback_get_a_token_and_a_strict_rate() -> None:
    assert rule_for("127.0.0.1") == Rule()
    assert rule_for("127.0.0.1", token=True).token is not None  # behind a proxy
    first, second = rule_for("0.0.0.0"), rule_for("0.0.0.0")
    assert first.token is not None
    assert len(first.token) >= 32
    assert first.token != second.token
    assert first.rate < Rule().rate
    with open_socket("localhost", 0) as opened:
        port = opened.getsockname()[1]
        assert address_of(opened, "localhost", Rule()) == f"http://localhost:{port}/"
        assert address_of(opened, "::1", Rule()) == f"http://[::1]:{port}/"
        everywhere = address_of(opened, "0.0.0.0", first)
    assert everywhere == f"http://{socket.gethostname()}:{port}/?token={first.token}"
    with refused("address nowhere.invalid:1"):
        open_socket("nowhere.invalid", 1)
