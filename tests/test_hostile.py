"""Whatever strangers give is accepted or refused in a line: inputs of every door, by hypothesis.

``python studies/campaign.py`` tries 100,000 of them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from doors import DOORS, open_doors
from fcfg.support.errors import InputError
from hostile import GIVEN, Broken, Given, Outcome, check_line, limited, outcome

Meet = Callable[[str, Given], Outcome]


@pytest.fixture(scope="module")
def meet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Meet]:
    with open_doors(tmp_path_factory.mktemp("world")) as meet:
        yield meet


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.promise("Hostile input is refused in one line, and no file of yours is changed")
def test_an_input_is_accepted_or_refused(door: str, meet: Meet) -> None:
    found: Counter[str] = Counter()

    @settings(max_examples=DOORS[door][0], suppress_health_check=list(HealthCheck))
    @given(GIVEN)
    def tried(hostile: Given) -> None:
        found[meet(door, hostile)] += 1

    tried()
    assert found["accepted"], found
    assert found["refused"], found


def test_a_valid_input_passes_every_door(meet: Meet) -> None:
    assert {door: meet(door, Given(0, (), ())) for door in DOORS} == dict.fromkeys(
        DOORS, "accepted"
    )


def test_a_refusal_is_one_line_of_print_however_long_and_odd_its_cause() -> None:
    odd = "a\nb\x1b[2J\u202e\ud800" + "x" * 10**6
    error = InputError(odd, expected=odd, got=odd, do=odd)
    assert str(error).isprintable()
    assert len(str(error)) < 5000
    assert r"a b\x1b[2J\u202e\ud800xxx" in str(error)


def test_the_law_is_broken_by_errors_by_lines_and_by_time(meet: Meet) -> None:
    def refuse(text: str) -> None:
        raise InputError(text, expected="a", got="b", do="c")

    assert outcome(lambda: refuse("x")) == "refused"
    with pytest.raises(Broken, match="a refusal of"):
        check_line("a\nb")
    with pytest.raises(KeyboardInterrupt), limited(0.05):
        time.sleep(60)
