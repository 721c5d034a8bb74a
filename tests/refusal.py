"""The form of error messages: object, expectation, input, advice; and what commands print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fcfg.support.errors import InputError

_FOUR_PARTS = re.compile(r"(?P<object>.+?): expected (?P<expected>.+), got (?P<got>.+); (.+)[.?]")


class refused:
    """Expect an error about ``subject`` whose one line holds every fragment."""

    def __init__(self, subject: str, *fragments: str) -> None:
        self._wanted, self._raising = (subject, *fragments), pytest.raises(InputError)

    def __enter__(self) -> None:
        self._caught = self._raising.__enter__()

    def __exit__(self, *error: Any) -> bool:
        met = self._raising.__exit__(*error)
        if met:
            check_form(str(self._caught.value), *self._wanted)
        return met

    def by(self, call: Callable[..., object], *values: Any, **named: Any) -> None:
        """Expect it of one call."""
        with self:
            call(*values, **named)


def check_form(message: str, subject: str, *fragments: str) -> None:
    """Expect one line of four parts about ``subject`` that holds every fragment."""
    parts = _FOUR_PARTS.fullmatch(message)
    assert parts is not None, message
    assert "\n" not in message
    assert subject in parts["object"], message
    for fragment in fragments:
        assert fragment in message, message


def all_refused(subject: str, *calls: Callable[[], object]) -> None:
    """Expect an error about ``subject`` from each of several calls."""
    for call in calls:
        refused(subject).by(call)


def typed(capsys: pytest.CaptureFixture[str], line: str, *words: object) -> Any:
    """What a command prints that succeeds; of a line, and of further words as they are."""
    from fcfg.cli import main

    capsys.readouterr()  # of commands before
    assert main([*shlex.split(line), *map(str, words)]) == 0
    return capsys.readouterr()


def refusal(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Run a command that must be refused; return the one line that it says."""
    from fcfg.cli import main

    capsys.readouterr()  # of commands before
    assert main([str(word) for word in words]) == 2
    out, line = capsys.readouterr()
    assert out == ""
    assert line.endswith("\n")
    assert line.count("\n") == 1
    return line[:-1]


def refused_line(words: Sequence[str], subject: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Expect a command to say one line about ``subject``, and nothing else."""
    line = refusal(capsys, *words)
    assert line.startswith(f"fcfg {words[0]}: ")
    assert subject in line.partition(": expected")[0], line
