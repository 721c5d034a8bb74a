"""An experiment on a model: resumable, in any number of shards.

Whatever was written when a run is stopped stays; the same command goes on behind it, and gives the
same rows. Several processes or machines share a run by its folder, each with a shard of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fcfg.evaluation.abductions import AbductionCache
from fcfg.evaluation.distances import FeatureFiles, missing_distances
from fcfg.evaluation.evaluators import Instruments
from fcfg.evaluation.experiment import Experiment
from fcfg.evaluation.pictures import INDEX, remove_pictures
from fcfg.evaluation.progress import Costs, OnProgress
from fcfg.evaluation.provenance import without_folders
from fcfg.evaluation.result_files import (
    JSON,
    SCHEMA,
    Result,
    ResultFile,
    check_same_question,
    check_same_run,
    read_results,
)
from fcfg.evaluation.result_lines import read_lines
from fcfg.evaluation.runner import THRESHOLD, Answers, Plan
from fcfg.evaluation.subset import Subset
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.support.errors import InputError, check_integer
from fcfg.support.files import single_writer
from fcfg.support.hashing import digest_of
from fcfg.support.outputs import check_folder, make_folder
from fcfg.support.shards import check_shard, strided_rows
from fcfg.version import __version__

_BLOCK = {"cpu": 32, "cuda": 1024}  # the most images, where nobody says how many


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An experiment on a model and images: everything but the running.

    Args:
        pipeline: The model, on its device.
        experiment: The questions.
        subset: The images.
        instruments: What to measure with.
        out: The folder of the run.
    """

    pipeline: CounterfactualPipeline
    experiment: Experiment
    subset: Subset
    instruments: Instruments
    out: Path
    model: str = ""  #: how the caller calls it
    circumstances: JSON | None = None  #: command, commit, environment
    shard: tuple[int, int] = (0, 1)  #: which part of the images, of how many
    batch_size: int = 256  #: the most network rows at once
    block: int | None = None  #: images that are finished together
    cache: Path | None = None  #: where to keep abductions
    shown: int = 8  #: images of which pictures are kept

    def __post_init__(self) -> None:
        """Refuse what would fail after hours."""
        check_folder(self.out)
        check_shard(self.shard, len(self.subset))
        rows = max(self._costs.rows(*question) for question in self.experiment.questions)
        check_integer("batch size", self.batch_size, rows, 10**9, do="raise it")

    @cached_property
    def _costs(self) -> Costs:
        pipeline = self.pipeline
        return Costs(self.experiment, pipeline.graph, pipeline.denoiser.schedule)

    @cached_property
    def digest(self) -> str:
        """Of the model."""
        return digest_of(self.pipeline.denoiser, self.pipeline.scm)

    @cached_property
    def _abductions(self) -> AbductionCache:
        return AbductionCache(
            self.pipeline,
            f"{self.digest} {(self.circumstances or {}).get('environment')}",
            steps=self.experiment.steps,
            solver=self.experiment.solver,
            grid=self.experiment.grid,
            folder=self.cache,
            batch_size=self.batch_size,
        )

    @property
    def images_at_once(self) -> int:
        """Images that are finished together in a run that begins now: blocks are of one size."""
        most = self.block or _BLOCK.get(self.pipeline.denoiser.device.type, 32)
        mine = len(strided_rows(len(self.subset), self.shard))
        return math.ceil(mine / math.ceil(mine / most))

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
                "digest": self.digest,
                "provenance": without_folders(pipeline.provenance),
                "parameters": sum(p.numel() for p in pipeline.denoiser.parameters()),
            },
            "data": self.subset.about,
            "images": list(self.subset.names),
            "attributes": pipeline.space.to_config(),
            "graph": {node: list(p) for node, p in pipeline.graph.parents.items()},
            "questions": [list(question) for question in experiment.questions],
            "steps": experiment.steps,
            "solver": repr(self._abductions.sampling.solver),
            "grid": experiment.grid,
            "seed": experiment.seed,
            "continuous": experiment.continuous,
            "reverse": experiment.reverse,
            "threshold": THRESHOLD if self.subset.drawn is not None else None,
            "metrics": self.instruments.about,
            "shard": list(self.shard),
            "block": self.images_at_once,
            "version": __version__,
            **(self.circumstances or {"command": "", "commit": None, "environment": {}}),
        }

    def check_place(self) -> bool:
        """Refuse a folder that holds another run, or an index of somebody else's pictures.

        Returns:
            Whether it holds all rows of this run already.
        """
        if not self._result_files():
            self._check_index()
        if not self._headers():
            return False  # nothing, or a run that was killed before its first line was whole
        result = read_results(self.out, unfinished=True)
        check_same_run(self.out, self.header, result.header)
        return not result.missing

    def discard(self) -> None:
        """Remove a run of this experiment and model, and nothing else that may lie there."""
        for header in self._headers():
            check_same_question(self.out, self.header, header)
        for path in self._result_files():
            path.unlink()
        FeatureFiles(self.out).remove()
        remove_pictures(self.out)

    @property
    def _name(self) -> str:
        number, count = self.shard
        return f"results-{number}-of-{count}"

    def run(self, on_progress: OnProgress | None = None) -> Result:
        """Answer what is not answered yet, and return what the folder holds then.

        Args:
            on_progress: Told which share of this shard's work is done, after every step.
        """
        make_folder(self.out)
        with single_writer(self.out, f".{self._name}.lock"):
            file = ResultFile(self.out / f"{self._name}.jsonl")
            if not self._result_files():
                self._check_index()
            self._check_shards()
            header, *entries = file.begin(self.header)
            read_results(self.out, unfinished=True)  # other shards are of this run, too
            plan = Plan(
                self.pipeline,
                self.experiment,
                self.subset,
                self.instruments,
                self._abductions,
                self._costs,
                self.out,
                self.shard,
                self.batch_size,
                self.shown,
            )
            Answers(plan, file, entries, header["block"], on_progress).run()
            return self._finished(file)

    def _result_files(self) -> list[Path]:
        return sorted(self.out.glob("results-*-of-*.jsonl"))

    def _headers(self) -> list[JSON]:
        firsts = (next(read_lines(path, unfinished=True), None) for path in self._result_files())
        return [first[1] for first in firsts if first is not None]

    def _check_index(self) -> None:
        """Refuse to replace the index of somebody else's pictures."""
        if (self.out / INDEX).exists():
            raise InputError(
                f"out {self.out}",
                expected="the folder of an evaluation, or a new one",
                got=f"'{INDEX}' and no result file",
                do="choose another --out, or move it",
            )

    def _check_shards(self) -> None:
        """Refuse to go on in other parts: images would be answered twice."""
        ending = f"-of-{self.shard[1]}.jsonl"
        others = [path.name for path in self._result_files()]
        other = next((name for name in others if not name.endswith(ending)), None)
        if other is not None:
            raise InputError(
                f"results {self.out}",
                expected="one number of shards",
                got=f"{other} beside {self.shard[1]} of them",
                do="go on with as many as it began with, or choose another --out",
            )

    def _finished(self, file: ResultFile) -> Result:
        """What the folder holds now; whoever comes last adds what is of all images."""
        with single_writer(self.out, ".distances.lock", wait=True):
            result = read_results(self.out, unfinished=True)
            further = [] if result.missing else missing_distances(result)
            if further:
                file.append(further)
                result = read_results(self.out, unfinished=True)
        return result
