"""``fcfg train``: data in, the folder of a model out.

The parts are trained one after the other: the causal model of the attributes, the judge, the
image model. Each resumes from its own checkpoints, so the same command finishes an interrupted
run.
"""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from accelerate import Accelerator
from PIL import Image
from torch import Tensor

from fcfg.causal.attributes import AbstractAttribute, Column, Continuous
from fcfg.datasets.base import Examples, Splits
from fcfg.datasets.portraits.data import PortraitsData
from fcfg.datasets.registry import load_data
from fcfg.model import AnyModel
from fcfg.sheet import sheet
from fcfg.support.errors import check_among
from fcfg.support.files import single_writer, write_atomically
from fcfg.support.hashing import stream_seed
from fcfg.support.images import images_from_bytes
from fcfg.support.progress import AbstractReporter, Quiet
from fcfg.training.config import TrainingConfig
from fcfg.training.describe import expected_time, planned_steps
from fcfg.training.feed import Batch, Feed, first_examples, scales_of
from fcfg.training.log import RunLog
from fcfg.training.loop import Course, Loop, StopRequest, TrainingStopped, share_of
from fcfg.training.models import new_judge
from fcfg.training.objectives import AbstractObjective, ReadingObjective
from fcfg.training.preflight import accelerator_for, check_batches
from fcfg.training.sections import Optimisation
from fcfg.training.state import Checkpoint
from fcfg.training.workspace import Workspace, digest_data

_SHEET_IMAGES, _SHEET_STEPS, _SHEET_ROWS, _SHEET_SIDE = 6, 20, 3, 96


def train(
    config: TrainingConfig,
    out: Path,
    part: str = "all",
    *,
    skip_bad: bool = False,
    reporter: AbstractReporter | None = None,
) -> Path:
    """Train the parts of a model into a folder, or resume an interrupted run.

    Args:
        config: Training configuration.
        out: Folder of the model, for :func:`fcfg.load`.
        part: 'all', or a single part of the configuration: 'scm', 'judge', or one of its model,
            which is 'diffusion' for a diffusion model.
        skip_bad: Whether to skip unreadable images instead of raising an error.
        reporter: Receiver of progress.

    Returns:
        The folder.

    Raises:
        TrainingStopped: After a signal such as Ctrl-C, or a failure; checkpoints are kept.
    """
    check_among("part", part, ("all", *config.parts))
    accelerator = accelerator_for(config.run)
    check_batches(config, accelerator.num_processes)
    main = accelerator.is_main_process
    reporter = reporter if reporter is not None and main else Quiet()
    workspace, stop = Workspace(out, config), StopRequest()
    workspace.prepare()
    with single_writer(workspace.folder) if main else nullcontext(), stop.listening():
        if main:
            workspace.claim()
        board = workspace.folder / "tensorboard" if main and config.run.tensorboard else None
        log = RunLog(workspace.log, board)

        def counted(activity: str, done: int, total: int) -> None:
            stop.check(activity)
            reporter.progress(activity, done, total)

        with accelerator.main_process_first():  # it fills the cache of images
            splits = load_data(config.data, config.space, skip_bad=skip_bad, on_progress=counted)
        counts = ", ".join(f"{len(examples)} {name}" for name, examples in splits.items())
        # Drawn portraits follow from the configuration.
        if main and not isinstance(config.data, PortraitsData):
            if not workspace.check_data(digest_data(splits, partial(counted, "hashing images"))):
                reporter.say("the run began without a digest of its data; it has one from now on")
            excluded = config.data.listing(config.space).excluded
            reasons = [f"{count} ({reason})" for reason, count in excluded.items()]
            counts += f"; left out: {', '.join(reasons)}" if reasons else ""
        reporter.say(f"images: {counts}")
        session = Session(config, workspace, splits, accelerator, log, reporter, stop)
        trained = [name for name in config.parts if part in ("all", name)]
        reporter.say(planned_steps(config, session.steps, trained))
        if accelerator.device.type == "cpu":
            reporter.say(expected_time(config, workspace, splits["train"], session.steps, trained))
        try:
            with torch.random.fork_rng(), torch.backends.cudnn.flags(enabled=True, benchmark=True):
                for name in trained:
                    session.train(name)
                if main:
                    session.publish()
        except OSError as error:
            raise TrainingStopped(
                f"{error.filename or 'a file'} could not be written ({error.strerror or error}); "
                "the checkpoints are whole; make room and run the same command again",
                code=1,
            ) from error
        finally:
            log.close()
    return out


def optimiser_for(objective: AbstractObjective, settings: Optimisation) -> torch.optim.AdamW:
    """Return Adam with decoupled weight decay, fused on a GPU.

    The paper says Adam with a weight decay of 1e-4. In the gradient of the loss, which is a mean
    over pixels, such a decay outweighs everything the condition passes through: after some
    thousand steps the network ignores the condition. docs/training.md has numbers.
    """
    groups = objective.parameter_groups()
    return torch.optim.AdamW(
        groups,
        settings.learning_rate,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
        fused=groups[0]["params"][0].device.type == "cuda",
    )


