"""An experiment on a model: resumable, in any number of shards.

The noise behind a block of images is inferred once; then every question is answered and measured,
and its rows are appended to the result file. Interrupted runs resume where they stopped, with the
same rows. Several processes or machines share a run by its folder, each with its own shard.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from fcfg.answers import Answer, AnswerLoop, Block, Question, Store, in_blocks
from fcfg.datasets import portraits
from fcfg.evaluation.experiment import Experiment, targets_of
from fcfg.evaluation.measurements import (
    THRESHOLD,
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
from fcfg.evaluation.subset import Subset, draw_targets
from fcfg.metrics import image_mae
from fcfg.model import Action, AnyModel, Plan
from fcfg.sampling import as_sampling
from fcfg.support.errors import check_integer
from fcfg.support.hashing import digest_of
from fcfg.support.images import image_keys
from fcfg.support.outputs import check_folder
from fcfg.support.progress import OnProgress
from fcfg.support.shards import check_shard, strided_rows
from fcfg.version import __version__

_BLOCK = {"cpu": 32, "cuda": 1024}  # default limit on the images of a block


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An experiment on a model and images."""

    pipeline: AnyModel  #: on its device
    experiment: Experiment  #: questions to ask
    subset: Subset  #: images to ask them of
    evaluators: Evaluators  #: networks to measure with
    out: Path  #: folder of the run
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
        rows = max(plan.rows for plan in self.plans.values())
        check_integer("batch size", self.batch_size, rows, 10**9, do="raise it")

    @cached_property
    def plans(self) -> dict[tuple[str, str], Plan[Any]]:
        """How every question is answered."""
        return self.experiment.plans(self.pipeline)

    @cached_property
    def digest(self) -> str:
        """Digest of the model."""
        return digest_of(self.pipeline.image_model, self.pipeline.scm)

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
        sampling = as_sampling(experiment.sampling)
        return {
            "kind": "run",
            "schema": SCHEMA,
            "experiment": experiment.name,
            "title": experiment.title,
            "model": {
                "name": self.model,
                "kind": pipeline.kind,
                "traits": {n: v for n, v in asdict(pipeline.traits).items() if n != "compared"},
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
            "steps": sampling.steps,
            "solver": repr(sampling.solver),
            "grid": sampling.grid,
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
            _Runner(self, file, lines).run(on_progress)
            return self.folder.completed(file)


class _Runner:
    """Answers questions block by block, and writes the rows."""

    def __init__(self, evaluation: Evaluation, file: ResultFile, lines: Sequence[JSON]) -> None:
        self.evaluation, self.file = evaluation, file
        self.pipeline, self.experiment = evaluation.pipeline, evaluation.experiment
        self.subset, self.evaluators = evaluation.subset, evaluation.evaluators
        self.features, self.keys = evaluation.folder.features, image_keys(evaluation.subset.images)
        header, *entries = lines
        self.blocks = in_blocks(evaluation.rows, header["block"])
        # The first shard keeps pictures of the first images of its first block.
        count = min(evaluation.pictures, header["block"]) if evaluation.shard[0] == 0 else 0
        self.pictured = evaluation.rows[:count]
        names = tuple(self.subset.names[row] for row in self.pictured)
        self.pictures = PictureFiles(evaluation.out, names)
        self.read = {entry["image"] for entry in entries if entry["kind"] == "real"}
        self.done = {
            (entry["do"], entry["guidance"], entry["image"])
            for entry in entries
            if entry["kind"] == "row"
        }
        self.interventions: dict[str, tuple[Action, Truth | None]] = {}

    def run(self, on_progress: OnProgress | None) -> None:
        """Answer the open questions, and make missing pictures again."""
        evaluation, about = self.evaluation, (self.evaluation.provenance or {}).get("environment")
        questions = {
            (do, guidance): Question(
                f"do({do}) under {guidance}",
                plan,
                partial(self._action, do),
                self.experiment.returns(do),
                key=(do, guidance),
            )
            for (do, guidance), plan in evaluation.plans.items()
        }
        # Pictures that were removed from finished images are made again, after all blocks.
        unseen = self._without_pictures() if self.pictured else []
        loop = AnswerLoop(
            self.pipeline,
            self.subset.images,
            self.subset.attributes,
            list(questions.values()),
            keys=self.keys,
            names=self.subset.names,
            blocks=[*self.blocks, *([self.pictured] if unseen else [])],
            batch_size=evaluation.batch_size,
            about=f"{evaluation.digest} {about}",
            store=None if evaluation.cache is None else Store(evaluation.cache),
            strict=True,
            on_progress=on_progress,
        )
        for block in loop:
            is_whole = block.number < len(self.blocks)
            if is_whole:
                self._measure_real(block)
            pending = self._pending(block) if is_whole else unseen
            for answer in block.answers([questions[question] for question in pending]):
                if is_whole:
                    self._measure_answer(block, answer)
                else:
                    self._keep_pictures(answer)
        if self.pictured:
            self._remake_drawings()

    def _pending(self, block: Block) -> list[tuple[str, str]]:
        """Return questions that a block has no answers to, or whose features are broken."""
        return [
            question
            for question in self.experiment.questions
            if any((*question, name) not in self.done for name in block.names)
            or self.features.is_broken(question, block)
        ]

    def _without_pictures(self) -> list[tuple[str, str]]:
        """Return questions that were answered, but lack pictures."""
        return [
            (do, guidance)
            for do, guidance in self.experiment.questions
            if do and all((do, guidance, name) in self.done for name in self.pictures.names)
            if self.pictures.lack("rows", do=do, guidance=guidance)
        ]

    def _measure_real(self, block: Block) -> None:
        if self.read.issuperset(block.names) and not self.features.is_broken((), block):
            return
        count = len(self.subset)
        others = self.subset.images[[(row + count // 2) % count for row in block.rows]]
        unrelated = image_mae(block.images, others).tolist() if count > 1 else [None]
        reading = self.evaluators.read(block.images)
        self.features.write((), block, self.evaluators.features(block.images, reading))
        if self._is_pictured(block):
            self.pictures.factual(block.images)
        entries = real_entries(block, reading, unrelated, self.pipeline.space)
        self.file.append(entry for entry in entries if entry["image"] not in self.read)

    def _measure_answer(self, block: Block, answer: Answer) -> None:
        question, images = answer.question.key, answer.pair.images.float()
        evaluators, (_, truth) = self.evaluators, self._intervention(question[0])
        reading = evaluators.read(images)
        self.features.write(question, block, evaluators.features(images, reading))
        if question[0] and self._is_pictured(block):
            self._keep_pictures(answer)
        entries = row_entries(block, answer, reading, truth, evaluators, self.pipeline.space)
        self.file.append(e for e in entries if (*question, e["image"]) not in self.done)

    def _is_pictured(self, block: Block) -> bool:
        return block.rows[: len(self.pictured)] == self.pictured != []

    def _keep_pictures(self, answer: Answer) -> None:
        back = None if answer.back is None else answer.back.images.float()
        do, guidance = answer.question.key
        self.pictures.answer(do, guidance, answer.pair.images.float(), back)

    def _remake_drawings(self) -> None:
        """Draw factual images and true counterfactuals again that were removed."""
        if self.pictures.lack("factual"):
            self.pictures.factual(self.subset.images[self.pictured])
        for do in self.experiment.do if self.subset.drawn is not None else ():
            if self.pictures.lack("truth", do=do):
                self._intervention(do)  # writes its pictures

    def _action(self, do: str) -> Action:
        return self._intervention(do)[0]

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
            if self.pictured:
                self.pictures.truth(do, drawings.images[self.pictured])
        self.interventions[do] = action, truth
        return action, truth
