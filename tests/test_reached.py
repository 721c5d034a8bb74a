"""What was asked for and is not read: one notion, told everywhere, and nothing without a judge."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import fcfg
from fcfg.datasets import portraits
from fcfg.generation import generate
from fcfg.judge import AttributeJudge, Reading
from fcfg.model import Action
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.storage.beside import WORDS, read_words
from fcfg.trust import measure_trust, not_reached
from studios import ask, client_of, of, studio_of, upload
from tiny import GIVEN, draw, tiny_pipeline

COUNT = 4


def reading(name: str, scores: object) -> Reading:
    return Reading({}, {name: np.array(scores, float)}, {}, np.zeros((COUNT, 1), np.float32))


def missed(name: str, was: object, asked: object, before: object, after: object) -> list[dict]:
    """What is missed in images with such values and readings."""
    model = tiny_pipeline(judge=False)
    action = Action({column: np.array(asked) for column in model.space.names}, (name,), 0)
    shown = reading(name, before), reading(name, after)
    return not_reached(model, {name: np.array(was)}, action, *shown)


def test_a_binary_value_is_reached_from_a_half_on() -> None:
    found = missed("smiling", [0, 1, 0, 1], [1, 0, 1, 0], [0.0] * 4, [0.03, 0.55, 0.5, 0.5])
    wanted = [{"smiling": "reads 3 %, asked yes"}, {"smiling": "reads 55 %, asked no"}, {}, {}]
    assert found == wanted


def test_values_that_have_names_are_told_by_them(tmp_path: Path) -> None:
    space = fcfg.AttributeSpace([fcfg.Binary("sex", ["F", "M"]), fcfg.Binary("smiling")])
    assert read_words(tmp_path, space) == {"sex": ["F", "M"]}
    (tmp_path / WORDS).write_text('{"sex": ["female", "male"]}')
    assert read_words(tmp_path, space) == {"sex": ["female", "male"]}


def test_a_level_is_reached_if_no_other_is_likelier() -> None:
    after = [[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.4, 0.4, 0.2], [0.1, 0.2, 0.7]]
    found = missed("hair", [1, 1, 1, 1], [0, 0, 0, 0], [[0.0, 1.0, 0.0]] * 4, after)
    wanted = [{}, {"hair": "reads grey, asked dark"}, {}, {"hair": "reads red, asked dark"}]
    assert found == wanted


def test_a_number_is_reached_half_way_or_within_the_error_on_the_picture() -> None:
    asked, before = [60.0] * 4, [30.0] * 4
    found = missed("age", [30.0] * 4, asked, before, [46.0, 44.0, 30.0, 20.0])
    assert found == [{}, *({"age": f"reads {read}, asked 60"} for read in (44, 30, 20))]
    # A judge that errs by 20 on the picture may err as much on the answer.
    found = missed("age", [50.0] * 4, asked, before, [41.0, 39.0, 79.0, 91.0])
    assert found == [{}, {"age": "reads 39, asked 60"}, {}, {}]
    # Where nothing is asked to change, nothing can be missed.
    assert missed("age", asked, asked, before, [29.0] * 4) == [{}] * 4


def test_a_model_may_have_words_of_its_own(tmp_path: Path) -> None:
    fcfg.save(tiny_pipeline(), tmp_path)
    (tmp_path / WORDS).write_text(json.dumps({"smiling": ["grave", "merry"]}))
    model, one = fcfg.load(tmp_path), reading("smiling", [0.2, 0.9, 0.0, 0.0])
    table = {name: np.array([1, 0, 0, 0]) for name in model.space.names}
    first, second, *_ = not_reached(model, table, Action(table, ("smiling",), 0), one, one)
    assert first == {"smiling": "reads 20 % merry, asked merry"}
    assert second == {"smiling": "reads 90 % merry, asked grave"}
    # Only what was intervened on can be missed, and only by a judge.
    assert not_reached(model, table, Action(table, (), 0), one, one) == [{}] * 4
    assert not_reached(model, table, Action(table, ("smiling",), 0), None, None) == [{}] * 4


def test_a_judge_tells_what_was_done_from_what_was_not() -> None:
    model, faces = fcfg.load("portraits"), portraits.sample(256, portraits.EVALUATION_SEED)
    before = model.judge.read(faces.images)
    done, left = 0, 0
    for name in model.space.names:
        action = model.act(faces.attributes, {name: "flip"})
        truth = portraits.counterfactual(faces, dict(action.attributes)).images
        own = faces.attributes, action, before
        done += sum(map(bool, not_reached(model, *own, model.judge.read(truth))))
        left += sum(map(bool, not_reached(model, *own, before)))
    assert (round(done / 7.68), round(left / 7.68)) == (13, 89)  # percent; docs/generate.md


# Everywhere -------------------------------------------------------------------------------------


@pytest.fixture
def model() -> CounterfactualPipeline:
    """A model whose judge always reads a smile of 10 %, and an age of 50."""
    pipeline = tiny_pipeline()
    assert isinstance(pipeline.judge, AttributeJudge)
    with torch.no_grad():
        pipeline.judge.network.head.weight.zero_()
        pipeline.judge.network.head.bias.zero_()[0] = -2.1972
    return pipeline


def test_python_is_told(model: CounterfactualPipeline) -> None:
    images = 2 * torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)) - 1
    given = {"smiling": [0, 0], "age": [40.0, 40.0], "hair": ["dark", "dark"]}
    pair = model.counterfactual(images, given, {"smiling": [1, 0]}, sampling=2)
    wanted = [{"smiling": "reads 10 %, asked yes"}, {}]
    assert measure_trust(model, images, pair).not_reached == wanted
    model.judge = None
    assert measure_trust(model, images, pair).not_reached == []


@pytest.mark.parametrize("trust", [True, False])
def test_records_hold_it_and_a_resumed_run_keeps_it(model, tmp_path: Path, trust: bool) -> None:
    files = draw(tmp_path, ["anna.png", "ben.png"])
    how = {"attributes": GIVEN, "do": {"smiling": 1}, "sampling": 2, "trust": trust}
    wanted = {"smiling": "reads 10 %, asked yes"}
    for part in (files[:1], files):
        results = generate(model, part, out=tmp_path / "out", **how)
        assert [result.not_reached for result in results] == [wanted] * len(part)
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert [entry["not_reached"] for entry in record["images"]] == [wanted] * 2
    model.judge = None
    (result,) = generate(model, files[:1], out=tmp_path / "other", **how)
    assert (result.not_reached, result.missed) == ({}, "")


def test_it_is_not_said_twice(model: CounterfactualPipeline, tmp_path: Path) -> None:
    files = draw(tmp_path, ["anna.png"])
    how = {"attributes": GIVEN, "sampling": 2, "reverse": False}
    (result,) = generate(model, files, out=tmp_path / "a", do={"smiling": 1}, **how)
    assert result.doubted({"asked smiling": 1.0}).reasons == ()
    (result,) = generate(model, files, out=tmp_path / "b", do={"smiling": 0}, **how)
    assert result.not_reached == {}
    assert result.doubted({"asked smiling": -9.0}).reasons == (
        "the judge does not read smiling=0",
    )


def test_the_studio_tells_its_page(model: CounterfactualPipeline) -> None:
    with client_of(studio_of(model)) as client:
        image = upload(client)
        events = ask(client, image, do={"smiling": 1}, trust=True, sampling="ddim uniform 3")
        (answer,), (trust,), (done,) = (of(events, kind) for kind in ("answer", "trust", "done"))
        wanted = {"smiling": "reads 10 %, asked yes"}
        assert answer["not_reached"] == done["record"]["not_reached"] == wanted
        assert (trust["trusted"], trust["reasons"]) == (False, [])
        (answer,) = of(ask(client, image, do={"smiling": 0}), "answer")
        assert answer["not_reached"] == {}
    model.judge = None
    with client_of(studio_of(model)) as client:
        (answer,) = of(ask(client, upload(client), do={"smiling": 1}), "answer")
    assert (answer["not_reached"], answer["judged"]) == ({}, {})
