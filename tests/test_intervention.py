"""What ``do`` may say: values, columns, functions and texts."""

from __future__ import annotations

import numpy as np
import pytest

from fcfg.causal.attributes import Binary, Categorical, Continuous
from fcfg.causal.intervention import intervened
from refusal import refused
from tiny import ask, draw, tiny_pipeline

AGE, SMILING = Continuous("age", 0, 100), Binary("smiling")
COLD = Continuous("temperature", -40, 40)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("40", [40, 40]),
        ("=40", [40, 40]),
        ("+5", [25, 55]),
        ("+=5", [25, 55]),
        (" -5 ", [15, 45]),
        ("-=5", [15, 45]),
        ("+10%", [22, 55]),
        ("-10%", [18, 45]),
        ("*1.5", [30, 75]),
        ("*5e-1", [10, 25]),
    ],
)
def test_a_text_is_a_value_or_a_change_of_the_factual_one(text: str, expected: list) -> None:
    factual = np.array([20.0, 50.0])
    assert intervened(AGE, text, factual).tolist() == pytest.approx(expected)
    assert factual.tolist() == [20, 50]


def test_a_minus_that_may_mean_either_is_refused() -> None:
    factual = np.array([10.0, -10.0])
    with refused("intervention on 'temperature'", "'=-5' for the value -5", "'-=5' for a decr"):
        intervened(COLD, "-5", factual)
    assert intervened(COLD, "=-5", factual).tolist() == [-5, -5]
    assert intervened(COLD, "-=5", factual).tolist() == [5, -15]
    assert intervened(COLD, "-10%", factual).tolist() == [9, -9]
    assert intervened(COLD, -5, factual).tolist() == [-5, -5]  # a number is a value


def test_a_binary_attribute_is_flipped_or_named() -> None:
    values = {"flip": [1, 0], "=1": [1, 1], "true": [1, 1], "False": [0, 0], "YES": [1, 1]}
    for text, expected in values.items():
        assert intervened(SMILING, text, np.array([0, 1])).tolist() == expected


def test_a_text_that_leads_nowhere_is_refused() -> None:
    for text in ("+60", "-30", "flip", "10%", "*10%", "+", "+inf", "--1", "+5_0", "=old"):
        with refused("intervention on 'age'"):
            intervened(AGE, text, np.array([20.0, 50.0]))
    for text in ("+1", "maybe"):
        with refused("intervention on 'smiling'", f"got '{text}'"):
            intervened(SMILING, text, np.array([0, 1]))


def test_levels_are_names_whatever_they_look_like() -> None:
    change = Categorical("change", ["+1", "flip", "-10%"])
    for text, level in {"flip": 1, "+1": 0, "=flip": 1}.items():
        assert intervened(change, text, np.array([0, 2])).tolist() == [level, level]


def test_a_change_is_one_of_each_picture_and_stands_in_the_record(tmp_path) -> None:
    faces = draw(tmp_path / "faces", ["anna.png", "ben.png"])
    given = {"smiling": [0, 1], "age": [20, 50], "hair": ["dark", "red"]}
    do = {"age": "+10%", "smiling": "flip"}
    results = ask(tiny_pipeline(), faces, tmp_path / "out", attributes=given, do=do)
    assert [r.counterfactual["age"] for r in results] == pytest.approx([22, 55])
    assert [r.counterfactual["smiling"] for r in results] == [1, 0]
    assert '"age": "+10%"' in (tmp_path / "out" / "record.json").read_text()
