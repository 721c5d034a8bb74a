"""An experiment on a model: resumable, in any number of shards.

The noise behind a block of images is inferred once; then every question is answered and measured,
and its rows are appended to the result file. Interrupted runs resume where they stopped, with the
same rows. Several processes or machines share a run by its folder, each with its own shard.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from fcfg.datasets import portraits
from fcfg.evaluation.abductions import Abduct, AbductionCache, DirectAbduction
from fcfg.evaluation.experiment import Costs, Experiment, targets_of
from fcfg.evaluation.measurements import (
    THRESHOLD,
    Answer,
    Evaluators,
    Truth,
    real_entries,
    row_entries,
)
from fcfg.evaluation.pictures import PictureFiles
from fcfg.evaluation.provenance import without_folders
from fcfg.evaluation.result_files import Result, ResultFile
from fcfg.evaluation.result_schema import JSON, SCHEMA
from fcfg.evaluation.run_folder import RunFolder
from fcfg.evaluation.subset import Block, Subset, draw_targets
from fcfg.metrics import image_mae
from fcfg.model import Action, AnyModel
from fcfg.pipeline.defaults import DEFAULT_GUIDANCE
from fcfg.sampling import OnStep
from fcfg.support.errors import InputError, check_integer
from fcfg.support.hashing import digest_of
from fcfg.support.images import image_keys
from fcfg.support.outputs import check_folder
from fcfg.support.progress import OnProgress, Progress
from fcfg.support.shards import check_shard, strided_rows
from fcfg.version import __version__

_BLOCK = {"cpu": 32, "cuda": 1024}  # default limit on the images of a block


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An experiment on a model and images.

    Args:
        pipeline: The model, on its device.
        experiment: Questions to ask.
        subset: Images to ask them of.
        evaluators: Networks to measure with.
        out: Folder of the run.
    """

    pipeline: AnyModel
    experiment: Experiment
    subset: Subset
    evaluators: Evaluators
    out: Path
    model: str = ""  #: name of the model in reports
    provenance: JSON | None = None  #: command, commit, environment
    shard: tuple[int, int] = (0, 1)  #: number of the shard, and how many there are
    batch_size: int = 256  #: largest number of network rows per call
    block: int | None = None  #: largest number of images that are finished together
    cache: Path | None = None  #: folder that keeps abductions
    pictures: int = 8  #: number of images to keep pictures of

    def __post_init__(self) -> None:
        """Refuse settings that would fail after hours."""
        for folder in (self.out, self.cache or self.out):
            check_folder(folder)
        check_shard(self.shard, len(self.subset))
        rows = max(self.costs.rows(*question) for question in self.experiment.questions)
        check_integer("batch size", self.batch_size, rows, 10**9, do="raise it")

    @cached_property
    def costs(self) -> Costs:
        """Network rows of every question."""
        return Costs(self.experiment, self.pipeline)

    @cached_property
    def digest(self) -> str:
        """Digest of the model."""
        return digest_of(self.pipeline.image_model, self.pipeline.scm)

    @cached_property
    def abductions(self) -> Abduct:
        """What images have beside their attributes: noise from the cache, or inferred."""
        if not self.pipeline.traits.steps:
            return DirectAbduction(self.pipeline, self.batch_size)
        return AbductionCache(
            self.pipeline,
            f"{self.digest} {(self.provenance or {}).get('environment')}",
            self.experiment.sampling,
            folder=self.cache,
            batch_size=self.batch_size,
            keep_path=self.experiment.is_anchored,
        )

    @property
    def folder(self) -> RunFolder:
        """The files of the run."""
        return RunFolder(self.out, self.shard)

    @property
    def rows(self) -> list[int]:
        """Numbers of the images of this shard."""
        return list(strided_rows(len(self.subset), self.shard))

    @property
    def block_size(self) -> int:
        """Images that are finished together in a new run; blocks have about equal size."""
        limit = self.block or _BLOCK.get(self.pipeline.device.type, 32)
        count = len(self.rows)
        return math.ceil(count / math.ceil(count / limit))

    @property
    def header(self) -> JSON:
        """The first line of a result file."""
        pipeline, experiment = self.pipeline, self.experiment
        return {
            "kind": "run",
            "schema": SCHEMA,
            "experiment": experiment.name,
            "title": experiment.title,
            "model": {
                "name": self.model,
                "kind": pipeline.kind,
                "digest": self.digest,
                "provenance": without_folders(pipeline.provenance),
                "parameters": pipeline.parameters,
                "defaults": {
                    do: repr(pipeline.plan(targets_of(do)).setting) for do in experiment.do
                },
            },
            "data": self.subset.about,
            "images": list(self.subset.names),
            "attributes": pipeline.space.to_config(),
            "graph": {node: list(p) for node, p in pipeline.graph.parents.items()},
            "questions": [list(question) for question in experiment.questions],
            "steps": experiment.steps,
            "solver": repr(experiment.sampling.solver),
            "grid": experiment.grid,
            **({"drawn_sampling": drawn} if (drawn := experiment.drawn_sampling) else {}),
            "seed": experiment.seed,
            "continuous": experiment.continuous,
            "reverse": experiment.reverse,
            **({"cycles": experiment.cycles} if experiment.cycles > 1 else {}),
            "threshold": THRESHOLD if self.subset.drawn is not None else None,
            "metrics": self.evaluators.about,
            "shard": list(self.shard),
            "block": self.block_size,
            "version": __version__,
            **(self.provenance or {"command": "", "commit": None, "environment": {}}),
        }

    def is_finished(self) -> bool:
        """Return whether the folder holds all rows; refuse one that holds another run."""
        return self.folder.is_finished(self.header)

    def discard(self) -> None:
        """Remove a run of this experiment and model from the folder, and no other files."""
        self.folder.discard(self.header)

    def run(self, on_progress: OnProgress | None = None) -> Result:
        """Answer the open questions of this shard; return all results in the folder.

        Args:
            on_progress: Callback invoked after every step with the share of the work that is done.
        """
        with self.folder.writing(self.header) as (file, lines):
            _Runner(self, file, lines, on_progress).run()
            return self.folder.completed(file)


