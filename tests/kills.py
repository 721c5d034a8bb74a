"""Processes that are killed repeatedly, at random moments."""

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
        child = os.fork()
        if child == 0:
            work()
            os._exit(0)
        time.sleep(moments.uniform(0, seconds))
        os.kill(child, signal.SIGKILL)
        effective += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    return effective
