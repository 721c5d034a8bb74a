"""Processes that are killed, at random moments or when they say so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest


def kill_again_and_again(
    work: Callable[[], object], rehearsal: Callable[[str], object], kills: int
) -> int:
    """Start work in a process of its own and kill it, and again; how often it was still at it.

    Args:
        work: What is done.
        rehearsal: The same in a new folder of this name; work is killed within a quarter of the
            time that this takes when nothing is done for the first time.
        kills: Number of times.
    """
    rehearsal("first")
    start = time.monotonic()
    rehearsal("second")
    moments, seconds, effective = Random(0), (time.monotonic() - start) / 4, 0
    for _ in range(kills):
        child = _fork(work)
        time.sleep(moments.uniform(0, seconds))
        effective += _kill(child)
    return effective


def printed_elsewhere(module: str, function: str, *arguments: object) -> list[str]:
    """Words that a function of the tests prints in a process of its own, which can be forked.

    There, one that is killed needs no new torch.
    """
    _check_fork()
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); "
    code += f"from {module} import {function}; {function}(*sys.argv[1:])"
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def kill_when_told(work: Callable[[Callable[[], object]], object], seconds: float) -> bool:
    """Start work in a process of its own and kill it soon after it says so; whether that was it.

    Args:
        work: What is done; it is given the function that says so.
        seconds: Time between word and kill.
    """
    ear, mouth = os.pipe()
    child = _fork(lambda: work(lambda: os.write(mouth, b".")))
    os.close(mouth)
    said = os.read(ear, 1)  # nothing, if the child is over
    os.close(ear)
    time.sleep(seconds)
    return _kill(child) and bool(said)


@contextmanager
def ended_after(renames: int, error: BaseException | None = None) -> Generator[None]:
    """Expect an error at the rename after some, each of which puts one file in place."""
    rename, left, error = os.replace, iter(range(renames)), error or KeyboardInterrupt()

    def failing(*paths: str) -> None:
        if next(left, None) is None:
            raise error
        rename(*paths)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", failing)
        with pytest.raises(type(error)):
            yield


def _check_fork() -> None:
    """Skip a test that needs what this platform may lack."""
    if not hasattr(os, "fork"):
        pytest.skip("this platform cannot fork")


def _fork(work: Callable[[], object]) -> int:
    _check_fork()
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    return child


def _kill(child: int) -> bool:
    """Whether it was still at it."""
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])
