"""The server of the studio as a process: start, addresses, connections, and its end."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import pytest

import fcfg
from fcfg.cli import main
from fcfg.studio.answers import Answers
from fcfg.studio.engine import Job
from fcfg.studio.questions import PreparedQuestion
from fcfg.studio.safety import Rule
from fcfg.studio.server import Place
from refusal import refused, refused_line
from studios import FACTUAL, meanwhile, png, serving, studio_of
from tiny import tiny_pipeline


def sent(address: str, path: str, body: bytes | None = None) -> bytes:
    """The reply to a request, which posts the body if there is one."""
    with urllib.request.urlopen(address.rstrip("/") + path, body, timeout=60) as reply:
        return reply.read()


def asked(address: str) -> bytes:
    """A question about a new upload."""
    image = json.loads(sent(address, "/api/images", png()))["id"]
    return json.dumps({"image": image, "attributes": FACTUAL, "do": {"smiling": 1}}).encode()


def test_the_command_prints_its_address_opens_it_and_ends_quietly(
    tiny_folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, told, ready = list[str](), list[bytes](), Event()
    monkeypatch.setattr("webbrowser.open", lambda url: (opened.append(url), ready.set()))

    def visit() -> None:
        assert ready.wait(60)
        told.append(sent(opened[0], "/api/model"))
        told.append(sent(opened[0], "/api/answer", asked(opened[0])))

    words = f"studio {tiny_folder} --compare {tiny_folder} --port 0 --device cpu"
    assert meanwhile(visit, lambda: main(words.split())) == 0
    out, err = capfd.readouterr()
    assert re.search(r"Studio of tiny, tiny-2 on cpu, \d+ threads: http://127.0.0.1:\d+/", out)
    assert opened == re.findall(r"http://\S+", out)
    assert err == ""
    assert [model["name"] for model in json.loads(told[0])["models"]] == ["tiny", "tiny-2"]
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
    studio = studio_of(tiny_pipeline(), answers=Slow())
    with serving(studio) as address, ExitStack() as stack:

        def connect(visitor: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
            connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
            question = json.loads(asked(address)) | {"visitor": visitor}
            connection.request("POST", "/api/answer", json.dumps(question))
            reply = connection.getresponse()
            stack.callback(reply.close)
            stack.callback(connection.close)
            return connection, reply

        connection, first = connect("a")
        assert json.loads(first.readline()) == {"type": "started"}
        _, second = connect("b")
        assert json.loads(second.readline()) == {"type": "queued", "ahead": 1}
        time.sleep(0.3)  # long enough to look at the queue again, which has not changed
        first.close()
        connection.close()
        start = time.monotonic()
        assert json.loads(second.readline()) == {"type": "started"}
        assert time.monotonic() - start < 10
        _, third = connect("b")  # moves on, as a slider does
        assert json.loads(second.readline()) == {"type": "cancelled"}
        assert second.readline() == b""
        assert json.loads(third.readline())["type"] in ("started", "queued")
    assert studio.engine.waiting == 0


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_server_that_ends_leaves_its_port_and_nothing_behind(
    ending: signal.Signals, tiny_folder: Path, tmp_path: Path
) -> None:
    before = sorted(path.name for path in tiny_folder.iterdir())
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    places = {"HOME": home, "TMPDIR": temporary, "PYTHONPATH": Path(fcfg.__file__).parents[1]}
    command = f"{sys.executable} -m fcfg studio {tiny_folder} --no-open --port 0"
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    around = os.environ | {name: str(path) for name, path in places.items()}
    with subprocess.Popen(command.split(), cwd=home, env=around, **streams) as process:
        try:
            address = re.search(r"http://\S+", process.stdout.readline().decode())[0]
            assert b'"done"' in sent(address, "/api/answer", asked(address))
            process.send_signal(ending)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()  # does nothing if it has ended
    assert process.returncode == (0 if ending is signal.SIGINT else -signal.SIGKILL)
    assert errors == b""
    Place(port=int(address.split(":")[-1].strip("/"))).open().close()  # at once
    assert sorted(path.name for path in tiny_folder.iterdir()) == before
    assert list(home.iterdir()) == list(temporary.iterdir()) == []


def test_wrong_input_of_the_command_is_one_line_and_code_2(
    tiny_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused_line(["studio", "--port", port], f"address 127.0.0.1:{port}", capsys)
    wrong = {"--host 203.0.113.7": "address 203.0.113.7:0", "nowhere": "model nowhere"}
    wrong |= {f"{tiny_folder} --compare portraits": "model portraits"}
    wrong |= {"--precision int8": "precision", "--port 70000": "port"}
    for words, subject in wrong.items():
        refused_line(["studio", "--port", "0", *words.split()], subject, capsys)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    refused_line(["studio"], "studio", capsys)


def test_only_other_addresses_than_loopback_get_a_token_and_a_strict_rate() -> None:
    assert Place("127.0.0.1").rule() == Rule()
    assert Place("127.0.0.1", token=True).rule().token is not None  # behind a proxy
    first, second = Place("0.0.0.0").rule(), Place("0.0.0.0").rule()
    assert first.token is not None
    assert len(first.token) >= 32
    assert first.token != second.token
    assert first.rate < Rule().rate
    with Place("localhost", 0).open() as opened:
        port = opened.getsockname()[1]
        assert Place("localhost").address(opened, Rule()) == f"http://localhost:{port}/"
        assert Place("::1").address(opened, Rule()) == f"http://[::1]:{port}/"
        everywhere = Place("0.0.0.0").address(opened, first)
    assert everywhere == f"http://{socket.gethostname()}:{port}/?token={first.token}"
    refused("address nowhere.invalid:1").by(Place("nowhere.invalid", 1).open)
