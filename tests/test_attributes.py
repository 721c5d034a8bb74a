"""Attributes: what may be said of them, and what ``do`` may say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fcfg import AttributeSpace, Binary, Categorical, CausalGraph, Continuous, Partition
from fcfg.causal.intervention import intervened
from fcfg.support.names import check_name
from refusal import refused
from tiny import ask, draw, tiny_pipeline

AGE = Continuous("age", 20, 80)
HAIR = Categorical("hair", ["dark", "fair", "grey"])
SPACE = AttributeSpace([Binary("smiling"), HAIR, AGE])
TABLE = {"smiling": [1, 0], "hair": ["grey", "dark"], "age": [20, 65]}


def same(left: dict, right: dict) -> bool:
    return list(left) == list(right) and all(np.array_equal(left[k], right[k]) for k in left)


@given(st.permutations(list(TABLE)))
def test_parsing_ignores_order_is_idempotent_and_takes_tensors(order: list[str]) -> None:
    parsed = SPACE.parse(TABLE)
    assert same(SPACE.parse({name: TABLE[name] for name in order}), parsed)
    assert same(SPACE.parse(parsed), parsed)
    tensors = {name: torch.from_numpy(column) for name, column in parsed.items()}
    assert same(SPACE.parse(tensors), parsed)
    assert [parsed[name].dtype.kind for name in parsed] == ["i", "i", "f"]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.floats(20, 80)), min_size=1))
def test_decoding_inverts_encoding(rows: list[tuple[bool, int, float]]) -> None:
    parsed = SPACE.parse(dict(zip(SPACE.names, map(list, zip(*rows, strict=True)), strict=True)))
    encoded = SPACE.encode(parsed)
    decoded = SPACE.decode(encoded)
    assert np.allclose(decoded.pop("age"), parsed["age"], rtol=1e-12)
    assert same(decoded, {name: parsed[name] for name in ("smiling", "hair")})
    rounded = SPACE.decode(encoded.astype(np.float32))
    assert np.allclose(rounded["age"], parsed["age"], rtol=1e-5)
    assert [column.dtype for column in rounded.values()] == [c.dtype for c in parsed.values()]


def test_what_is_decoded_is_legal_and_arrays_stay_those_of_their_callers() -> None:
    between = np.array([[0.6, 0.2, 0.5, 0.3, 1.00001], [0.4, 0.1, 0.2, 0.7, -1.00001]])
    decoded = SPACE.decode(between.astype(np.float32))
    legal = {"smiling": [1, 0], "hair": ["fair", "grey"], "age": [80, 20]}
    assert same(decoded, SPACE.parse(legal))
    assert same(SPACE.parse(decoded), decoded)
    mine = np.array([30.0, 40.0])
    parsed = AGE.parse(mine)
    mine[:] = 80
    assert parsed.tolist() == [30, 40]
    assert HAIR.parse(np.array(["fair"], dtype=object)).tolist() == [1]


def test_the_encoding_of_a_table_puts_the_blocks_in_order() -> None:
    rows = SPACE.encode(SPACE.parse(TABLE))
    assert rows.tolist() == [[1, 0, 0, 1, -1], [0, 1, 0, 0, 0.5]]
    assert SPACE.encode(SPACE.parse(TABLE), ["age"]).tolist() == [[-1], [0.5]]
    assert SPACE.widths == (1, 3, 1)
    assert len(SPACE) == 3
    assert [attribute.name for attribute in SPACE] == list(SPACE.names)
    assert AttributeSpace.from_config(SPACE.to_config()) == SPACE


ILLEGAL = {
    Binary("smiling"): ([0, 2], [-1, 1], "yes", [[0, 1]], ["0", "1"]),
    HAIR: (["dark", "blond"], ["drak"], [3], [0.5], torch.tensor([1.0], dtype=torch.bfloat16)),
    AGE: (
        *([50, 81], [float("nan")], float("inf"), [None], ["30", "40"], [30 + 1j], 10**400),
        *([[30], [30, 40]], np.array(["2020-01-01"], dtype="datetime64")),
        *(np.ma.masked_array([30.0, 40.0], [0, 1]), torch.tensor([30.0], requires_grad=True)),
    ),
}


def test_illegal_values_and_tables_are_refused() -> None:
    for attribute, illegal in ILLEGAL.items():
        for values in illegal:
            refused(f"attribute '{attribute.name}'").by(attribute.parse, values)
    changes = ({"hat": [1, 1]}, {"smilling": [1, 1]}, {"age": [30]}, {name: [] for name in TABLE})
    tables = (TABLE | changes[0], TABLE | changes[1], TABLE | changes[2], changes[3], {}, [1, 2])
    for table in (*tables, {"smiling": [1, 0], "hair": [1, 0]}):
        refused("attributes").by(SPACE.parse, table)
    with refused("attributes", "'hat'"):
        _ = SPACE["hat"]


def test_what_makes_no_attribute_is_refused() -> None:
    for name in ("", " x", "x\n", "a=b", "a,b", "a;b", "a:b", "a.b", "a+b", 7):
        for call in (check_name, lambda n: CausalGraph({n: []}), lambda n: Partition({n: []})):
            refused("name", "rename").by(call, name)
    refused("name", "rename").by(Binary, "a+b")
    for name in ("affected", "invariant"):  # groups of guidance
        refused(f"attribute '{name}'", "rename").by(Binary, name)
    several = (["dark"], ["dark", "dark"], "dark", ["dark", ""], {"dark", "fair"}, 3, None)
    for levels in (*several, [0, 1], [1.5, "2"], [True, False]):
        refused("attribute 'hair'").by(Categorical, "hair", levels)
    for ends in ((1, 1), (2, 1), (0, float("inf")), (float("nan"), 1), ("0", "1")):
        refused("attribute 'age'", "low < high").by(Continuous, "age", *ends)
    for attributes in ([AGE, AGE], [], ["age"]):
        refused("attribute space").by(AttributeSpace, attributes)
    for config in ({"kind": "continous"}, {"kind": "continuous", "lower": 0, "high": 1}):
        refused("attribute 'age'").by(AttributeSpace.from_config, {"age": config})


YEARS, SMILING = Continuous("age", 0, 100), Binary("smiling")
COLD = Continuous("temperature", -40, 40)


def test_a_text_is_a_value_or_a_change_and_one_that_may_mean_either_is_refused() -> None:
    factual = np.array([20.0, 50.0])
    changes = {"40": [40, 40], "=40": [40, 40], "+5": [25, 55], "+=5": [25, 55], " -5 ": [15, 45]}
    changes |= {"-=5": [15, 45], "+10%": [22, 55], "-10%": [18, 45]}
    for text, expected in (changes | {"*1.5": [30, 75], "*5e-1": [10, 25]}).items():
        assert intervened(YEARS, text, factual).tolist() == pytest.approx(expected)
        assert factual.tolist() == [20, 50]
    factual = np.array([10.0, -10.0])
    with refused("intervention on 'temperature'", "'=-5' for the value -5", "'-=5' for a decr"):
        intervened(COLD, "-5", factual)
    for value, found in {"=-5": [-5, -5], "-=5": [5, -15], "-10%": [9, -9], -5: [-5, -5]}.items():
        assert intervened(COLD, value, factual).tolist() == found


def test_binary_values_are_flipped_or_named_and_a_text_that_leads_nowhere_is_refused() -> None:
    values = {"flip": [1, 0], "=1": [1, 1], "true": [1, 1], "False": [0, 0], "YES": [1, 1]}
    for text, expected in values.items():
        assert intervened(SMILING, text, np.array([0, 1])).tolist() == expected
    change = Categorical("change", ["+1", "flip", "-10%"])
    for text, level in {"flip": 1, "+1": 0, "=flip": 1}.items():
        assert intervened(change, text, np.array([0, 2])).tolist() == [level, level]
    for text in ("+60", "-30", "flip", "10%", "*10%", "+", "+inf", "--1", "+5_0", "=old"):
        refused("intervention on 'age'").by(intervened, YEARS, text, np.array([20.0, 50.0]))
    for text in ("+1", "maybe"):
        with refused("intervention on 'smiling'", f"got '{text}'"):
            intervened(SMILING, text, np.array([0, 1]))


def test_a_change_is_one_of_each_picture_and_stands_in_the_record(tmp_path) -> None:
    faces = draw(tmp_path / "faces", ["anna.png", "ben.png"])
    given = {"smiling": [0, 1], "age": [20, 50], "hair": ["dark", "red"]}
    do = {"age": "+10%", "smiling": "flip"}
    results = ask(tiny_pipeline(), faces, tmp_path / "out", attributes=given, do=do)
    assert [r.counterfactual["age"] for r in results] == pytest.approx([22, 55])
    assert [r.counterfactual["smiling"] for r in results] == [1, 0]
    assert '"age": "+10%"' in (tmp_path / "out" / "record.json").read_text()
