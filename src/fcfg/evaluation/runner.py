"""Answering the questions of an experiment, block by block of its images.

The noise behind a block is inferred once; then every question is answered, measured, and its rows
are appended to the result file. What was written when a run is stopped stays.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from fcfg.causal.attributes import Table
from fcfg.datasets import portraits
from fcfg.datasets.portraits import Portraits
from fcfg.evaluation.abductions import AbductionCache
from fcfg.evaluation.distances import FeatureFiles
from fcfg.evaluation.evaluators import Instruments, readings, values
from fcfg.evaluation.experiment import Experiment
from fcfg.evaluation.pictures import PictureFiles
from fcfg.evaluation.progress import Costs, OnProgress, Work, targets_of
from fcfg.evaluation.result_files import JSON, ResultFile
from fcfg.evaluation.subset import Subset, draw_targets
from fcfg.guidance import Guidance
from fcfg.judge import Reading
from fcfg.metrics import image_errors, image_mae
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.records import Abduction, Action, Counterfactual
from fcfg.sampling import StepRecord
from fcfg.support.errors import InputError
from fcfg.support.images import image_keys
from fcfg.support.shards import strided_rows

THRESHOLD = 0.05  # a pixel truly changes where truth and factual image differ by more


@dataclass(frozen=True, eq=False)
class Plan:
    """What is asked, of which images, of which model, and what it is measured with."""

    pipeline: CounterfactualPipeline
    experiment: Experiment
    subset: Subset
    instruments: Instruments
    abductions: AbductionCache
    costs: Costs
    out: Path
    shard: tuple[int, int]
    batch_size: int
    shown: int  #: images of which pictures are kept


@dataclass(frozen=True, eq=False)
class _Question:
    """An intervention on all images, with its true answer where that is known."""

    action: Action
    truth: Portraits | None
    reading: Reading | None


class Answers:
    """Answers questions block by block, and writes what it measures.

    Args:
        plan: What is asked, of what, with what.
        file: Where rows go.
        entries: What it holds already.
        block: Images that are finished together.
        on_progress: Told which share of the work is done, after every step.
    """

    def __init__(
        self,
        plan: Plan,
        file: ResultFile,
        entries: Sequence[JSON],
        block: int,
        on_progress: OnProgress | None,
    ) -> None:
        self.plan, self.file, self.block = plan, file, block
        self.pipeline, self.subset = plan.pipeline, plan.subset
        self.space, self.judge = self.pipeline.space, plan.instruments.judge
        self.features = FeatureFiles(plan.out)
        self.mine = list(strided_rows(len(self.subset), plan.shard))
        # Pictures are kept of the first images of the first block, by whoever works on it.
        self.shown = self.mine[: min(plan.shown, block)] if plan.shard[0] == 0 else []
        names = tuple(self.subset.names[row] for row in self.shown)
        self.pictures = PictureFiles(plan.out, names)
        self.read = {entry["image"] for entry in entries if entry["kind"] == "real"}
        self.done = {
            (entry["do"], entry["guidance"], entry["image"])
            for entry in entries
            if entry["kind"] == "row"
        }
        self.keys = image_keys(self.subset.images)
        self.questions: dict[str, _Question] = {}
        self.costs = plan.costs
        first = self._pending([self.subset.names[row] for row in self.mine[: self.block]])
        self.lacking = [
            (do, guidance)
            for do, guidance in plan.experiment.questions
            if do and self.shown and (do, guidance) not in first
            if self.pictures.lack("rows", do=do, guidance=guidance)
        ]
        count = len(self.mine) + len(self.shown) * bool(self.lacking)
        self.work = Work(self.costs, plan.experiment.questions, count, on_progress)

    def run(self) -> None:
        """Answer what is not answered yet, and show what is not shown."""
        for first in range(0, len(self.mine), self.block):
            self._block(self.mine[first : first + self.block])
        if self.shown:
            self._show()

    def _pending(self, names: list[str]) -> list[tuple[str, str]]:
        """Questions that are to be answered for a block of images, or whose features are lost."""
        return [
            (do, guidance)
            for do, guidance in self.plan.experiment.questions
            if any((do, guidance, name) not in self.done for name in names)
            or self.features.is_broken((do, guidance), names)
        ]

    def _show(self) -> None:
        """Make pictures again that were removed since."""
        rows, subset = self.shown, self.subset
        images, attributes = subset.images[rows], _rows(subset.attributes, rows)
        if self.pictures.lack("factual"):
            self.pictures.factual(images)
        for do in self.plan.experiment.do if subset.drawn is not None else ():
            if self.pictures.lack("truth", do=do):
                self._question(do)  # which shows it
        if not self.lacking:
            return
        self.work.begin_block(len(rows), self.lacking)
        names = [subset.names[row] for row in rows]
        abduction = self.plan.abductions(images, attributes, self.work.phase(1))
        self.work.advance(1)
        for do, guidance in self.lacking:
            pair, back, _ = self._predict(do, Guidance.parse(guidance), abduction, rows, names)
            self.pictures.answer(
                do, guidance, pair.images.float(), None if back is None else back.float()
            )

    def _block(self, rows: list[int]) -> None:
        subset, names = self.subset, [self.subset.names[row] for row in rows]
        images, attributes = subset.images[rows], _rows(subset.attributes, rows)
        if not self.read.issuperset(names) or self.features.is_broken((), names):
            self._real(rows, attributes, names)
        pending = self._pending(names)
        self.work.begin_block(len(rows), pending)
        if not pending:
            return
        abduction = self.plan.abductions(images, attributes, self.work.phase(1))
        self.work.advance(1)
        for do, guidance in pending:
            self._answer(do, Guidance.parse(guidance), images, abduction, rows, names)

    def _real(self, rows: list[int], attributes: Table, names: list[str]) -> None:
        images, count = self.subset.images[rows], len(self.subset)
        others = self.subset.images[[(row + count // 2) % count for row in rows]]
        apart = image_mae(images, others).tolist() if count > 1 else [None]
        reading = self.judge.read(images)
        self.features.write((), names, self.plan.instruments.features(images, reading))
        if self._are_shown(names):
            self.pictures.factual(images)
        seen = zip(
            names,
            values(attributes, self.space),
            readings(reading, self.space),
            apart,
            strict=True,
        )
        self.file.append(
            {"kind": "real", "image": name, "attributes": table, **scores, "unrelated": distance}
            for name, table, scores, distance in seen
            if name not in self.read
        )

    def _answer(
        self,
        do: str,
        guidance: Guidance,
        images: Tensor,
        abduction: Abduction,
        rows: list[int],
        names: list[str],
    ) -> None:
        pair, back, seconds = self._predict(do, guidance, abduction, rows, names)
        entries = self._entries(do, guidance, images, pair, back, seconds, rows, names)
        self.file.append(
            entry for entry in entries if (do, entry["guidance"], entry["image"]) not in self.done
        )

    def _predict(
        self, do: str, guidance: Guidance, abduction: Abduction, rows: list[int], names: list[str]
    ) -> tuple[Counterfactual, Tensor | None, float]:
        """The answer, the way back where it is gone, and the seconds that one image took."""
        plan, question = self.plan, self._question(do)
        action = replace(question.action, attributes=_rows(question.action.attributes, rows))
        cost = self.costs.rows(do, repr(guidance))
        back = None
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "counterfactual: NaN")  # which is refused below
            start = time.perf_counter()
            pair = self.pipeline.predict(
                abduction,
                action,
                guidance,
                batch_size=plan.batch_size,
                on_step=self.work.phase(cost),
            )
            seconds = (time.perf_counter() - start) / len(names)
            self.work.advance(cost)
            _check_finite(pair.images, f"do({do}) under {guidance}", names)
            if do and plan.experiment.reverse:
                back = self._reverse(pair, cost)
                _check_finite(back, f"the way back from do({do}) under {guidance}", names)
        return pair, back, seconds

    def _reverse(self, pair: Counterfactual, cost: int) -> Tensor:
        there, back = self.work.phase(1), self.work.phase(cost, after=1)

        def on_step(step: StepRecord) -> None:
            (there if step.ascending else back)(step)

        size = self.plan.batch_size
        reversed_pair = self.pipeline.reverse(pair, batch_size=size, on_step=on_step)
        self.work.advance(1 + cost)
        return reversed_pair.images

    def _entries(
        self,
        do: str,
        guidance: Guidance,
        images: Tensor,
        pair: Counterfactual,
        back: Tensor | None,
        seconds: float,
        rows: list[int],
        names: list[str],
    ) -> Iterator[JSON]:
        instruments = self.plan.instruments
        made = pair.images.float()
        reading = self.judge.read(made)
        self.features.write((do, repr(guidance)), names, instruments.features(made, reading))
        if do and self._are_shown(names):
            self.pictures.answer(do, repr(guidance), made, back)
        count = len(names)
        columns = zip(
            names,
            values(pair.attributes, self.space),
            readings(reading, self.space),
            instruments.distances(made, images),
            [None] * count if back is None else instruments.distances(back.float(), images),
            [None] * count if not do else self._truth(do, made, images, rows),
            pair.trajectory.spent,
            strict=True,
        )
        for name, target, scores, change, reversal, truth, spent in columns:
            yield {
                "kind": "row",
                "do": do,
                "guidance": repr(guidance),
                "image": name,
                "target": target,
                **scores,
                "change": change,
                "reversal": reversal,
                "truth": truth,
                "evaluations": spent,
                "seconds": round(seconds, 4),
            }

    def _truth(
        self, do: str, made: Tensor, images: Tensor, rows: list[int]
    ) -> list[JSON] | list[None]:
        question = self._question(do)
        if question.truth is None or question.reading is None:
            return [None] * len(rows)
        true = question.truth
        errors = image_errors(made, true.images[rows], images, threshold=THRESHOLD)
        factors = {name: column[rows] for name, column in question.reading.factors.items()}
        return [
            {
                "mae": float(errors.mae[i]),
                "missed": float(errors.missed[i]),
                "changed": float(errors.changed[i]),
                "factors": {name: float(column[i]) for name, column in factors.items()},
                "target": target,
            }
            for i, target in enumerate(values(_rows(true.attributes, rows), self.space))
        ]

    def _question(self, do: str) -> _Question:
        if do not in self.questions:
            self.questions[do] = self._asked(do)
        return self.questions[do]

    def _asked(self, do: str) -> _Question:
        subset, experiment = self.subset, self.plan.experiment
        seed, targets = experiment.seed, targets_of(do)
        wanted = draw_targets(
            self.space, subset.attributes, targets, subset.names, seed, experiment.continuous
        )
        action = self.pipeline.act(subset.attributes, wanted, seed=seed, keys=self.keys)
        if subset.drawn is None or not do:
            return _Question(action, None, None)
        truth = portraits.counterfactual(subset.drawn, wanted)
        if self.shown:
            self.pictures.truth(do, truth.images[self.shown])
        return _Question(action, truth, self.judge.read(truth.images))

    def _are_shown(self, names: list[str]) -> bool:
        return tuple(names[: len(self.shown)]) == self.pictures.names != ()


def _check_finite(images: Tensor, what: str, names: list[str]) -> None:
    broken = (~images.isfinite()).flatten(1).any(dim=1).nonzero().flatten().tolist()
    if broken:
        raise InputError(
            what,
            expected="images of finite numbers",
            got=f"others for {len(broken)} of {len(names)}, such as {names[broken[0]]}",
            do="lower the weights or take more steps; what is finished is kept",
        )


def _rows(table: Table, rows: list[int]) -> Table:
    return {name: column[rows] for name, column in table.items()}
