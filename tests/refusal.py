"""The form of error messages: object, expectation, input, advice; and what commands print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from fcfg.support.errors import InputError

_FOUR_PARTS = re.compile(r"(?P<object>.+?): expected (?P<expected>.+), got (?P<got>.+); (.+)[.?]")


@contextmanager
def refused(subject: str, *fragments: str) -> Iterator[None]:
    """Expect an error about ``subject`` whose one line holds every fragment."""
    with pytest.raises(InputError) as caught:
        yield
    check_form(str(caught.value), subject, *fragments)


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
        with refused(subject):
            call()


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
