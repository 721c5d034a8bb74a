"""The wheels where nothing else is: no clone, no tools of developers, no network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: What begins a command without a network, where this machine has such a command.
OFFLINE = ["unshare", "--net", "--map-root-user"]


def built(home: Path, folder: Path) -> Path:
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(words, cwd=home, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with our wheels and what these require."""
    folder = tmp_path_factory.mktemp("bare")
    pins = (ROOT / "constraints.txt").read_text("utf-8")
    torch = next(line for line in pins.splitlines() if line.startswith("torch=="))
    ours = [built(home, folder / home.name) for home in (ROOT, ROOT / "models")]
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    programs = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    pip = [programs / "python", "-m", "pip", "install", "--quiet"]
    for words in ([torch], ["-c", ROOT / "constraints.txt", f"{ours[0]}[app]", ours[1]]):
        done = subprocess.run([*pip, *words], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"packages cannot be installed here: {done.stderr.splitlines()[-1]}")
    return programs


def plain(folder: Path) -> dict[str, str]:
    """An environment without ours."""
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    return kept | {"HOME": str(folder), "USERPROFILE": str(folder), "TMPDIR": str(folder)}


def offline() -> list[str]:
    able = shutil.which(OFFLINE[0]) and not subprocess.run([*OFFLINE, "true"]).returncode
    return OFFLINE if able else []


@pytest.mark.long
def test_the_demo_runs_where_nothing_but_the_wheel_is(bare: Path, tmp_path: Path) -> None:
    begun = time.monotonic()
    words = [*offline(), str(bare / "fcfg"), "demo", "--device", "cpu"]
    subprocess.run(words, cwd=tmp_path, env=plain(tmp_path), check=True)
    print(f"fcfg demo: {time.monotonic() - begun:.0f} s")
    assert (tmp_path / "runs/demo/report/report.html").stat().st_size > 10_000
    assert [path.name for path in tmp_path.iterdir() if path.name[0] != "."] == ["runs"]


@contextmanager
def studio(bare: Path, folder: Path, model: str) -> Iterator[str]:
    words = [bare / "fcfg", "studio", model, "--no-open", "--port", "0", "--device", "cpu"]
    with subprocess.Popen(
        words, cwd=folder, env=plain(folder), stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            yield re.findall(r"http://\S+", server.stdout.readline())[0]
        finally:
            server.terminate()


@pytest.mark.long
@pytest.mark.parametrize("model", ["portraits-128", "digits"])
def test_the_studio_opens_a_model_of_either_wheel(model: str, bare: Path, tmp_path: Path) -> None:
    with studio(bare, tmp_path, model) as address, urllib.request.urlopen(address) as page:
        assert "<title>" in page.read().decode()


@pytest.mark.long
def test_nothing_of_the_tools_of_developers_is_imported(bare: Path, tmp_path: Path) -> None:
    code = (
        "import importlib, pkgutil, fcfg\n"
        "skipped = ('integrations', '__main__')\n"
        "for each in pkgutil.walk_packages(fcfg.__path__, 'fcfg.'):\n"
        "    if not any(word in each.name for word in skipped):\n"
        "        importlib.import_module(each.name)\n"
    )
    words = [bare / "python", "-W", "error", "-c", code]
    subprocess.run(words, cwd=tmp_path, env=plain(tmp_path), check=True)
