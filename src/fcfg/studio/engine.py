"""The engine: one thread that works for all visitors, who take turns.

A visitor with many questions waits for one with a single question, not the other way round: each
turn takes one question of the visitor whose last turn is longest ago. Questions beside the main
one, as those of a strip, take turns when no main one waits.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from operator import itemgetter
from threading import Condition, Event, Thread
from typing import Any, TypeAlias

from starlette.exceptions import HTTPException

from fcfg.support.errors import InputError

Emit: TypeAlias = Callable[[dict[str, Any] | None], None]

MOST_WAITING = 512  #: jobs of all visitors
MOST_EACH = 32  #: jobs of one visitor
MOST_SECONDS = 120.0  #: of one job


@dataclass(eq=False)
class Job:
    """Work for a visitor, which calls :meth:`check` often."""

    visitor: str
    work: Callable[[Job], None]
    emit: Emit  #: called from the thread of the engine; the last event is None
    ticket: int = 0  #: grows from question to question
    keep: bool = False  #: whether it cancels no other, and waits for the main ones of all visitors
    most_seconds: float = MOST_SECONDS
    stopped: Event = field(default_factory=Event)  #: makes the next check raise
    _deadline: float = float("inf")

    def check(self) -> None:
        """Raise if the work should end."""
        if self.stopped.is_set():
            raise CancelledError
        if time.monotonic() > self._deadline:
            wanted = f"one that is answered in {self.most_seconds:g} seconds"
            do = "take fewer steps, or use 'fcfg generate'"
            raise InputError("question", expected=wanted, got="a longer one", do=do)

    def run(self) -> None:
        """Do the work, and hand on how it ended."""
        self._deadline = time.monotonic() + self.most_seconds
        try:
            self.check()
            self.work(self)
        except CancelledError:
            self.emit({"type": "cancelled"})
        except InputError as error:
            self.emit({"type": "error", "error": str(error)})
        except Exception as error:  # of one question; the others go on
            traceback.print_exc(file=sys.stderr)
            self.emit({"type": "error", "error": our_fault(error)})
        finally:
            self.emit(None)


def our_fault(error: Exception) -> str:
    """Return what a visitor learns of an error of ours."""
    got = f"an error of the server ({type(error).__name__})"
    return f"request: expected an answer, got {got}; its terminal has the details."


class Engine:
    """A thread, and the jobs that wait for it."""

    def __init__(self) -> None:
        self._waiting: list[Job] = []  # those of the visitor of the last turn behind all others
        self._running: Job | None = None
        self._changed, self._closed = Condition(), False
        self._thread = Thread(target=self._work, name="fcfg-studio", daemon=True)

    def start(self) -> None:
        """Start to work."""
        self._thread.start()

    def close(self) -> None:
        """Cancel all jobs, and end the thread."""
        with self._changed:
            self._closed = True
            jobs = self._jobs()
            self._changed.notify()
        for job in jobs:
            self.cancel(job)
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def submit(self, job: Job) -> None:
        """Put a job into the queue, and cancel older ones of its visitor."""
        with self._changed:
            others = [other for other in self._jobs() if other.visitor == job.visitor]
        for other in others:
            if not job.keep and other.ticket <= job.ticket:
                self.cancel(other)
        with self._changed:
            own = sum(other.visitor == job.visitor for other in self._waiting)
            if self._closed or own >= MOST_EACH or self.waiting >= MOST_WAITING:
                whose = "of yours" if own >= MOST_EACH else "of all visitors"
                got = f"{max(own, self.waiting)} questions {whose} that wait already"
                told = f"question: expected a place in the queue, got {got}; try again in a while."
                raise HTTPException(503, told)
            self._waiting.append(job)
            self._changed.notify()

    def _jobs(self) -> list[Job]:
        """Return the job that runs, and those that wait, in the order of their turns."""
        own: dict[tuple[bool, str], list[Job]] = {}
        for job in self._waiting:
            own.setdefault((job.keep, job.visitor), []).append(job)
        placed = [(job.keep, n, job) for jobs in own.values() for n, job in enumerate(jobs)]
        waiting = [job for *_, job in sorted(placed, key=itemgetter(0, 1))]  # main ones first
        return waiting if self._running is None else [self._running, *waiting]

    def cancel(self, job: Job) -> None:
        """Cancel a job: at once if it waits, at its next step if it runs."""
        job.stopped.set()
        with self._changed:
            if job not in self._waiting:
                return
            self._waiting.remove(job)
        job.run()  # which tells that it is cancelled

    @property
    def waiting(self) -> int:
        """Number of jobs that wait."""
        return len(self._waiting)

    def ahead(self, job: Job) -> int | None:
        """Return the number of jobs that end before this one starts; None if it does not wait."""
        with self._changed:
            return self._jobs().index(job) if job in self._waiting else None

    def _next(self) -> Job | None:
        """Wait for a job, and give its visitor the last place; None at the end."""
        with self._changed:
            self._running = None
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return None
            (job, *_) = self._jobs()
            self._waiting.remove(job)
            turn = job.keep, job.visitor
            self._waiting.sort(key=lambda other: (other.keep, other.visitor) == turn)
            self._running = job
            return job

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.run()
