from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from fcfg import AttributeSpace, AttributeTokens, Binary, Continuous, Lookup, Phrases
from fcfg.diffusion.conditioners import conditioner_of, described, settings
from fcfg.diffusion.visible import VisibleAttributes
from refusal import all_refused, refused
from tiny_foreign import HAIR, NULL, SPACE, WRITE, texts, texts_and_pooled


def encoded(**columns: list[Any]) -> torch.Tensor:
    return torch.from_numpy(SPACE.encode(SPACE.parse(columns))).float()


ROWS = encoded(smiling=[0, 1, 1], hair=["red", "dark", "grey"])


def test_what_is_hidden_is_zero_and_what_is_masked_is_hidden_or_shown_as_of_another() -> None:
    embedder = VisibleAttributes(SPACE)
    condition = embedder(ROWS)
    assert embedder.condition_width == 4 + 2
    assert not embedder.null_for(condition).any()
    keep = torch.tensor([[True, False]])
    masked = embedder.masked(condition, keep)
    values, visible = embedder.values(masked), embedder.visible(masked)
    assert torch.equal(values[:, 0], ROWS[:, 0])
    assert not values[:, 1:].any()
    assert visible.tolist() == [[True, False]] * 3
    other = embedder(ROWS.flip(0))
    mixed = embedder.masked(condition, keep, other)
    assert torch.equal(
        embedder.values(mixed), torch.cat([ROWS[:, :1], ROWS.flip(0)[:, 1:]], dim=1)
    )
    assert embedder.visible(mixed).all()


def test_each_setting_has_its_own_row_and_each_text_is_encoded_once() -> None:
    asked: list[str] = []

    def encode(prompts: list[str]) -> dict[str, torch.Tensor]:
        asked.extend(prompts)
        return texts(prompts)

    lookup = Lookup.prompts(SPACE, WRITE, encode)
    assert len(asked) == len(set(asked)) == 12
    embedder = VisibleAttributes(SPACE)
    for keep in ([True, True], [True, False], [False, True], [False, False]):
        condition = embedder.masked(embedder(ROWS), torch.tensor([keep]))
        found = lookup(embedder.values(condition), embedder.visible(condition))
        shown = ({"smiling": 0, "hair": "red"}, {"smiling": 1, "hair": "dark"})
        for row, setting in zip(found["encoder_hidden_states"], shown, strict=False):
            visible = dict(pair for pair, kept in zip(setting.items(), keep, strict=True) if kept)
            assert torch.equal(row, texts([WRITE(visible)])["encoder_hidden_states"][0])


def test_a_class_needs_all_attributes_and_all_else_is_the_null_class() -> None:
    lookup = Lookup.classes(SPACE, NULL)
    whole = torch.ones(3, 2, dtype=torch.bool)
    assert lookup(ROWS, whole)["class_labels"].tolist() == [2, 3, 4]
    for hidden in ([[True, False]], [[False, True]], [[False, False]]):
        labels = lookup(ROWS, torch.tensor(hidden * 3))["class_labels"]
        assert labels.tolist() == [NULL] * 3


def test_tokens_of_hidden_attributes_are_learned_and_the_others_follow_their_values() -> None:
    torch.manual_seed(0)
    tokens = AttributeTokens(SPACE, 8, "context", "pooled")
    shown = torch.tensor([[True, False]] * 3)
    found = tokens(ROWS, shown)
    assert torch.equal(found["context"][:, 1], tokens.hidden[1].expand(3, 8))
    assert not torch.equal(found["context"][0, 0], found["context"][1, 0])
    assert torch.equal(found["pooled"], found["context"].mean(dim=1))
    found["context"].sum().backward()
    assert tokens.hidden.grad[1].abs().sum() > 0
    assert not tokens.hidden.grad[0].any()


OF_EACH_KIND = [Lookup.prompts(SPACE, WRITE, texts), Lookup.classes(SPACE, 0, "y", first=1)]
OF_EACH_KIND += [AttributeTokens(SPACE, 8, pooled="pooled")]


