"""The loop over images and questions: abduct, act, predict, reverse.

The images come in blocks. What is behind those of a block is inferred once for all questions whose
plans share it. The caller says which questions of a block are open, takes their answers, and keeps
what it needs; so an interrupted run resumes by leaving out what it has:

.. code-block:: python

    loop = AnswerLoop(model, images, attributes, questions, blocks=in_blocks(range(1000), 32))
    for block in loop:
        for answer in block.answers(q for q in questions if is_open(block, q)):
            write(block.rows, answer.question.name, answer.pair.images)

Each step of the work reports the share of all work that is done; a callback cancels by raising.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from fcfg.answers.store import Memory, Store
from fcfg.causal.attributes import Table
from fcfg.causal.scm import Keys
from fcfg.model import (
    AbstractAbduction,
    AbstractCounterfactual,
    Action,
    AnyModel,
    BackKeys,
    Factual,
    Plan,
    Run,
)
from fcfg.sampling import OnStep, StepRecord
from fcfg.support.errors import InputError
from fcfg.support.hashing import hex_digest
from fcfg.support.images import image_keys
from fcfg.support.progress import OnProgress, Progress

#: Function of the phase, such as 'abduction', of the step, and of the share that is done.
OnPhase: TypeAlias = Callable[[str, StepRecord, float], None]


@dataclass(frozen=True, eq=False)
class Question:
    """An intervention on all images of a loop, and how it is answered."""

    name: str  #: in refusals, such as 'do(male) under cfg:2.0'
    plan: Plan[Any]
    act: Callable[[], Action]
    """Returns the counterfactual attributes of all images; called for every block."""
    returns: int = 0  #: how often an answer goes back, each time from where it was
    fresh: bool = False  #: whether it goes back a second time, with noise drawn anew
    extra: int = 0  #: network rows of the caller's own work on one answer, see `Block.phase`
    key: Any = None  #: what the caller knows it by

    @property
    def rows(self) -> int:
        """Network rows of one image, without the first abduction."""
        plan = self.plan
        ways = self.returns * (1 + self.fresh)
        return plan.rows + ways * (plan.abduction_rows + plan.rows) + self.extra


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer to a question about the images of a block."""

    question: Question
    pair: Any  #: the counterfactual of the model, an `AbstractCounterfactual`
    back: Any  #: None, or that after the last way back, if there was one
    seconds: float  #: time of the prediction per image
    fresh: Any = None  #: None, or that after the last way back with noise drawn anew


@dataclass(frozen=True, eq=False)
class AnswerLoop:
    """Asks one model the same questions about many images, block by block."""

    model: AnyModel  #: on its device
    images: Float[Tensor, "image channel *size"]  #: checked and of the model's size
    attributes: Table  #: factual
    questions: Sequence[Question]  #: all of them; a block may be asked some
    _: KW_ONLY
    keys: Keys | None = None  #: of each image, for its random numbers; digests of its pixels
    names: Sequence[str] | None = None  #: of each image, for refusals; its number by default
    blocks: Sequence[Sequence[int]] | None = None  #: rows of each; by default, one has all
    batch_size: int = 256  #: largest number of network rows per call
    about: str = ""
    """Everything else that abductions depend on, such as the digest of the model; needed with a
    store or a memory that other loops use, too."""
    store: Store | None = None  #: of abductions, on disk
    memory: Memory | None = None  #: of abductions, which are forgotten after their block without
    strict: bool = False  #: whether to refuse answers that are not finite
    on_progress: OnProgress | None = None  #: called after every step with the share that is done
    on_step: OnPhase | None = None  #: called after every step with phase, step and share

    @cached_property
    def progress(self) -> Progress:
        """The work that is done."""
        total = sum(map(len, self._rows)) * self.cost(self.questions)
        return Progress(total or 1, self.on_progress)

    @property
    def _rows(self) -> Sequence[Sequence[int]]:
        return [range(len(self.images))] if self.blocks is None else self.blocks

    def __iter__(self) -> Iterator[Block]:
        """Give one block after the other; those that were not asked everything count as done."""
        end, cost = 0, self.cost(self.questions)
        for number, rows in enumerate(self._rows):
            yield Block(self, number, rows)
            end += len(rows) * cost
            self.progress.done = end

    def cost(self, questions: Iterable[Question]) -> int:
        """Return the network rows of one image: its abductions, and some answers."""
        asked = list(questions)
        plans = {self.shared(q.plan).abduction: q.plan.abduction_rows for q in asked}
        return sum(plans.values()) + sum(question.rows for question in asked)

    def shared(self, plan: Plan[Any]) -> Plan[Any]:
        """Return a plan with the abduction that it shares with another question's plan."""
        wider = plan.shared()
        needed = {question.plan.abduction for question in self.questions}
        return wider if wider.abduction in needed else plan


