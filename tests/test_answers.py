"""The answer loop, and the store that resumes it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save as to_bytes

from evaluations import SIZE, counted_rows, tiny_model
from fcfg import CounterfactualPipeline, Guidance
from fcfg.answers import Answer, AnswerLoop, Memory, Question, Store, in_blocks, size_of
from fcfg.datasets import portraits
from fcfg.model import AnyModel
from laws import shift as shift_model
from own_kind import ShiftModel
from refusal import refused

DRAWN = portraits.sample(5, 3, SIZE)
ANCHORED, PLAIN = "contrast:1.5;anchor=true", "cfg:2.0"
DRAWN_NOISE = "contrast:1.5;anchor=true;drawn_noise=true"


@pytest.fixture(scope="module")
def model() -> CounterfactualPipeline:
    return tiny_model()


def question(model: AnyModel, setting: str, do: str = "smiling", **more: Any) -> Question:
    plan = model.plan([do], model.parse_setting(setting), sampling="ddim uniform 2")
    flipped = {do: 1 - DRAWN.attributes[do]}
    return Question(f"do({do})", plan, partial(model.act, DRAWN.attributes, flipped), **more)


def loop(model: AnyModel, *questions: Question, **more: Any) -> AnswerLoop:
    return AnswerLoop(model, DRAWN.images, DRAWN.attributes, questions, **more)


def answered(model: AnyModel, *questions: Question, **more: Any) -> Iterator[Answer]:
    for block in loop(model, *questions, **more):
        yield from block.answers()


@pytest.mark.parametrize("make", [tiny_model, shift_model])
def test_answers_are_those_of_the_model(make: Any) -> None:
    """Several questions share their abduction, and the answers are those of one at a time."""
    model = make()
    settings = (
        ("shift:1", "none") if isinstance(model, ShiftModel) else (ANCHORED, PLAIN, DRAWN_NOISE)
    )
    asked = [
        question(model, setting, returns=1, fresh=True, key=setting == DRAWN_NOISE)
        for setting in settings
    ]
    for answer in answered(model, *asked):
        flip = {"smiling": 1 - DRAWN.attributes["smiling"]}
        alone = model.counterfactual(
            DRAWN.images, DRAWN.attributes, flip, plan=answer.question.plan, any_size=True
        )
        assert torch.equal(answer.pair.images, alone.images)
        assert list(answer.pair.spent) == list(alone.spent)
        assert torch.equal(answer.back.images, model.reverse(alone).images)
        keys = [f"fresh {key}" for key in alone.abduction.keys]
        assert torch.equal(answer.fresh.images, model.reverse(alone, keys=keys).images)
        is_same = torch.equal(answer.fresh.images, answer.back.images)
        assert is_same != answer.question.key


def test_blocks_do_not_matter(model: CounterfactualPipeline) -> None:
    asked = question(model, ANCHORED)
    (whole,) = answered(model, asked)
    parts = list(answered(model, asked, blocks=[[4, 0], [2, 1, 3]]))
    images = torch.cat([part.pair.images for part in parts])
    torch.testing.assert_close(images, whole.pair.images[[4, 0, 2, 1, 3]], atol=1e-5, rtol=0)
    assert parts[0].back is None


def test_what_is_behind_a_block_is_inferred_once(model: CounterfactualPipeline) -> None:
    """Two steps each: one abduction, an anchor for two interventions, then their predictions."""
    asked = [question(model, ANCHORED, do) for do in ("smiling", "male")]
    with counted_rows(model) as rows:
        alone = [answer for each in asked for answer in answered(model, each)]
    spent = sum(rows)
    with counted_rows(model) as rows:
        together = list(answered(model, *asked))
    anchor = alone[0].pair.abduction.anchor
    assert spent - sum(rows) == len(DRAWN.images) * (2 + anchor.evaluations)
    for one, other in zip(alone, together, strict=True):
        assert torch.equal(one.pair.images, other.pair.images)


def test_a_plain_answer_shares_an_abduction_that_another_one_needs(model) -> None:
    asked = loop(model, question(model, PLAIN), question(model, ANCHORED))
    plain, anchored = (each.plan for each in asked.questions)
    assert asked.shared(plain).abduction == anchored.abduction
    alone = loop(model, question(model, PLAIN), question(model, DRAWN_NOISE))
    assert alone.shared(plain).abduction == plain.abduction
    assert asked.cost(asked.questions) == 1 + plain.rows + anchored.rows


@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_progress_ends_at_one_whatever_is_left_out(model, left_out) -> None:
    asked = [question(model, PLAIN, returns=2, fresh=True), question(model, DRAWN_NOISE, extra=3)]
    shares, phases = list[float](), list[tuple[str, float]]()
    told: dict[str, Any] = {"on_progress": shares.append}
    told["on_step"] = lambda phase, step, share: phases.append((phase, share))
    parts = loop(model, *asked, blocks=in_blocks(range(5), 2), **told)
    for block in parts:
        for answer in block.answers(asked[left_out:]):
            with block.phase("own", down=answer.question.extra):
                pass
        end = sum(len(rows) for rows in in_blocks(range(5), 2)[: block.number + 1])
        assert parts.progress.done == end * parts.cost(asked)
        assert shares[-1] == pytest.approx(end / 5)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert {share for _, share in phases} <= set(shares)
    names = {"prediction", "abduction"} | ({"reversal"} if left_out == 0 else set())
    assert {phase for phase, _ in phases} == (names if left_out < 2 else set())


def test_a_callback_cancels_and_what_was_inferred_stays(model, tmp_path) -> None:
    def stop(phase: str, step: object, share: float) -> None:
        if phase == "prediction":
            raise KeyboardInterrupt

    asked, store = question(model, PLAIN), Store(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        list(answered(model, asked, store=store, on_step=stop))
    with counted_rows(model) as rows:
        (answer,) = answered(model, asked, store=store)
    assert sum(rows) == len(DRAWN.images) * 2 * asked.plan.rows
    assert torch.equal(answer.pair.images, next(answered(model, asked)).pair.images)


def test_a_strict_loop_refuses_what_is_not_finite() -> None:
    model, memory = tiny_model(), Memory()
    asked = question(model, PLAIN)
    list(answered(model, asked, memory=memory))
    model.denoiser.network.shift.bias.data[:] = float("nan")
    refused("model", "NaN or infinity").by(list, answered(model, asked, strict=True))
    with refused("do(smiling)", "others for 5 of 5, such as 0"):
        list(answered(model, asked, memory=memory, strict=True))
    with pytest.warns(UserWarning, match="NaN"):
        (found,) = answered(model, asked)
    assert not found.pair.images.isfinite().any()


@pytest.mark.parametrize("solver", ["ddim", "bdia", "fixed-point:2"])
def test_a_stored_abduction_is_the_same(solver, model, tmp_path) -> None:
    plan = model.plan(["male"], Guidance.parse(ANCHORED), sampling=f"{solver} uniform 3")
    asked = Question("do(male)", plan, lambda: model.act(DRAWN.attributes, {"male": "flip"}))
    about: dict[str, Any] = {"store": Store(tmp_path), "about": "model"}
    first, second = (
        block.abduction(plan) for _ in range(2) for block in loop(model, asked, **about)
    )
    assert first.inferred.keys() == second.inferred.keys()
    for name, value in first.inferred.items():
        assert torch.equal(value, second.inferred[name])
    assert first.trajectory.spent == second.trajectory.spent
    parts = [block.abduction(plan) for block in loop(model, asked, blocks=[[3], [1, 2]], **about)]
    assert torch.equal(parts[1].path.states, first.path.states[:, [1, 2]])


def test_the_store_knows_model_image_attributes_sampling_and_path(model, tmp_path) -> None:
    def inferred(setting: str = PLAIN, about: str = "model", **changes: Any) -> bool:
        """Whether the network was asked."""
        own = {"images": DRAWN.images, "attributes": DRAWN.attributes} | changes
        sampling = own.pop("sampling", "ddim uniform 2")
        plan = model.plan(["smiling"], Guidance.parse(setting), sampling=sampling)
        asked = Question("", plan, lambda: model.act(own["attributes"], {}))
        with counted_rows(model) as rows:
            parts = AnswerLoop(model, questions=[asked], about=about, store=Store(tmp_path), **own)
            for block in parts:
                block.abduction(plan)
        return bool(rows)

    def files() -> int:
        return len(list(tmp_path.rglob("*.safetensors")))

    assert inferred()
    assert not inferred()
    assert inferred(ANCHORED)  # needs the path as well
    assert not inferred(ANCHORED)
    assert not inferred()
    assert files() == 5
    other = {name: 1 - column for name, column in DRAWN.attributes.items()}
    changed = [{"about": "another"}, {"images": -DRAWN.images}, {"attributes": other}]
    changed += [{"sampling": s} for s in ("ddim uniform 3", "fixed-point:2 uniform 2")]
    for number, changes in enumerate(changed):
        assert inferred(**changes)
        assert not inferred(**changes)
        assert files() == 5 * (2 + number)
    assert not inferred(DRAWN_NOISE)  # is drawn, not inferred
    assert files() == 30


def test_broken_entries_count_as_missing(model: CounterfactualPipeline, tmp_path: Path) -> None:
    asked, store = question(model, PLAIN), Store(tmp_path)
    (whole,) = answered(model, asked, store=store)
    files = sorted(tmp_path.rglob("*.safetensors"))
    strange = {"x": torch.zeros(1, 3, 4, 4), "evaluations": torch.tensor([2])}
    others = [to_bytes(entry) for entry in ({"pixels": torch.zeros(3)}, strange)]
    for content in (files[0].read_bytes()[:-5], b"", struct.pack("<Q", 2**60), *others):
        for broken in (files[:1], files):
            for file in broken:
                file.write_bytes(content)
            (again,) = answered(model, asked, store=store)
            assert torch.equal(again.pair.images, whole.pair.images)
            assert sorted(tmp_path.rglob("*.safetensors")) == files
    with counted_rows(model) as rows:
        list(answered(model, asked, store=store))
    assert sum(rows) == len(DRAWN.images) * 2 * asked.plan.rows


def test_a_memory_serves_later_loops_with_the_factual_branch(model) -> None:
    asked, memory = question(model, ANCHORED), Memory(10**6)
    (first,) = answered(model, asked, memory=memory)
    with counted_rows(model) as rows:
        (second,) = answered(model, asked, memory=memory)
    assert sum(rows) == len(DRAWN.images) * 2 * asked.plan.rows
    assert torch.equal(first.pair.images, second.pair.images)
    assert memory.size > first.pair.abduction.path.states.nbytes
    with counted_rows(model) as rows:
        list(answered(model, asked, memory=memory, about="another model"))
    assert sum(rows) > len(DRAWN.images) * 2 * asked.plan.rows


def test_a_store_gives_back_what_was_put(tmp_path: Path) -> None:
    store = Store(tmp_path / "new")
    view = torch.arange(6.0).view(2, 3).T[1:2]
    entry = {"a": view, "b": torch.tensor([1, 2]), "c": torch.tensor([float("nan")]).double()}
    store.put(entry, "key", {"age": 3.5}, [1])
    found = store.get("key", {"age": 3.5}, [1])
    assert all(torch.equal(found[k].nan_to_num(7), entry[k].nan_to_num(7)) for k in entry)
    assert {k: v.dtype for k, v in found.items()} == {k: v.dtype for k, v in entry.items()}
    for other in (("key", {"age": 3.6}, [1]), ("key", {"age": 3.5}, [1], ""), ("key",)):
        assert store.get(*other) is None
    store.put({"a": torch.zeros(1)}, "key", {"age": 3.5}, [1])
    assert store.get("key", {"age": 3.5}, [1]) == {"a": torch.zeros(1)}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), max_size=30))
def test_a_memory_never_exceeds_its_bytes_and_keeps_what_was_used_last(puts) -> None:
    memory, most = Memory(most_bytes=50), 50
    order: list[tuple[int, int]] = []  # an independent model: key and size, oldest first
    for key, size in puts:
        order = [pair for pair in order if pair[0] != key] + [(key, size)]
        while sum(size for _, size in order) > most:
            order.pop(0)
        memory.put(key, np.zeros(size, dtype=np.uint8))
        assert memory.size == sum(size for _, size in order) <= most
        assert len(memory) == len(order)
    for key, size in order:
        assert memory.get(key).nbytes == size
    memory.put("large", np.zeros(51, dtype=np.uint8))
    assert (memory.get("large"), memory.size, len(memory)) == (None, 0, 0)


def test_sizes_count_all_that_is_held(model: CounterfactualPipeline) -> None:
    events = [{"type": "answer", "image": "x" * 1000}, None, 3.0]
    assert size_of(events) == 2 * (6 + 1000)
    table = model.space.parse(DRAWN.attributes)
    abduction = model.abduct(DRAWN.images, table, sampling="ddim uniform 2", any_size=True)
    inferred = sum(value.nbytes for value in abduction.inferred.values())
    assert size_of(abduction) >= DRAWN.images.nbytes + inferred - 8 * len(DRAWN.images)