@pytest.mark.parametrize("conditioner", OF_EACH_KIND, ids=["prompts", "classes", "tokens"])
def test_a_conditioner_comes_back_from_its_description_and_its_weights(conditioner) -> None:
    other = conditioner_of(SPACE, conditioner.to_config())
    other.load_state_dict(conditioner.state_dict())
    shown = torch.tensor([[True, False], [True, True], [False, False]])
    one, two = conditioner(ROWS, shown), other(ROWS, shown)
    assert tuple(one) == tuple(two) == conditioner.names
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_what_cannot_be_written_beforehand_is_refused() -> None:
    aged = AttributeSpace([Binary("smiling"), Continuous("age", 0, 100)])
    many = AttributeSpace([Binary(f"trait{number}") for number in range(8)])
    refused("conditioner", "a range for 'age'", "AttributeTokens").by(Lookup.classes, aged, 0)
    refused("conditioner", "4096", "6561").by(Lookup.prompts, many, lambda _: "", texts)
    refused("table 'y'", "12 settings", "shape (3,)").by(Lookup, SPACE, {"y": torch.zeros(3)})
    with refused("prompt, attribute", "'hair'"):
        Phrases("a face", smiling=("serious", "smiling"))({"hair": "dark"})
    phrases = [(("serious",), HAIR), ("si", HAIR), (("a", "b"), ("a", "b", "c"))]
    for smiling, hair in phrases:
        with refused("prompt, ", "a phrase"):
            Lookup.prompts(SPACE, Phrases("a face", smiling=smiling, hair=hair), texts)
    short: list[Callable[[Any], Any]] = [
        lambda _: None,
        lambda prompts: {"y": texts(prompts[1:])["encoder_hidden_states"]},
    ]
    for encode in short:
        refused("prompts, encode", "12 rows").by(Lookup.prompts, SPACE, WRITE, encode)
    with refused("prompts, smiling", "the same"):
        Lookup.prompts(SPACE, Phrases("a face", smiling=("same", "same"), hair=HAIR), texts)
    for null in (None, -1, 2):
        refused("classes, null", "0 to 5").by(Lookup.classes, SPACE, null)
    refused("conditioner, kind", "magic").by(conditioner_of, SPACE, {"kind": "magic"})
    assert len(list(settings(SPACE))) == 12


def test_many_prompts_are_encoded_in_blocks_as_if_they_were_one() -> None:
    space, asked = AttributeSpace([Binary(f"trait{number}") for number in range(5)]), list[int]()

    def write(setting: Mapping[str, Any]) -> str:
        return " ".join(f"{name} {value}" for name, value in setting.items())

    def encode(prompts: list[str]) -> dict[str, torch.Tensor]:
        asked.append(len(prompts))
        return texts_and_pooled(prompts)

    lookup = Lookup.prompts(space, write, encode)
    assert asked == [64, 64, 64, 51]
    whole = texts_and_pooled([write(setting) for setting in settings(space)])
    assert lookup.names == tuple(whole)
    assert all(map(torch.equal, lookup.buffers(), whole.values()))

    def longest(prompts: list[str]) -> dict[str, torch.Tensor]:
        return {"y": torch.rand(len(prompts), max(map(len, prompts)))}

    refused("prompts, encode", "one shape", "[44]").by(Lookup.prompts, space, write, longest)


def test_only_what_can_be_built_again_is_described() -> None:
    class Other(AttributeTokens):
        """A conditioner of a user."""

    assert described(Lookup.classes(SPACE, NULL))["kind"] == "lookup"
    refused("conditioner", "Lookup or AttributeTokens", "a Other").by(described, Other(SPACE, 8))


def test_arguments_of_another_type_are_refused() -> None:
    tokens: Any = AttributeTokens
    lookup: Any = Lookup
    wrong: dict[str, list[Callable[[], object]]] = {
        "AttributeTokens, width": [
            lambda: tokens(SPACE, "8"),
            lambda: tokens(SPACE, 0),
        ],
        "AttributeTokens, tokens": [lambda: tokens(SPACE, 8, tokens=3)],
        "AttributeTokens, pooled": [lambda: tokens(SPACE, 8, pooled=3)],
        "AttributeTokens, space": [lambda: tokens(SPACE.names, 8)],
        "prompts, write": [
            lambda: lookup.prompts(SPACE, "a face", texts),
            lambda: lookup.prompts(SPACE, dict, texts),
        ],
        "classes, first": [
            lambda: lookup.classes(SPACE, 9, first=-1),
            lambda: lookup.classes(SPACE, 9, first="one"),
        ],
        "conditioner, space": [lambda: lookup.classes(None, 9)],
        "conditioner, table": [lambda: lookup(SPACE, None), lambda: lookup(SPACE, {"y": [1]})],
    }
    for subject, calls in wrong.items():
        all_refused(subject, *calls)