class Block:
    """Some images of a loop, and what was inferred from them."""

    def __init__(self, loop: AnswerLoop, number: int, rows: Sequence[int]) -> None:
        self.number, self.rows, self._loop = number, list(rows), loop
        self.names = [str(row) if loop.names is None else loop.names[row] for row in rows]
        self.images = loop.images[self.rows]
        self.attributes: Table = {n: column[self.rows] for n, column in loop.attributes.items()}
        keys: Any = loop.keys
        self.keys: Keys = image_keys(self.images) if keys is None else [keys[r] for r in rows]
        self._memory = Memory() if loop.memory is None else loop.memory

    def answers(self, questions: Iterable[Question] | None = None) -> Iterator[Answer]:
        """Answer some questions of the loop one by one, or all; those left out count as done."""
        loop = self._loop
        asked = list(loop.questions if questions is None else questions)
        left_out = loop.cost(loop.questions) - loop.cost(asked)
        if left_out:
            loop.progress.advance(len(self.rows) * left_out)
        for question in asked:
            self.abduction(question.plan)
            start = time.perf_counter()
            pair = self.predict(question)
            seconds = (time.perf_counter() - start) / len(self.rows)
            back = self.reverse(question, pair)
            anew = self.reverse(question, pair, fresh=True) if question.fresh else None
            yield Answer(question, pair, back, seconds, anew)

    def abduction(self, plan: Plan[Any]) -> AbstractAbduction:
        """Return what is behind the images: from memory, from the store, or inferred."""
        plan = self._loop.shared(plan)
        known = self._memory.get((self._digest, plan.abduction))
        return self._abduct(plan) if known is None else known

    def predict(self, question: Question) -> AbstractCounterfactual:
        """Return the answer to a question."""
        loop, plan = self._loop, question.plan
        abduction, action = self.abduction(plan), question.act()
        columns = {name: column[self.rows] for name, column in action.attributes.items()}
        with self.phase("prediction", down=plan.rows) as on_step, self._quiet():
            pair = loop.model.predict(
                abduction,
                replace(action, attributes=columns),
                plan,
                batch_size=loop.batch_size,
                on_step=on_step,
            )
        # It holds what was measured for this question, such as an anchor, and serves the next.
        self._remember(loop.shared(plan), pair.abduction)
        self._check(question.name, pair.images)
        return pair

    def reverse(
        self, question: Question, pair: AbstractCounterfactual, *, fresh: bool = False
    ) -> AbstractCounterfactual | None:
        """Go back from an answer as often as the question says; None if it does not.

        Fresh noise has nothing to do with that of the way there, as that of a recipient of the
        answer. It follows from the key of the image, so that rounding does not change it.
        """
        back, plan = pair, question.plan
        for _ in range(question.returns):
            steps = self.phase("reversal", up=plan.abduction_rows, down=plan.rows)
            with steps as on_step, self._quiet():
                model, size = self._loop.model, self._loop.batch_size
                own: BackKeys = [f"fresh {key}" for key in self.keys] if fresh else "same"
                back = model.reverse(back, keys=own, batch_size=size, on_step=on_step)
            self._check(f"the way back of {question.name}", back.images)
        return back if question.returns else None

    @contextmanager
    def phase(self, name: str, *, up: int = 0, down: int = 0) -> Generator[OnStep]:
        """Give a callback for the steps of some work, which is done at the end.

        ``up`` are its network rows of one image toward noise, ``down`` those toward images.
        """
        progress, on_phase = self._loop.progress, self._loop.on_step
        up, down = up * len(self.rows), down * len(self.rows)
        report = progress.both(up, down)

        def on_step(step: StepRecord) -> None:
            report(step)
            if on_phase is not None:
                on_phase(name, step, progress.share)

        yield on_step
        progress.advance(up + down)

    def _abduct(self, plan: Plan[Any]) -> AbstractAbduction:
        loop, factual = self._loop, Factual(self.images, self.attributes, self.keys)
        store = loop.store if plan.kept_as else None
        with self.phase("abduction", up=plan.abduction_rows) as on_step:
            entry = None if store is None else self._stored(store, plan)
            found = None if entry is None else loop.model.restore(factual, plan, entry)
            if found is not None:
                return self._remember(plan, found)
            abduction = loop.model.infer(factual, plan, Run(loop.batch_size, on_step))
        inferred = abduction.inferred
        if loop.strict and not all(bool(value.sum().isfinite()) for value in inferred.values()):
            raise InputError(
                "model",
                expected="a network whose outputs are finite numbers",
                got="NaN or infinity when the noise behind images was inferred",
                do="check its training; more steps, or float32, may help a healthy one",
            )
        if store is not None:
            for row, key in enumerate(self._about):
                entry = {name: value[row : row + 1] for name, value in inferred.items()}
                store.put(entry, *key, plan.kept_as)
        return self._remember(plan, abduction)

    def _remember(self, plan: Plan[Any], abduction: AbstractAbduction) -> AbstractAbduction:
        self._memory.put((self._digest, plan.abduction), abduction)
        return abduction

    def _stored(self, store: Store, plan: Plan[Any]) -> dict[str, Tensor] | None:
        """Return what the store has of all images; None if it lacks some."""
        entries = [store.get(*about, plan.kept_as) for about in self._about]
        whole = [entry for entry in entries if entry is not None]
        if len(whole) < len(entries):
            return None
        names = set[str].intersection(*map(set, whole))
        joined = {name: [entry[name] for entry in whole] for name in names}
        if any(len({value.shape for value in values}) > 1 for values in joined.values()):
            return None
        return {name: torch.cat(values) for name, values in joined.items()}

    @cached_property
    def _about(self) -> list[tuple[Any, ...]]:
        """All that an abduction of each image depends on, beside the plan."""
        columns = {name: column.tolist() for name, column in self.attributes.items()}
        return [
            (self._loop.about, key, {name: column[row] for name, column in columns.items()})
            for row, key in enumerate(self.keys)
        ]

    @cached_property
    def _digest(self) -> str:
        return hex_digest(json.dumps(self._about))

    @contextmanager
    def _quiet(self) -> Generator[None]:
        """Keep a strict loop from warning of what it refuses."""
        with warnings.catch_warnings():
            if self._loop.strict:
                warnings.filterwarnings("ignore", "counterfactual: NaN")
            yield

    def _check(self, subject: str, images: Tensor) -> None:
        broken = (~images.isfinite()).flatten(1).any(dim=1).nonzero().flatten().tolist()
        if self._loop.strict and broken:
            raise InputError(
                subject,
                expected="images of finite numbers",
                got=f"others for {len(broken)} of {len(images)}, such as {self.names[broken[0]]}",
                do="lower the weights or take more steps; finished work is kept",
            )


def in_blocks(rows: Sequence[int], size: int) -> list[Sequence[int]]:
    """Split rows into blocks of a size; the last one may be smaller.

    >>> in_blocks(range(5), 2)
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    return [rows[start : start + size] for start in range(0, len(rows), size)]
