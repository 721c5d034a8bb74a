"""An experiment on a model: resumable, in any number of shards.

The noise behind a block of images is inferred once; then every question is answered and measured,
and its rows are appended to the result file. Interrupted runs resume where they stopped, with the
same rows. Several processes or machines share a run by its folder, each with its own shard.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from fcfg.answers import Answer, AnswerLoop, Block, Question, Store, in_blocks
from fcfg.datasets import portraits
from fcfg.evaluation.experiment import Experiment, draws_noise, targets_of
from fcfg.evaluation.measurements import THRESHOLD, Evaluators, Truth, real_entries, row_entries
from fcfg.evaluation.pictures import PictureFiles
from fcfg.evaluation.provenance import without_folders
from fcfg.evaluation.realism import Features, class_name, has_classes
from fcfg.evaluation.result_files import Result
from fcfg.evaluation.result_schema import JSON, SCHEMA
from fcfg.evaluation.run_folder import RunFolder
from fcfg.evaluation.subset import Subset, draw_targets
from fcfg.generation.results import values_of
from fcfg.metrics import image_mae
from fcfg.model import Action, AnyModel, Plan
from fcfg.sampling import as_sampling
from fcfg.support.errors import check_integer
from fcfg.support.hashing import digest_of
from fcfg.support.images import image_keys, images_from_bytes
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
    cache: Path | None = None  #: folder that keeps abductions for other experiments
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
        return RunFolder(self.out, self.header)

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
        sampling, asked = as_sampling(experiment.sampling), experiment.model_dump(mode="json")
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
            **({} if self.subset.groups is None else {"groups": self.subset.groups}),
            "attributes": pipeline.space.to_config(),
            "graph": {node: list(p) for node, p in pipeline.graph.parents.items()},
            "questions": [list(question) for question in experiment.questions],
            "steps": sampling.steps,
            "solver": repr(sampling.solver),
            "grid": sampling.grid,
            **{key: asked[key] for key in ("methods", "calibrated_by") if asked[key]},
            "seed": experiment.seed,
            "continuous": experiment.continuous,
            "reverse": experiment.reverse,
            **({"cycles": experiment.cycles} if experiment.cycles > 1 else {}),
            "threshold": THRESHOLD if self.subset.drawn is not None else None,
            "metrics": self.evaluators.about,
            "shard": list(self.shard),
            "block": self.block_size,
            "version": __version__,
            **({"command": "", "commit": None, "environment": {}} | (self.provenance or {})),
        }

    def run(self, on_progress: OnProgress | None = None) -> Result:
        """Answer the open questions of this shard; return all results in the folder.

        ``on_progress`` is called after every step with the share of the work that is done.
        """
        folder = self.folder
        with folder.writing() as lines:
            _Runner(self, folder, lines).run(on_progress)
            return folder.completed()


class _Runner:
    """Answers questions block by block, and writes the rows."""

    def __init__(self, evaluation: Evaluation, folder: RunFolder, lines: Sequence[JSON]) -> None:
        self.evaluation, self.folder, self.subset = evaluation, folder, evaluation.subset
        self.keys = image_keys(self.subset.images)
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
        self.intervention = cache(self._intervention)

    def run(self, on_progress: OnProgress | None) -> None:
        """Answer the open questions, and make missing pictures again."""
        evaluation, about = self.evaluation, (self.evaluation.provenance or {}).get("environment")
        questions = {
            (do, guidance): Question(
                f"do({do}) under {guidance}",
                plan,
                lambda do=do: self.intervention(do)[0],
                evaluation.experiment.returns(do),
                fresh=bool(do) and draws_noise(plan.setting),
                key=(do, guidance),
            )
            for (do, guidance), plan in evaluation.plans.items()
        }
        loop = AnswerLoop(
            evaluation.pipeline,
            self.subset.images,
            self.subset.attributes,
            list(questions.values()),
            keys=self.keys,
            names=self.subset.names,
            blocks=self.blocks,
            batch_size=evaluation.batch_size,
            about=f"{evaluation.digest} {about}",
            store=None if evaluation.cache is None else Store(evaluation.cache),
            strict=True,
            on_progress=on_progress,
        )
        self._measure_held_out()
        for block in loop:
            self._measure_real(block)
            for answer in block.answers([questions[key] for key in self._pending(block)]):
                self._measure_answer(block, answer)
        if self.pictured:
            self._draw()

    def _pending(self, block: Block) -> list[tuple[str, str]]:
        """Return questions that lack answers to a block, or whose features or pictures do."""
        return [
            question
            for question in self.evaluation.experiment.questions
            if any((*question, name) not in self.done for name in block.names)
            or self.folder.features.is_broken(question, block)
            or (block.number == 0 and self._lacks_pictures(*question))
        ]

    def _lacks_pictures(self, do: str, guidance: str) -> bool:
        parts = ("answer", *["reversed"] * self.evaluation.experiment.reverse)
        return bool(do) and any(self.pictures.lack(part, do, guidance) for part in parts)

    def _measure_real(self, block: Block) -> None:
        evaluators, features = self.evaluation.evaluators, self.folder.features
        if self.read.issuperset(block.names) and not features.is_broken((), block):
            return
        count = len(self.subset)
        others = self.subset.images[[(row + count // 2) % count for row in block.rows]]
        unrelated = image_mae(block.images, others).tolist() if count > 1 else [None]
        reading = evaluators.read(block.images)
        features.write((), block, evaluators.features(block.images, reading))
        entries = real_entries(block, reading, unrelated, self.evaluation.pipeline.space)
        self.folder.append(entry for entry in entries if entry["image"] not in self.read)

    def _measure_held_out(self) -> None:
        """Keep features of held-out images, by the values that interventions set."""
        evaluation, features, others = self.evaluation, self.folder.features, self.subset.held_out
        if others is None or evaluation.shard[0] > 0:
            return
        space, count = evaluation.pipeline.space, len(others)
        values = [values_of(space, others.attributes, row) for row in range(count)]
        classes: dict[tuple[str, str], list[int]] = {}
        for do in filter(partial(has_classes, space), evaluation.experiment.do):
            for row, own in enumerate(values):
                name = class_name([own[target] for target in targets_of(do)])
                classes.setdefault((do, name), []).append(row)
        missing = {key: rows for key, rows in classes.items() if not features.has_real(*key)}
        pieces: list[Features] = []
        for rows in in_blocks(range(count), evaluation.block_size) if missing else ():
            images = images_from_bytes(others.images[rows[0] : rows[-1] + 1])
            evaluators = evaluation.evaluators
            pieces.append(evaluators.features(images, evaluators.read(images)))
        for key, rows in missing.items():
            every = {name: np.concatenate([p[name] for p in pieces])[rows] for name in pieces[0]}
            features.write_real(*key, every)

    def _measure_answer(self, block: Block, answer: Answer) -> None:
        question, images = answer.question.key, answer.pair.images.float()
        evaluators, (_, truth) = self.evaluation.evaluators, self.intervention(question[0])
        reading = evaluators.read(images)
        self.folder.features.write(question, block, evaluators.features(images, reading))
        if question[0] and block.number == 0 and self.pictured:
            self.pictures.write(images, "answer", *question)
            if answer.back is not None:
                self.pictures.write(answer.back.images.float(), "reversed", *question)
        space = self.evaluation.pipeline.space
        entries = row_entries(block, answer, reading, truth, evaluators, space)
        self.folder.append(e for e in entries if (*question, e["image"]) not in self.done)

    def _draw(self) -> None:
        """Keep pictures of factual images and true counterfactuals, and the index of all."""
        experiment, truth = self.evaluation.experiment, self.subset.drawn is not None
        if self.pictures.lack("factual"):
            self.pictures.write(self.subset.images[self.pictured], "factual")
        for do in experiment.do:
            if self.pictures.lack("truth", do) and (drawn := self.intervention(do)[1]):
                self.pictures.write(drawn.portraits.images[self.pictured], "truth", do)
        asked = [(do, guidance) for do, guidance in experiment.questions if do]
        self.pictures.write_index(asked, reversed_too=experiment.reverse, truth=truth)

    def _intervention(self, do: str) -> tuple[Action, Truth | None]:
        """Intervene on all images; return the truth, too, if it is known."""
        subset, experiment = self.subset, self.evaluation.experiment
        pipeline, seed = self.evaluation.pipeline, experiment.seed
        targets = draw_targets(
            pipeline.space,
            subset.attributes,
            targets_of(do),
            subset.names,
            seed,
            experiment.continuous,
        )
        action = pipeline.act(subset.attributes, targets, seed=seed, keys=self.keys)
        if subset.drawn is None or not do:
            return action, None
        drawings = portraits.counterfactual(subset.drawn, targets)
        return action, Truth(drawings, self.evaluation.evaluators.read(drawings.images))