class _Runner:
    """Answers questions block by block, and writes the rows.

    Args:
        evaluation: The run.
        file: Result file of the shard.
        lines: Lines of the file, the header first.
        on_progress: Callback invoked after every step with the share of the work that is done.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        file: ResultFile,
        lines: Sequence[JSON],
        on_progress: OnProgress | None,
    ) -> None:
        self.evaluation, self.file = evaluation, file
        self.pipeline, self.experiment = evaluation.pipeline, evaluation.experiment
        self.subset, self.evaluators = evaluation.subset, evaluation.evaluators
        self.features, self.costs = evaluation.folder.features, evaluation.costs
        header, *entries = lines
        size, rows = header["block"], evaluation.rows
        self.blocks = [rows[start : start + size] for start in range(0, len(rows), size)]
        # The first shard keeps pictures of the first images of its first block.
        count = min(evaluation.pictures, size) if evaluation.shard[0] == 0 else 0
        self.pictured = self.subset.block(rows[:count])
        self.pictures = PictureFiles(evaluation.out, self.pictured.names)
        self.read = {entry["image"] for entry in entries if entry["kind"] == "real"}
        self.done = {
            (entry["do"], entry["guidance"], entry["image"])
            for entry in entries
            if entry["kind"] == "row"
        }
        self.keys = image_keys(self.subset.images)
        self.interventions: dict[str, tuple[Action, Truth | None]] = {}
        pending = self._pending(self.subset.block(self.blocks[0]))
        self.without_pictures = [
            (do, guidance)
            for do, guidance in self.experiment.questions
            if do and count and (do, guidance) not in pending
            if self.pictures.lack("rows", do=do, guidance=guidance)
        ]
        images = len(rows) + count * bool(self.without_pictures)
        self.cost = self._cost(self.experiment.questions)
        self.progress = Progress(images * self.cost, on_progress)

    def run(self) -> None:
        """Answer the open questions, and make missing pictures again."""
        for rows in self.blocks:
            self._run_block(self.subset.block(rows))
        if self.pictured.rows:
            self._remake_pictures()

    def _pending(self, block: Block) -> list[tuple[str, str]]:
        """Return questions that a block has no answers to, or whose features are broken."""
        return [
            question
            for question in self.experiment.questions
            if any((*question, name) not in self.done for name in block.names)
            or self.features.is_broken(question, block.names)
        ]

    def _run_block(self, block: Block) -> None:
        if not self.read.issuperset(block.names) or self.features.is_broken((), block.names):
            self._measure_real(block)
        pending = self._pending(block)
        self.progress.advance(len(block.rows) * (self.cost - self._cost(pending)))
        if not pending:
            return
        abduction = self._abduct(block)
        for question in pending:
            self._measure_answer(question, block, self._answer(question, block, abduction))

    def _measure_real(self, block: Block) -> None:
        count = len(self.subset)
        others = self.subset.images[[(row + count // 2) % count for row in block.rows]]
        unrelated = image_mae(block.images, others).tolist() if count > 1 else [None]
        reading = self.evaluators.read(block.images)
        features = self.evaluators.features(block.images, reading)
        self.features.write((), block.names, features)
        if self._is_pictured(block):
            self.pictures.factual(block.images)
        entries = real_entries(block, reading, unrelated, self.pipeline.space)
        self.file.append(entry for entry in entries if entry["image"] not in self.read)

    def _measure_answer(self, question: tuple[str, str], block: Block, answer: Answer) -> None:
        do, guidance = question
        evaluators, (_, truth) = self.evaluators, self._intervention(do)
        reading = evaluators.read(answer.images)
        self.features.write(question, block.names, evaluators.features(answer.images, reading))
        if do and self._is_pictured(block):
            self.pictures.answer(do, guidance, answer.images, answer.reversed_images)
        space = self.pipeline.space
        entries = row_entries(question, block, answer, reading, truth, evaluators, space)
        self.file.append(e for e in entries if (*question, e["image"]) not in self.done)

    def _is_pictured(self, block: Block) -> bool:
        names = self.pictured.names
        return block.names[: len(names)] == names != ()

    def _remake_pictures(self) -> None:
        """Make pictures again that were removed from a finished block."""
        block = self.pictured
        if self.pictures.lack("factual"):
            self.pictures.factual(block.images)
        for do in self.experiment.do if self.subset.drawn is not None else ():
            if self.pictures.lack("truth", do=do):
                self._intervention(do)  # writes its pictures
        if not self.without_pictures:
            return
        self.progress.advance(len(block.rows) * (self.cost - self._cost(self.without_pictures)))
        abduction = self._abduct(block)
        for question in self.without_pictures:
            answer = self._answer(question, block, abduction)
            self.pictures.answer(*question, answer.images, answer.reversed_images)

    def _cost(self, questions: Sequence[tuple[str, str]]) -> int:
        """Return the network rows of one abduction and the answers to some questions."""
        return bool(questions) + sum(self.costs.total(*question) for question in questions)

    @contextmanager
    def _phase(self, block: Block, *, up: int = 0, down: int = 0) -> Generator[OnStep]:
        """Give a callback for steps with ``up`` rows toward noise, then ``down`` toward images."""
        up, down = up * len(block.rows), down * len(block.rows)
        ascending, descending = self.progress.phase(up), self.progress.phase(down, after=up)
        yield lambda step: (ascending if step.ascending else descending)(step)
        self.progress.advance(up + down)

    def _abduct(self, block: Block) -> Any:
        given = (block.images, block.attributes)
        with self._phase(block, up=1) as on_step:
            abduction = self.evaluation.abductions(*given, on_step)
        if sampling := self.experiment.drawn_sampling:
            plan = self.pipeline.plan((), DEFAULT_GUIDANCE, sampling=sampling)
            drawn = self.pipeline.abduct(*given, plan=plan)
            abduction.with_drawn_noise.append(drawn)
        return abduction

    def _answer(self, question: tuple[str, str], block: Block, abduction: Any) -> Answer:
        do, guidance = question
        action, _ = self._intervention(do)
        attributes = {name: column[block.rows] for name, column in action.attributes.items()}
        action = replace(action, attributes=attributes)
        batch_size, cost = self.evaluation.batch_size, self.costs.rows(do, guidance)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "counterfactual: NaN")  # refused below
            start = time.perf_counter()
            with self._phase(block, down=cost) as on_step:
                pair = self.pipeline.predict(
                    abduction,
                    action,
                    self.pipeline.parse_setting(guidance),
                    batch_size=batch_size,
                    on_step=on_step,
                )
            seconds = (time.perf_counter() - start) / len(block.rows)
            _check_finite(pair.images, f"do({do}) under {guidance}", block.names)
            back = pair
            for _ in range(self.experiment.returns(do)):
                with self._phase(block, up=1, down=cost) as on_step:
                    back = self.pipeline.reverse(back, batch_size=batch_size, on_step=on_step)
                subject = f"the {'reversal' if do else 'repetition'} of do({do}) under {guidance}"
                _check_finite(back.images, subject, block.names)
        reversed_images = None if back is pair else back.images.float()
        return Answer(pair, pair.images.float(), reversed_images, seconds)

    def _intervention(self, do: str) -> tuple[Action, Truth | None]:
        """Intervene on all images; keep pictures of the truth, if it is known."""
        if do in self.interventions:
            return self.interventions[do]
        subset, seed = self.subset, self.experiment.seed
        targets = draw_targets(
            self.pipeline.space,
            subset.attributes,
            targets_of(do),
            subset.names,
            seed,
            self.experiment.continuous,
        )
        action = self.pipeline.act(subset.attributes, targets, seed=seed, keys=self.keys)
        truth = None
        if subset.drawn is not None and do:
            drawings = portraits.counterfactual(subset.drawn, targets)
            truth = Truth(drawings, self.evaluators.read(drawings.images))
            if self.pictured.rows:
                self.pictures.truth(do, drawings.images[self.pictured.rows])
        self.interventions[do] = action, truth
        return action, truth


def _check_finite(images: Tensor, subject: str, names: Sequence[str]) -> None:
    broken = (~images.isfinite()).flatten(1).any(dim=1).nonzero().flatten().tolist()
    if broken:
        raise InputError(
            subject,
            expected="images of finite numbers",
            got=f"others for {len(broken)} of {len(names)}, such as {names[broken[0]]}",
            do="lower the weights or take more steps; finished rows are kept",
        )
