"""What agrees with the paper: told from results with known effects, and from their opposite."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import fake_results
from agreement import Check, checks, rivals, signs
from fake_results import CFG, FCFG
from fcfg.evaluation import Summary, read_results, summarise

CLOSER, FARTHER = {"none": 0.12, CFG: 0.25, FCFG: 0.18}, {"none": 0.12, CFG: 0.18, FCFG: 0.25}
AMPLIFIES, TARGET = "amplification (Δ) at most a third", "target Δ not below"


@pytest.fixture(scope="module")
def agreeing(tmp_path_factory) -> Summary:
    return fake_results.known_summary(tmp_path_factory.mktemp("agreeing"), reversal=CLOSER)


@pytest.fixture(scope="module")
def opposite(tmp_path_factory) -> Summary:
    folder = tmp_path_factory.mktemp("opposite")
    return fake_results.known_summary(folder, reversal=FARTHER, strength=fake_results.swapped)


def held(found: list[Check], claim: str) -> Counter[bool | None]:
    return Counter(check.holds for check in found if check.claim == claim)


def test_claims_hold_where_effects_are_the_paper_s_and_none_where_they_are_the_opposite(
    agreeing, opposite
) -> None:
    found = checks(agreeing)
    assert {check.holds for check in found} == {True}
    assert {check.paper for check in found if "shift" not in check.claim} == {True}
    assert {check.paper for check in found if "shift" in check.claim} == {None}
    assert held(found, AMPLIFIES) == {True: 4}
    assert held(found, TARGET) == held(found, "reverses closer (LPIPS)") == {True: 2}
    found = checks(opposite)
    assert {check.holds for check in found} == {False, None}
    assert held(found, "reverses closer (MAE)") == {False: 2}
    assert held(found, AMPLIFIES) == {None: 4}  # global guidance does not amplify


def test_amplification_that_stays_and_a_target_that_is_missed_are_told(tmp_path: Path) -> None:
    """Where factored guidance is as strong as global guidance, and as none."""

    def found_as(other: str) -> list[Check]:
        def strength(do: str, guidance: str, name: str) -> float:
            return fake_results.paperlike(do, other if guidance == FCFG else guidance, name)

        return checks(fake_results.known_summary(tmp_path, strength=strength))

    found = found_as(CFG)
    assert held(found, AMPLIFIES) == {False: 4}
    assert held(found, TARGET) == {True: 2}  # as far as global guidance, to the digit
    assert not [check for check in found if "back" in check.claim]  # nothing came back
    assert held(found_as("none"), TARGET) == {False: 2}


def test_signs_are_compared_where_they_can_be_told(agreeing: Summary, opposite: Summary) -> None:
    found = signs(agreeing)
    assert len(found) == 2 * 2 * 3  # no guidance has no sign
    assert Counter(sign.agrees for sign in found) == {True: 8, None: 4}
    against = [sign for sign in signs(opposite) if sign.agrees is False]
    assert {(sign.guidance, sign.paper < 0) for sign in against} == {(FCFG, True)}


def test_a_drawn_world_is_held_against_its_truth(tmp_path: Path) -> None:
    settings = ("none", CFG, FCFG)
    fake_results.make_results(tmp_path, 40, settings=settings, pictures=0, reverse=False)
    drawn = summarise(read_results(tmp_path), resamples=200)
    found = checks(drawn)
    assert {check.claim for check in found} == {"amplification (factor error) at most a third"}
    assert {check.holds for check in found} == {True}
    assert {check.paper for check in found} == {None}
    assert signs(drawn) == []


def test_the_paper_s_own_numbers_are_held_against_its_claims(tmp_path: Path) -> None:
    weak = "fcfg:affected=1.2,invariant=1.0"
    known = {"settings": ["none", "cfg:1.2", weak], "reversal": {}}
    found = checks(fake_results.known_summary(tmp_path, **known))
    said = {(check.claim, check.do): check.paper for check in found}
    assert said["reverses closer (MAE)", "smiling"] is True
    assert said["reverses closer (LPIPS)", "smiling"] is False


def test_rivals_have_the_same_rule_and_strength_or_there_is_none(tmp_path: Path) -> None:
    texts = ["none", "cfg:3", "cfg++:0.02", "fcfg++:affected=0.02,invariant=0.008", "apg:3"]
    texts += [FCFG, "fcfg:affected=2.0,invariant=1.2", "fcfg:a=3.0,b=3.0"]
    assert rivals(texts) == [("cfg++:0.02", texts[3]), ("cfg:3", FCFG)]
    made = fake_results.known_summary(tmp_path)
    del made.cells["male", FCFG]
    assert {check.do for check in checks(made)} == {"smiling"}
