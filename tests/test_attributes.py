from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fcfg.causal.attributes import (
    AttributeSpace,
    Binary,
    Categorical,
    Continuous,
    attribute_from_config,
)
from fcfg.causal.graph import CausalGraph, Partition
from fcfg.support.names import check_name
from refusal import refused

AGE = Continuous("age", 20, 80)
HAIR = Categorical("hair", ["dark", "fair", "grey"])
SPACE = AttributeSpace([Binary("smiling"), HAIR, AGE])
TABLE = {"smiling": [1, 0], "hair": ["grey", "dark"], "age": [20, 65]}


def same(left: dict, right: dict) -> bool:
    return list(left) == list(right) and all(np.array_equal(left[k], right[k]) for k in left)


@given(st.permutations(list(TABLE)))
def test_the_order_of_a_mapping_does_not_matter(order: list[str]) -> None:
    assert same(SPACE.parse({name: TABLE[name] for name in order}), SPACE.parse(TABLE))


def test_parsing_is_idempotent_and_takes_tensors() -> None:
    parsed = SPACE.parse(TABLE)
    assert same(SPACE.parse(parsed), parsed)
    tensors = {name: torch.from_numpy(column) for name, column in parsed.items()}
    assert same(SPACE.parse(tensors), parsed)
    assert [parsed[name].dtype.kind for name in parsed] == ["i", "i", "f"]


@given(st.lists(st.floats(20, 80), min_size=1))
def test_continuous_values_are_scaled_to_the_unit_range_and_back(values: list[float]) -> None:
    scaled = AGE.encode(AGE.parse(values))
    assert scaled.shape == (len(values), 1)
    assert np.abs(scaled).max() <= 1
    assert np.allclose((scaled[:, 0] + 1) / 2 * 60 + 20, values)


@given(st.lists(st.sampled_from(HAIR.levels), min_size=1))
def test_names_and_codes_of_levels_are_inverse(names: list[str]) -> None:
    codes = HAIR.parse(names)
    assert HAIR.labels(codes) == names
    assert np.array_equal(HAIR.parse(codes), codes)
    assert np.array_equal(HAIR.encode(codes).argmax(axis=1), codes)
    assert np.array_equal(HAIR.encode(codes).sum(axis=1), np.ones(len(names)))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.floats(20, 80)), min_size=1))
def test_decoding_inverts_encoding(rows: list[tuple[bool, int, float]]) -> None:
    parsed = SPACE.parse(dict(zip(SPACE.names, map(list, zip(*rows, strict=True)), strict=True)))
    encoded = SPACE.encode(parsed)
    decoded = SPACE.decode(encoded)
    assert list(decoded) == list(parsed)
    assert np.array_equal(decoded["smiling"], parsed["smiling"])
    assert np.array_equal(decoded["hair"], parsed["hair"])
    assert np.allclose(decoded["age"], parsed["age"], rtol=1e-12)
    rounded = SPACE.decode(encoded.astype(np.float32))
    assert np.allclose(rounded["age"], parsed["age"], rtol=1e-5)
    assert [column.dtype for column in rounded.values()] == [c.dtype for c in parsed.values()]


def test_what_is_decoded_is_legal() -> None:
    between = np.array([[0.6, 0.2, 0.5, 0.3, 1.00001], [0.4, 0.1, 0.2, 0.7, -1.00001]])
    decoded = SPACE.decode(between.astype(np.float32))
    assert same(
        decoded, SPACE.parse({"smiling": [1, 0], "hair": ["fair", "grey"], "age": [80, 20]})
    )
    assert same(SPACE.parse(decoded), decoded)


def test_later_changes_to_the_callers_array_change_nothing() -> None:
    mine = np.array([30.0, 40.0])
    parsed = AGE.parse(mine)
    mine[:] = 80
    assert parsed.tolist() == [30, 40]


def test_level_names_in_an_object_column_are_read() -> None:
    assert HAIR.parse(np.array(["fair"], dtype=object)).tolist() == [1]


def test_the_encoding_of_a_table_puts_the_blocks_in_order() -> None:
    rows = SPACE.encode(SPACE.parse(TABLE))
    assert rows.tolist() == [[1, 0, 0, 1, -1], [0, 1, 0, 0, 0.5]]
    assert SPACE.encode(SPACE.parse(TABLE), ["age"]).tolist() == [[-1], [0.5]]
    assert SPACE.widths == (1, 3, 1)
    assert len(SPACE) == 3
    assert [attribute.name for attribute in SPACE] == list(SPACE.names)


def test_a_space_comes_back_from_its_description() -> None:
    assert AttributeSpace.from_config(SPACE.to_config()) == SPACE


