"""``fcfg train``: data in, the folder of a model out.

The parts are trained one after the other: the causal model of the attributes, the judge, the
image model. Each resumes from its own checkpoints, so the same command finishes an interrupted
run.
"""

from __future__ import annotations

from collections.abc import Callable
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
from fcfg.diffusion.denoiser import Denoiser
from fcfg.hvae import HVAE
from fcfg.model import AnyModel
from fcfg.sheet import sheet
from fcfg.support.errors import InputError, check_among
from fcfg.support.files import single_writer, write_atomically
from fcfg.support.hashing import stream_seed
from fcfg.support.images import images_from_bytes
from fcfg.support.progress import AbstractReporter, Quiet
from fcfg.training.config import Part, TrainingConfig
from fcfg.training.describe import expected_time, planned_steps
from fcfg.training.feed import Batch, Feed, first_examples, scales_of
from fcfg.training.hvae_objectives import (
    ConstrainedHVAE,
    CounterfactualObjective,
    FreeEnergyObjective,
    Lagrangian,
    TrainingInterventions,
)
from fcfg.training.log import RunLog
from fcfg.training.loop import (
    Course,
    Loop,
    StopRequest,
    TrainingStopped,
    mean_losses,
    share_of,
)
from fcfg.training.models import denoising_objective, new_denoiser, new_judge, new_vae
from fcfg.training.objectives import AbstractObjective, ReadingObjective
from fcfg.training.preflight import accelerator_for, check_batches
from fcfg.training.sections import VAETraining
from fcfg.training.state import Checkpoint
from fcfg.training.workspace import Workspace, digest_data

_BOUND_IMAGES = 8192  # training images whose free energy bounds that of the fine-tuning
_SHEET_IMAGES, _SHEET_STEPS, _SHEET_ROWS, _SHEET_SIDE = 6, 20, 3, 96


