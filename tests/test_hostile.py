"""Whatever strangers give is accepted or refused in a line: inputs of every door, by hypothesis.

``python studies/campaign.py`` tries 100,000 of them.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from doors import DOORS, open_doors
from face_folder import faces
from fcfg.cli import main
from fcfg.datasets.check import check_folder
from fcfg.support.errors import InputError
from fcfg.training import train
from hostile import GIVEN, Broken, Given, Outcome, check_line, limited, outcome
from runs import same, tiny
from tiny import ask, draw, tiny_pipeline

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
    for more in ("x" * 10**6, "\0" * 10**6):
        odd = "a\nb\x1b[2J\u202e\ud800" + more
        error = InputError(odd, expected=odd, got=odd, do=odd)
        assert str(error).isprintable()
        assert len(str(error)) < 5000
        assert r"a b\x1b[2J\u202e\ud800" in str(error)


@pytest.mark.skipif(
    not hasattr(signal, "SIGALRM"), reason="the limit of time is SIGALRM, which Windows lacks"
)
def test_the_law_is_broken_by_errors_by_lines_and_by_time(meet: Meet) -> None:
    def refuse(text: str) -> None:
        raise InputError(text, expected="a", got="b", do="c")

    assert outcome(lambda: refuse("x")) == "refused"
    with pytest.raises(Broken, match="a refusal of"):
        check_line("a\nb")
    with pytest.raises(KeyboardInterrupt), limited(0.05):
        time.sleep(60)


@pytest.mark.promise("Hostile input is refused in one line, and no file of yours is changed")
def test_a_table_of_very_many_columns_takes_no_very_long_time(tmp_path: Path) -> None:
    faces(tmp_path, 4, **{f"c{number}": ["0", "1", "0", "1"] for number in range(30_000)})
    assert outcome(lambda: check_folder(tmp_path).ok and None) == "accepted"


READ_ONLY = {
    "generate": "generate model a.png --do smiling=1 --sampling 1",
    "evaluate": "evaluate model asked.yaml --sampling 1",
    "calibrate": "calibrate model --images 4 --weights 1,2",
    "diagnose": "diagnose model --images 4 --noised 2",
    "report": "report results.jsonl",
    "train": "train tiny.yaml",
    "data": "data check faces",
}


@pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="only /proc takes no file from root, and it is missing"
)
@pytest.mark.parametrize("command", READ_ONLY)
@pytest.mark.promise("A folder that takes no file is refused in one line")
def test_a_folder_that_takes_no_file_is_refused(command: str, meet: Meet, capsys) -> None:
    """Even if it is root who asks."""
    capsys.readouterr()
    assert main([*READ_ONLY[command].split(), "--out", "/proc/nothing/here"]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("fcfg")]
    assert len(lines) == 1
    assert "/proc/nothing" in lines[0]


@pytest.mark.promise("A clock that goes back, a missing home and closed streams change no answer")
def test_a_clock_that_goes_back_changes_nothing(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count(10**9, -1000)
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    assert same(train(tiny(), tmp_path / "run"), finished)
    pictures = draw(tmp_path, ["a.png", "b.png"])
    one, again = (ask(tiny_pipeline(), pictures, tmp_path / "out") for _ in range(2))
    assert one == again