@pytest.mark.parametrize(
    ("attribute", "values", "fragments"),
    [
        (Binary("smiling"), [0, 2], ["0 or 1", "2.0 in row 1"]),
        (Binary("smiling"), [-1, 1], ["-1.0 in row 0"]),
        (Binary("smiling"), "yes", ["0 or 1", "yes"]),
        (Binary("smiling"), [[0, 1]], ["column", "shape (1, 2)"]),
        (HAIR, ["dark", "blond"], ["'blond' in row 1", "use one of"]),
        (HAIR, ["drak"], ["did you mean 'dark'?"]),
        (HAIR, [3], ["code 0 to 2", "3.0 in row 0"]),
        (HAIR, [0.5], ["0.5 in row 0"]),
        (AGE, [50, 81], ["20 to 80", "81.0 in row 1"]),
        (AGE, [float("nan")], ["nan in row 0"]),
        (AGE, float("inf"), ["inf in row 0"]),
        (AGE, [None], ["nan in row 0"]),
        (AGE, ["30", "40"], ["numbers from 20 to 80", "list ['30', '40']"]),
        (AGE, [30 + 1j], ["20 to 80"]),
        (AGE, 10**400, ["20 to 80"]),
        (AGE, [[30], [30, 40]], ["20 to 80"]),
        (AGE, np.array(["2020-01-01"], dtype="datetime64"), ["20 to 80"]),
        (AGE, np.ma.masked_array([30.0, 40.0], [0, 1]), ["masked values"]),
        (AGE, torch.tensor([30.0], requires_grad=True), ["20 to 80"]),
        (Binary("smiling"), ["0", "1"], ["0 or 1", "Categorical"]),
        (HAIR, torch.tensor([1.0], dtype=torch.bfloat16), ["'dark'"]),
    ],
)
def test_illegal_values_are_refused(attribute, values, fragments) -> None:
    with refused(f"attribute '{attribute.name}'", *fragments):
        attribute.parse(values)


@pytest.mark.parametrize(
    ("change", "fragments"),
    [
        ({"hat": [1, 1]}, ["'hat'", "use one of"]),
        ({"smilling": [1, 1]}, ["did you mean 'smiling'?"]),
        ({"age": None}, ["no column for 'age'"]),
        ({"age": [30]}, ["one length", "'age': 1"]),
    ],
)
def test_illegal_tables_are_refused(change, fragments) -> None:
    table = {name: column for name, column in (TABLE | change).items() if column is not None}
    with refused("attributes", *fragments):
        SPACE.parse(table)


def test_an_empty_table_is_refused() -> None:
    with refused("attributes", "at least 1"):
        SPACE.parse({"smiling": [], "hair": [], "age": []})


def test_an_unknown_name_is_refused() -> None:
    with refused("attributes", "'hat'"):
        _ = SPACE["hat"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "a string without a space"),
        (" x", "a string without a space"),
        ("x\n", "a string without a space"),
        (7, "a string"),
        ("a=b", "'=', which gives an attribute its value"),
        ("a,b", "',', which separates attributes"),
        ("a;b", "';', which begins an option of a guidance"),
        ("a:b", "':', which ends the name of a guidance"),
        ("a.b", "'.', which separates names in weight files"),
        ("a+b", "'+', which joins the targets of one intervention"),
    ],
)
def test_names_that_texts_cannot_hold_are_refused_with_the_reason(name, reason: str) -> None:
    with refused("name", reason, "rename"):
        check_name(name)
    if isinstance(name, str):
        for declare in (
            Binary,
            lambda name: CausalGraph({name: []}),
            lambda n: Partition({n: []}),
        ):
            with refused("name", reason, "rename"):
                declare(name)


@pytest.mark.parametrize("name", ["affected", "invariant"])
def test_names_of_groups_are_reserved(name: str) -> None:
    with refused(f"attribute '{name}'", "rename"):
        Binary(name)


@pytest.mark.parametrize(
    "levels", [["dark"], ["dark", "dark"], "dark", ["dark", ""], {"dark", "fair"}, 3, None]
)
def test_levels_are_several_and_different(levels) -> None:
    with refused("attribute 'hair'", "at least two different levels"):
        Categorical("hair", levels)


@pytest.mark.parametrize("levels", [[0, 1], [1.5, "2"], [True, False]])
def test_levels_that_yaml_read_as_numbers_are_to_be_quoted(levels) -> None:
    with refused("attribute 'hair'", "each a string", "quote every level"):
        Categorical("hair", levels)


@pytest.mark.parametrize(
    ("low", "high"), [(1, 1), (2, 1), (0, float("inf")), (float("nan"), 1), ("0", "1")]
)
def test_ranges_are_finite_and_not_empty(low, high) -> None:
    with refused("attribute 'age'", "low < high"):
        Continuous("age", low, high)


def test_spaces_name_every_attribute_once() -> None:
    with refused("attribute space", "'age' more than once"):
        AttributeSpace([AGE, AGE])
    with refused("attribute space", "at least one"):
        AttributeSpace([])
    with refused("attribute space", "'age'"):
        AttributeSpace(["age"])
    with refused("attributes", "a mapping"):
        SPACE.parse([1, 2])


def test_unknown_kinds_and_options_are_refused() -> None:
    with refused("attribute 'age'", "did you mean 'continuous'?"):
        attribute_from_config("age", {"kind": "continous"})
    with refused("attribute 'age'", "'lower', 'high'"):
        attribute_from_config("age", {"kind": "continuous", "lower": 0, "high": 1})
