"""The engine of the studio: turns, cancellation and bounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from fcfg.studio.engine import Engine, Job
from refusal import check_form


class Log:
    """Jobs that write down when they run, behind a gate that is closed at first."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.ran = engine, list[str]()
        self.gate, self.started = Event(), Event()
        self.events: dict[str, list[Any]] = {}

    def job(
        self, visitor: str, name: str, work: Callable[[Job], None] | None = None, **how: Any
    ) -> Job:
        self.events[name] = []
        done = work or (lambda job: self.ran.append(name))
        return Job(visitor, done, self.events[name].append, **how)

    def block(self) -> Job:
        """Occupy the engine until the gate opens."""

        def work(job: Job) -> None:
            self.started.set()
            while not self.gate.wait(0.005):
                job.check()
            self.ran.append("block")

        job = self.job("blocker", "block", work)
        self.engine.submit(job)
        assert self.started.wait(10)
        return job

    def finish(self) -> None:
        self.gate.set()
        while self.engine.waiting:
            time.sleep(0.001)
        done = Event()
        self.engine.submit(Job("the last", lambda job: done.set(), lambda event: None))
        assert done.wait(10)
        self.engine.close()


@pytest.fixture
def log() -> Log:
    engine = Engine()
    engine.start()
    return Log(engine)


def test_visitors_take_turns_however_many_questions_each_has(log: Log) -> None:
    log.block()
    for number, name in enumerate(("a0", "a1", "a2", "b0", "c0", "b1")):
        log.engine.submit(log.job(name[0], name, keep=True))
        assert log.engine.waiting == number + 1
    log.finish()
    assert log.ran == ["block", "a0", "b0", "c0", "a1", "b1", "a2"]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=12))
def test_the_announced_number_ahead_is_how_many_really_run_before(asked) -> None:
    engine = Engine()
    engine.start()
    log = Log(engine)
    log.block()
    jobs = {}
    for number, (visitor, beside) in enumerate(asked):
        name = f"job {number}"
        # It came late, so that a main one cancels none before it.
        jobs[name] = log.job(str(visitor), name, ticket=-number, keep=beside)
        engine.submit(jobs[name])
    ahead = {name: engine.ahead(job) for name, job in jobs.items()}
    log.finish()
    assert ahead == {name: log.ran.index(name) for name in jobs}
    kinds = [asked[int(name.split()[1])][1] for name in log.ran[1:]]
    assert kinds == sorted(kinds)  # all main ones, then those beside them
    assert all(engine.ahead(job) is None for job in jobs.values())


def test_a_new_question_cancels_those_of_the_same_visitor_that_wait_or_run(log: Log) -> None:
    running = log.block()
    for visitor, name in (("a", "old"), ("b", "other"), ("a", "new")):
        log.engine.submit(log.job(visitor, name))
    assert log.events["old"] == [{"type": "cancelled"}, None]
    log.engine.submit(log.job(running.visitor, "newer"))
    while not log.events["block"]:
        time.sleep(0.001)
    log.finish()
    assert log.events["block"] == [{"type": "cancelled"}, None]
    assert log.ran == ["other", "new", "newer"]


def test_a_question_that_was_asked_earlier_and_comes_late_cancels_nothing(log: Log) -> None:
    log.block()
    for name, ticket in (("new", 2), ("late", 1)):
        log.engine.submit(log.job("a", name, ticket=ticket))
    assert log.events["new"] == []
    log.finish()
    assert "new" in log.ran


def test_a_full_queue_refuses_and_says_so(monkeypatch) -> None:
    monkeypatch.setattr("fcfg.studio.engine.MOST_WAITING", 3)
    monkeypatch.setattr("fcfg.studio.engine.MOST_EACH", 2)
    log = Log(engine := Engine())
    for number in range(2):
        engine.submit(log.job("a", f"a{number}", keep=True))
    with pytest.raises(HTTPException, match=r"expected a place.*2 questions of yours"):
        engine.submit(log.job("a", "a2", keep=True))
    engine.submit(log.job("b", "b0"))
    with pytest.raises(HTTPException, match="3 questions of all visitors"):
        engine.submit(log.job("c", "c0"))
    engine.close()
    assert log.events["b0"] == [{"type": "cancelled"}, None]
    with pytest.raises(HTTPException):
        engine.submit(log.job("d", "d0"))
    assert log.ran == []


def test_an_error_of_one_question_does_not_end_the_others(log: Log, capsys) -> None:
    log.engine.submit(log.job("a", "bad", Mock(side_effect=ZeroDivisionError("by hand"))))
    log.engine.submit(log.job("b", "good"))
    log.finish()
    event, last = log.events["bad"]
    assert (event["type"], last) == ("error", None)
    check_form(event["error"], "request", "ZeroDivisionError")
    assert "by hand" not in event["error"]
    assert "by hand" in capsys.readouterr().err
    assert log.ran == ["good"]


def test_closing_ends_the_question_that_runs_and_so_does_its_time_with_advice(log: Log) -> None:
    log.block()
    start = time.monotonic()
    log.engine.close()
    assert time.monotonic() - start < 5
    assert log.events["block"] == [{"type": "cancelled"}, None]
    events: list[Any] = []

    def work(job: Job) -> None:
        while True:
            job.check()

    Job("a", work, events.append, most_seconds=0.01).run()
    assert (events[0]["type"], events[1:]) == ("error", [None])
    check_form(events[0]["error"], "question", "take fewer steps")
