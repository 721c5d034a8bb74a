"""Processes that are killed, at random moments or when they say so."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from random import Random


def kill_again_and_again(work: Callable[[], object], seconds: float, kills: int, seed: int) -> int:
    """Start work in a process of its own and kill it, and again; how often it was still at it.

    Called in a process that can be forked: one that is killed needs no new torch.

    Args:
        work: What is done.
        seconds: Longest time after which it is killed.
        kills: Number of times.
        seed: Seed for the moments.
    """
    moments, effective = Random(seed), 0
    for _ in range(kills):
        child = _fork(work)
        time.sleep(moments.uniform(0, seconds))
        effective += _kill(child)
    return effective


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


def _fork(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    return child


def _kill(child: int) -> bool:
    """Whether it was still at it."""
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])