def train(
    config: TrainingConfig,
    out: Path,
    part: Part = "all",
    *,
    skip_bad: bool = False,
    reporter: AbstractReporter | None = None,
) -> Path:
    """Train the parts of a model into a folder, or resume an interrupted run.

    Args:
        config: Training configuration.
        out: Folder of the model, for :func:`fcfg.load`.
        part: 'all', or a single part of the configuration: 'scm', 'judge', and then 'diffusion',
            or 'hvae' and 'finetuning'.
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
        trained = [name for name in session.parts if part in ("all", name)]
        reporter.say(planned_steps(config, session.steps, trained))
        if accelerator.device.type == "cpu":
            reporter.say(expected_time(config, workspace, splits["train"], session.steps, trained))
        try:
            with torch.random.fork_rng(), torch.backends.cudnn.flags(enabled=True, benchmark=True):
                for name in trained:
                    session.parts[name]()
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


def denoising_optimiser(
    denoiser: Denoiser, learning_rate: float, weight_decay: float
) -> torch.optim.AdamW:
    """Return Adam with decoupled weight decay, fused on a GPU.

    The paper says Adam with a weight decay of 1e-4. In the gradient of the loss, which is a mean
    over pixels, such a decay outweighs everything the condition passes through: after some
    thousand steps the network ignores the condition. docs/training.md has numbers.
    """
    on_gpu = denoiser.device.type == "cuda"
    return torch.optim.AdamW(
        denoiser.parameters(), learning_rate, weight_decay=weight_decay, fused=on_gpu
    )


def _vae_optimiser(network: HVAE, settings: VAETraining) -> torch.optim.AdamW:
    return torch.optim.AdamW(
        network.parameters(),
        settings.learning_rate,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
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
    def parts(self) -> dict[str, Callable[[], None]]:
        """The training of each part, in order."""
        all_parts = {
            "scm": self.fit_scm,
            "judge": self.train_judge,
            "diffusion": self.train_denoiser,
            "hvae": self.train_vae,
            "finetuning": self.finetune_vae,
        }
        return {part: all_parts[part] for part in self.config.parts}

    @property
    def steps(self) -> dict[str, int]:
        """The total number of steps of each part."""
        config = self.config
        nodes = sum(bool(parents) for parents in config.causal_graph.parents.values())
        tuned = {} if config.finetuning is None else {"finetuning": config.finetuning.steps}
        return {
            "scm": config.scm.steps * nodes,
            "judge": config.judge.steps,
            config.parts[2]: config.image_steps(len(self._images)),
            **tuned,
        }

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

    def train_judge(self) -> None:
        """Train the network that reads attributes from images."""
        settings, scales = self.config.judge, scales_of(self.splits["train"])
        if self.accelerator.is_main_process:
            self.workspace.keep_factors(scales)
        judge = new_judge(self.config, scales).to(self.accelerator.device)
        optimiser = torch.optim.AdamW(
            judge.parameters(), settings.learning_rate, weight_decay=settings.weight_decay
        )
        course = Course("judge", self.config.seed, settings.steps, settings)
        self._run(course, ReadingObjective(judge), optimiser, scales)

    def train_denoiser(self) -> None:
        """Train the image model."""
        settings, on_gpu = self.config.diffusion, self.accelerator.device.type == "cuda"
        denoiser = new_denoiser(self.config, channels_last=on_gpu).to(self.accelerator.device)
        optimiser = denoising_optimiser(denoiser, settings.learning_rate, settings.weight_decay)
        course = Course("diffusion", self.config.seed, self.steps["diffusion"], settings)
        objective = denoising_objective(self.config, denoiser)
        self._run(course, objective, optimiser, {})

    def train_vae(self) -> None:
        """Train the hierarchical VAE."""
        settings = self.config.hvae
        assert settings is not None, "the configuration has this part"
        network = new_vae(self.config).to(self.accelerator.device)
        course = Course("hvae", self.config.seed, settings.steps, settings)
        objective = FreeEnergyObjective(network, settings.beta)
        self._run(course, objective, _vae_optimiser(network, settings), {})

    def finetune_vae(self) -> None:
        """Fine-tune the hierarchical VAE on what the judge reads from its counterfactuals."""
        config, settings, device = self.config, self.config.finetuning, self.accelerator.device
        assert settings is not None, "the configuration has this part"
        assert config.hvae is not None, "the configuration was checked"
        judge = self.workspace.judge()
        if judge is None or not self.workspace.checkpoints("hvae").steps():
            raise InputError(
                "part finetuning",
                expected="a trained judge and a trained hierarchical VAE",
                got="no judge" if judge is None else "no hierarchical VAE",
                do="train all parts, or these two first",
            )
        beta, network = config.hvae.beta, self.workspace.vae(tuned=False).to(device)
        images = self._first("train", _BOUND_IMAGES, settings.batch, {})
        generator = torch.Generator(device).manual_seed(stream_seed(config.seed, "bound"))
        with self.accelerator.autocast():  # as in the steps
            bound = mean_losses(FreeEnergyObjective(network, beta), images, generator)
        constrained = ConstrainedHVAE(
            network, Lagrangian(bound["validation_loss"], settings.damping)
        )
        objective = CounterfactualObjective(
            constrained.to(device),
            judge.to(device),
            TrainingInterventions(self.workspace.scm(), self._images.attributes),
            beta=beta,
            soft=settings.targets == "soft",
        )
        optimiser = _vae_optimiser(network, settings)
        factor = settings.multiplier_rate / settings.learning_rate
        multiplier = {"params": [constrained.lagrangian.multiplier], "factor": factor}
        optimiser.add_param_group(multiplier | {"weight_decay": 0.0, "maximize": True})
        course = Course("finetuning", config.seed, settings.steps, settings)
        self._run(course, objective, optimiser, {})

    def publish(self) -> None:
        """Save the model from the latest checkpoints, so an unfinished run can be used."""
        self.workspace.publish({part: self.steps[part] for part in self.config.parts[1:]})

    def _run(
        self,
        course: Course,
        objective: AbstractObjective,
        optimiser: torch.optim.Optimizer,
        scales: dict[str, tuple[float, float]],
    ) -> None:
        def on_sheet(step: int) -> None:
            if course.part != "judge":
                self._draw_sheet(course.part, step)

        accelerator, run, batch = self.accelerator, self.config.run, course.settings.batch
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
            self._first("val", run.validation_images, batch, scales),
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

    def _first(
        self, split: str, most: int, size: int, scales: dict[str, tuple[float, float]]
    ) -> list[Batch]:
        """Return the first images of a split on the device, in batches."""
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
    how = model.method((), sampling=_SHEET_STEPS).abduction
    abduction = model.abduct(images, table, **how)
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