@dataclass(frozen=True, eq=False)
class Session:
    """One run of the command, and the training of each part."""

    config: TrainingConfig
    workspace: Workspace
    splits: Splits
    accelerator: Accelerator
    log: RunLog
    reporter: AbstractReporter
    stop: StopRequest

    @property
    def device(self) -> torch.device:
        """The device of the networks."""
        return self.accelerator.device

    @property
    def steps(self) -> dict[str, int]:
        """The total number of steps of each part."""
        nodes = sum(bool(parents) for parents in self.config.causal_graph.parents.values())
        networks = self.config.networks.items()
        lengths = {name: part.settings.length(len(self._images)) for name, part in networks}
        known = {name: steps for name, steps in lengths.items() if steps is not None}
        return {"scm": self.config.scm.steps * nodes, **known}

    @property
    def _images(self) -> Examples:
        return self.splits["train"]

    def fit_scm(self) -> None:
        """Fit the mechanisms of attributes with parents; it is quick, and starts over."""
        checkpoints, settings = self.workspace.checkpoints("scm"), self.config.scm
        graph = self.config.causal_graph
        children = [node for node in graph.order if graph.parents[node]]  # in order of fitting
        if checkpoints.steps() or not self.accelerator.is_main_process:
            return
        scm = self.workspace.scm()
        total = self.steps["scm"]
        self.log.rewind("scm", 0)
        if children:
            self.reporter.progress("scm", 0, total)

        def on_step(node: str, step: int, loss: float) -> None:
            self.stop.check("scm")
            done = children.index(node) * settings.steps + step + 1
            if done % self.config.run.log_steps == 0 or done == total:
                self.log.write("scm", done, loss=loss)
                self.reporter.progress("scm", done, total, loss)

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
        self.publish()

    def train(self, name: str) -> None:
        """Train one part."""
        if name == "scm":
            self.fit_scm()
        elif name == "judge":
            scales = scales_of(self._images)
            if self.accelerator.is_main_process:
                self.workspace.keep_factors(scales)
            self._run(name, ReadingObjective(new_judge(self.config, scales)), scales)
        else:
            self._run(name, self.config.model.part_objective(name, self), {})

    def publish(self) -> None:
        """Save the model from the latest checkpoints, so an unfinished run can be used."""
        self.workspace.publish({name: self.steps[name] for name in self.config.networks})

    def _run(
        self, name: str, objective: AbstractObjective, scales: dict[str, tuple[float, float]]
    ) -> None:
        def on_sheet(step: int) -> None:
            if name != "judge":
                self._draw_sheet(name, step)

        settings, accelerator, run = (
            self.config.networks[name].settings,
            self.accelerator,
            self.config.run,
        )
        course = Course(name, self.config.seed, self.steps[name], settings)
        batch, objective = settings.batch, objective.to(self.device)
        optimiser = optimiser_for(objective, settings)
        if run.compile or (run.compile is None and accelerator.device.type == "cuda"):
            alone = accelerator.num_processes == course.settings.accumulate == 1
            objective.fuse(cuda_graphs=run.cuda_graphs and alone)
        feed = Feed(
            self.splits["train"],
            self.config.space,
            scales,
            device=accelerator.device,
            seed=stream_seed(course.seed, course.part),
            batch=batch,
            share=share_of(batch, accelerator),
        )
        loop = Loop(
            course,
            objective,
            optimiser,
            feed,
            self.first("val", run.validation_images, batch, scales),
            accelerator=accelerator,
            checkpoints=self.workspace.checkpoints(course.part),
            log=self.log,
            run=run,
            reporter=self.reporter,
            stop=self.stop,
        )
        loop.resume()
        if accelerator.is_main_process:
            self.log.rewind(course.part, loop.step)
        with closing(feed):
            if loop.step >= course.steps:
                self.reporter.say(f"{course.part}: all {course.steps} steps are done")
            else:
                loop.run(self.publish, on_sheet)

    def first(
        self, split: str, most: int, size: int, scales: dict[str, tuple[float, float]]
    ) -> list[Batch]:
        """Return the first images of a split on the device, in batches.

        Args:
            split: Name of the split.
            most: Largest number of images.
            size: Images per batch.
            scales: Mean and standard deviation of each factor to read.
        """
        count = min(most, len(self.splits[split]))
        feed = Feed(
            first_examples(self.splits[split], count),
            self.config.space,
            scales,
            device=self.accelerator.device,
            seed=0,
            batch=count,
            share=slice(None),
        )
        with closing(feed):
            whole = feed.at(0)
        columns = (whole.images, whole.values, whole.factors)
        return [Batch(*part) for part in zip(*(c.split(size) for c in columns), strict=True)]

    def _draw_sheet(self, part: str, step: int) -> None:
        model = self.workspace.model().to(self.accelerator.device)
        page = counterfactual_sheet(model, self.splits["val"])
        path = self.workspace.folder / "sheets" / f"{part}-step-{step:09d}.png"
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, lambda file: page.save(file, "PNG"))
        self.reporter.say(f"sheet of counterfactuals: {path}")


def counterfactual_sheet(model: AnyModel, examples: Examples) -> Image.Image:
    """Draw six images and their counterfactuals under up to three interventions."""
    count = min(_SHEET_IMAGES, len(examples))
    images = images_from_bytes(examples.images[:count])
    table = {name: column[:count] for name, column in examples.attributes.items()}
    fitted = set(model.scm.fitted_parents)
    answerable = [a for a in model.space if model.graph.affected({a.name}) - {a.name} <= fitted]
    plan = model.plan((), sampling=_SHEET_STEPS)
    abduction = model.abduct(images, table, plan=plan)
    rows: dict[str, Tensor] = {"factual": images}
    for attribute in answerable[:_SHEET_ROWS]:
        action = model.act(table, {attribute.name: _other(attribute, table[attribute.name])})
        rows[f"do({attribute.name})"] = model.predict(abduction, action).images
    return sheet(rows, scale=max(1, _SHEET_SIDE // images.shape[-1]))


def _other(attribute: AbstractAttribute, column: Column) -> Column:
    """Return other values: the other class, the next level, or the number mirrored."""
    if isinstance(attribute, Continuous):
        return attribute.low + attribute.high - column
    return (column + 1) % max(2, attribute.width)
