"""``fcfg train``: data in, the folder of a model out.

The parts are trained one after the other: the causal model of the attributes, the judge, the
image model. Each resumes from its own checkpoints, so the same command finishes an interrupted
run.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import torch
from PIL import Image

from fcfg.answers import AnswerLoop, Question
from fcfg.datasets.base import Examples, Splits
from fcfg.model import AnyModel
from fcfg.sheet import sheet
from fcfg.support.errors import InputError, check_among
from fcfg.support.files import write_atomically
from fcfg.support.hashing import stream_seed
from fcfg.support.images import images_from_bytes
from fcfg.support.progress import Reporter
from fcfg.training.config import TrainingConfig
from fcfg.training.feed import Batch, Feed, first_batch, scales_of
from fcfg.training.kinds import Ground, Inputs, Part
from fcfg.training.log import RunLog
from fcfg.training.loop import Loop, StopRequest, Surroundings, TrainingStopped, share_of
from fcfg.training.objectives import AnyObjective
from fcfg.training.optimiser import Course
from fcfg.training.preflight import accelerator_for, check_batches, expected_time
from fcfg.training.state import Checkpoint
from fcfg.training.workspace import Workspace
from fcfg.trust.validation import other_values

__all__ = ["TrainingStopped", "train"]

_SHEET_IMAGES, _SHEET_STEPS, _SHEET_ROWS, _SHEET_SIDE = 6, 20, 3, 96


def train(
    config: TrainingConfig,
    out: Path,
    part: str = "all",
    *,
    skip_bad: bool = False,
    reporter: Reporter | None = None,
) -> Path:
    """Train the parts of a model, or resume an interrupted run; return the folder of the model.

    Args:
        config: Training configuration.
        out: Folder of the model, for :func:`fcfg.load`.
        part: 'all', or a single part of the configuration: 'scm', 'judge', or one of its model,
            which is 'diffusion' for a diffusion model.
        skip_bad: Whether to skip unreadable images instead of raising an error.
        reporter: Receiver of progress.

    Raises:
        TrainingStopped: After a signal such as Ctrl-C, or a failure; checkpoints are kept.
    """
    check_among("part", part, ("all", *config.parts))
    accelerator, stop = accelerator_for(config.run), StopRequest()
    check_batches(config, accelerator.num_processes)
    main = accelerator.is_main_process
    reporter = reporter if reporter is not None and main else Reporter()
    workspace = Workspace(out, config)
    workspace.prepare()
    with workspace.owned() if main else nullcontext(), stop.listening():
        if main:
            workspace.claim()
        trackers = config.run.trackers if main else ()
        settings = config.model_dump(mode="json", exclude_none=True)
        with closing(RunLog(workspace.folder, trackers=trackers, settings=settings)) as log:
            around = Surroundings(config.run, accelerator, log, reporter, stop)
            splits = _load_images(config, workspace, around, skip_bad=skip_bad)
            try:
                Session(config, workspace, splits, around).run(part)
            except OSError as error:
                raise TrainingStopped(
                    f"{error.filename or 'a file'} could not be written "
                    f"({error.strerror or error}); the checkpoints are whole; make room and run "
                    "the same command again"
                ) from error
    return out


def _load_images(
    config: TrainingConfig, workspace: Workspace, around: Surroundings, *, skip_bad: bool
) -> Splits:
    """Load the images, and refuse others than those that the run began with."""
    data, space, counted = config.data, config.space, around.counted
    with around.accelerator.main_process_first():  # it fills the cache of images
        splits = data.load(space, skip_bad=skip_bad, on_progress=counted)
    if around.is_main and not data.is_drawn:  # drawn ones follow from the configuration
        workspace.claim_data(splits, counted)
    counts = ", ".join(f"{len(examples)} {name}" for name, examples in splits.items())
    reasons = [f"{count} ({reason})" for reason, count in data.excluded(space).items()]
    around.reporter.say(
        f"images: {counts}" + (f"; left out: {', '.join(reasons)}" if reasons else "")
    )
    return splits


@dataclass(frozen=True, eq=False)
class Session:
    """One run of the command."""

    config: TrainingConfig
    workspace: Workspace
    splits: Splits
    around: Surroundings

    @property
    def device(self) -> torch.device:
        """The device of the networks."""
        return self.around.accelerator.device

    @cached_property
    def inputs(self) -> Inputs:
        """What networks are made for, with the factors of the training images."""
        on_gpu, factors = self.device.type == "cuda", scales_of(self.splits["train"])
        channels_last = on_gpu and not self.config.run.shard  # shards are rows of plain tensors
        return replace(self.config.inputs, factors=factors, channels_last=channels_last)

    @cached_property
    def steps(self) -> dict[str, int]:
        """The total number of steps of each part."""
        nodes = sum(bool(parents) for parents in self.config.causal_graph.parents.values())
        images, networks = len(self.splits["train"]), self.config.networks.items()
        lengths = {name: part.settings.length(images) or 0 for name, part in networks}
        return {"scm": self.config.scm.steps * nodes, **lengths}

    @cached_property
    def encoded(self) -> Splits:
        """The images as the image model is trained on them: pixels, or latents."""
        around, config = self.around, self.config
        place = config.data, self.device, around.counted
        with around.accelerator.main_process_first():  # it fills the cache of latents
            return config.model.encoded(self.splits, *place)

    def run(self, part: str) -> None:
        """Train all parts, or one of them, and save the model."""
        parts = [name for name in self.config.parts if part in ("all", name)]
        self._announce(parts)
        if set(parts) - {"scm", "judge"}:
            _ = self.encoded  # a codec that does not fit is refused before the judge is trained
        with torch.random.fork_rng(), torch.backends.cudnn.flags(enabled=True, benchmark=True):
            for name in parts:
                self._train(name)
            if self.around.is_main:
                self._publish()

    def _announce(self, parts: Sequence[str]) -> None:
        """Say how many steps some parts take and, without a GPU, how long."""
        each = {"scm": f" ({self.config.scm.steps:,} for each attribute with causes)"}
        counts = [f"{n} {self.steps[n]:,}{each.get(n, '')}" for n in parts if self.steps[n]]
        self.around.reporter.say("steps: " + ", ".join(counts))
        if self.device.type == "cpu":
            done = {name: self.workspace.checkpoints(name).steps() for name in parts}
            left = {n: self.steps[n] - max([0, *done[n]]) for n in parts if n != "scm"}
            self.around.reporter.say(expected_time(self.config, self.splits["train"], left))

    def _train(self, name: str) -> None:
        if name == "scm":
            self._fit_scm()
            return
        is_judge, part = name == "judge", self.config.networks[name]
        if is_judge and self.around.is_main:
            self.workspace.keep_factors(self.inputs.factors)
        if name in ("judge", self.config.model.parts[0].name):
            objective = part.new_objective(self.inputs)
        else:
            objective = self.config.model.later_objective(name, self._ground(name))
        self._run(part, objective)

    def _publish(self) -> None:
        """Save the model from the latest checkpoints, so an unfinished run can be used."""
        self.workspace.publish({name: self.steps[name] for name in self.config.networks})

    def _fit_scm(self) -> None:
        """Fit the mechanisms of attributes with parents; it is quick, and starts over."""
        checkpoints, settings = self.workspace.checkpoints("scm"), self.config.scm
        graph, around, total = self.config.causal_graph, self.around, self.steps["scm"]
        children = [node for node in graph.order if graph.parents[node]]  # in order of fitting
        if checkpoints.steps() or not around.is_main:
            return
        scm = self.workspace.scm()
        around.log.rewind("scm", 0)
        if children:
            around.reporter.progress("scm", 0, total)

        def on_step(node: str, step: int, loss: float) -> None:
            around.stop.check("scm")
            done = children.index(node) * settings.steps + step + 1
            if done % self.config.run.log_steps == 0 or done == total:
                around.log.write("scm", done, loss=loss)
                around.reporter.progress("scm", done, total, loss)

        scm.fit(
            self.splits["train"].attributes,
            seed=self.config.seed,
            steps=settings.steps,
            batch_size=settings.batch,
            learning_rate=settings.learning_rate,
            on_step=on_step,
        )
        mechanisms = {node: list(parents) for node, parents in scm.fitted_parents.items()}
        facts = {"mechanisms": mechanisms, "best": None}
        checkpoints.write(Checkpoint(total, dict(scm.state_dict()), facts))
        self._publish()

    def _run(self, part: Part, objective: AnyObjective) -> None:
        """Take the steps of a network that are left."""
        around, accelerator, settings = self.around, self.around.accelerator, part.settings
        run, inputs = self.config.run, self.inputs
        shards = run.shard and bool(objective.blocks())
        if not shards:  # a network that does not fit moves to the device one shard at a time
            objective = objective.to(self.device)
        course = Course(part.name, self.config.seed, self.steps[part.name], settings)
        if run.compile or (run.compile is None and self.device.type == "cuda" and not shards):
            alone = accelerator.num_processes == settings.accumulate == 1
            objective.fuse(cuda_graphs=run.cuda_graphs and alone)
        splits = self.splits if part.name == "judge" else self.encoded
        feed = Feed(
            splits["train"],
            inputs.space,
            inputs.factors,
            device=self.device,
            seed=stream_seed(course.seed, course.part),
            batch=settings.batch,
            share=share_of(settings.batch, accelerator),
        )
        validation = self._first(splits["val"], run.validation_images, settings.batch)
        checkpoints = self.workspace.checkpoints(part.name)
        loop = Loop(course, objective, feed, validation, checkpoints, around, shards=shards)
        loop.resume()
        if around.is_main:
            around.log.rewind(part.name, loop.step)
        with closing(feed):
            if loop.step >= course.steps:
                around.reporter.say(f"{part.name}: all {course.steps} steps are done")
            else:
                loop.run(self._publish, partial(self._draw_sheet, part.name))

    def _ground(self, name: str) -> Ground:
        """Return what a later part is built on; refuse one that comes too early."""
        first = self.config.model.parts[0].name
        judge, weights = self.workspace.judge(), self.workspace.weights(first)
        if judge is None or weights is None:
            raise InputError(
                f"part {name}",
                expected=f"the parts judge and {first} to be trained",
                got=f"no {'judge' if judge is None else first}",
                do="train all parts, or these two first",
            )
        network = self.config.model.build(self.inputs)
        network.load_state_dict(weights)
        table = self.splits["train"].attributes
        scm = self.workspace.scm()
        return Ground(network.to(self.device), judge, scm, table, self._first_loss)

    def _first(self, examples: Examples, most: int, size: int) -> list[Batch]:
        """Return the first examples on the device, in batches of a size."""
        inputs = self.inputs
        return first_batch(examples, most, inputs.space, inputs.factors, self.device).split(size)

    def _first_loss(self, objective: AnyObjective, images: int, size: int) -> float:
        """Return the loss on the first training images, computed as in a step."""
        seed = stream_seed(self.config.seed, "bound")
        generator = torch.Generator(self.device).manual_seed(seed)
        first = self._first(self.encoded["train"], images, size)
        with self.around.accelerator.autocast():
            losses = objective.mean_losses(first, generator)
        return losses["validation_loss"]

    def _draw_sheet(self, part: str, step: int) -> None:
        if part == "judge":
            return
        model = self.workspace.model().to(self.device)
        page = counterfactual_sheet(model, self.splits["val"])
        path = self.workspace.folder / "sheets" / f"{part}-step-{step:09d}.png"
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, lambda file: page.save(file, "PNG"))
        self.around.reporter.say(f"sheet of counterfactuals: {path}")


def counterfactual_sheet(model: AnyModel, examples: Examples) -> Image.Image:
    """Draw six images and their counterfactuals under up to three interventions."""
    images = images_from_bytes(examples.images[:_SHEET_IMAGES])
    table = {name: column[:_SHEET_IMAGES] for name, column in examples.attributes.items()}
    fitted = set(model.scm.fitted_parents)
    answerable = [a for a in model.space if model.graph.affected({a.name}) - {a.name} <= fitted]
    questions = [
        Question(
            f"do({a.name})",
            model.plan([a.name], sampling=_SHEET_STEPS),
            partial(model.act, table, {a.name: other_values(a, table[a.name])}),
        )
        for a in answerable[:_SHEET_ROWS]
    ]
    (block,) = AnswerLoop(model, images, table, questions)
    answers = {answer.question.name: answer.pair.images for answer in block.answers()}
    return sheet({"factual": images} | answers, scale=max(1, _SHEET_SIDE // images.shape[-1]))
