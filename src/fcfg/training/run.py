"""One command: data in, a pipeline folder out.

The parts follow each other: the causal model of the attributes, the judge, the denoiser. Each goes
on from its own checkpoints, so that the same command finishes what an earlier one began.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, is_initialized
from accelerate.utils import InitProcessGroupKwargs

from fcfg.datasets.examples import Examples, Splits
from fcfg.datasets.portraits.data import DrawnData
from fcfg.datasets.registry import list_data, load_data
from fcfg.diffusion.denoiser import Denoiser
from fcfg.pipeline.runtime import own_gpu
from fcfg.support.errors import InputError, check_among
from fcfg.support.files import single_writer, write_atomically
from fcfg.support.hashing import stream_seed
from fcfg.training.config import Part, Run, TrainingConfig
from fcfg.training.data_digest import digest_data
from fcfg.training.feed import Batch, Feed, scales_of
from fcfg.training.log import AbstractReporter, Quiet, RunLog
from fcfg.training.loop import Course, Loop, share_of
from fcfg.training.objectives import AbstractObjective, DenoisingObjective, ReadingObjective
from fcfg.training.pictures import counterfactual_sheet
from fcfg.training.state import Checkpoint
from fcfg.training.stopping import StopRequest, TrainingStopped
from fcfg.training.trial import try_networks
from fcfg.training.workspace import Workspace, new_denoiser, new_judge


def train(
    config: TrainingConfig,
    out: Path,
    part: Part = "all",
    *,
    skip_bad: bool = False,
    reporter: AbstractReporter | None = None,
) -> Path:
    """Train the parts of a pipeline into a folder, or go on where an earlier run stopped.

    Args:
        config: What to do.
        out: The pipeline folder, for :func:`fcfg.load`.
        part: 'all', or only 'scm', 'judge' or 'diffusion'.
        skip_bad: Leave images out that cannot be read, instead of refusing them.
        reporter: Is told how it goes.

    Returns:
        The folder.

    Raises:
        TrainingStopped: After Ctrl-C and the like; what was done is kept.
    """
    check_among("part", part, get_args(Part))
    accelerator = accelerator_for(config.run)
    check_shares(config, accelerator)
    try_networks(config, accelerator.num_processes)
    reporter = reporter if reporter is not None and accelerator.is_main_process else Quiet()
    workspace, stop = Workspace(out, config), StopRequest()
    workspace.prepare()
    main = accelerator.is_main_process
    with single_writer(workspace.folder) if main else nullcontext(), stop.listening():
        if main:
            workspace.claim()
        log = RunLog(workspace.log, workspace.board if main else None)

        def counted(what: str, done: int, total: int) -> None:
            stop.check(what)
            reporter.counted(what, done, total)

        with accelerator.main_process_first():  # which fills the cache of images
            splits = load_data(config.data, config.space, skip_bad=skip_bad, on_progress=counted)
        if main and not isinstance(config.data, DrawnData):  # which follow from the configuration
            digests = digest_data(splits, partial(counted, "hashing images"))
            if not workspace.check_data(digests):
                reporter.say("the run began without a digest of its data; it has one from now on")
        counts = ", ".join(f"{len(examples)} {name}" for name, examples in splits.items())
        reasons = [f"{count} ({reason})" for reason, count in left_out(config).items()]
        reporter.say(
            f"images: {counts}" + (f"; left out: {', '.join(reasons)}" if reasons else "")
        )
        session = Session(config, workspace, splits, accelerator, log, reporter, stop)
        asked = [name for name, steps in session.steps.items() if part in ("all", name) and steps]
        reporter.say(f"steps: {', '.join(f'{name} {session.steps[name]:,}' for name in asked)}")
        try:
            with torch.random.fork_rng(), torch.backends.cudnn.flags(enabled=True, benchmark=True):
                for name, work in session.parts().items():
                    if part in ("all", name):
                        work()
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


def left_out(config: TrainingConfig) -> dict[str, int]:
    """How many rows of the labels are not used, by the reason."""
    if isinstance(config.data, DrawnData):
        return {}
    return dict(list_data(config.data, config.space).excluded)


def accelerator_for(run: Run) -> Accelerator:
    """Placement, data parallelism and autocast, as the machine and the settings have it."""
    own_gpu()  # or a refusal: Accelerate asks for it, on a CPU, too
    on_gpu = torch.cuda.is_available() and run.device == "auto"
    bf16 = run.precision == "bf16" or (run.precision == "auto" and on_gpu)
    autocast = "bf16" if bf16 else "no"
    check_as_before(autocast, "cuda" if on_gpu else "cpu")
    patience = InitProcessGroupKwargs(timeout=timedelta(hours=2))  # while one reads all images
    return Accelerator(mixed_precision=autocast, cpu=not on_gpu, kwargs_handlers=[patience])


def check_as_before(*asked: str) -> None:
    """Refuse a second run in this process that computes otherwise: Accelerate cannot do that.

    Args:
        asked: What autocast computes with, or 'no', and the kind of device.
    """
    state = AcceleratorState() if is_initialized() else None
    before = asked if state is None else (state.mixed_precision, state.device.type)
    if asked != before:
        expected, got = (
            f"{'float32' if autocast == 'no' else autocast} on {device}"
            for autocast, device in (before, asked)
        )
        raise InputError(
            "run.precision and run.device",
            expected=f"{expected}, as this process trained before",
            got=got,
            do="train in another process, such as that of `fcfg train`",
        )


def check_shares(config: TrainingConfig, accelerator: Accelerator) -> None:
    """Refuse batches that do not divide evenly among the processes."""
    parts = {
        "diffusion.batch": (config.diffusion.batch, config.diffusion.accumulate),
        "judge.batch": (config.judge.batch, 1),
    }
    for key, (batch, pieces) in parts.items():
        divisor = accelerator.num_processes * pieces
        if batch % divisor:
            raise InputError(
                key,
                expected=f"a multiple of {divisor}, for {accelerator.num_processes} processes",
                got=batch,
                do=f"--set {key}={max(divisor, batch // divisor * divisor)}",
            )


def denoising_optimiser(
    denoiser: Denoiser, learning_rate: float, weight_decay: float
) -> torch.optim.AdamW:
    """Adam with decoupled weight decay, in one kernel where there is a GPU.

    The paper says Adam with a weight decay of 1e-4. As a part of the loss, which is a mean over
    pixels, such a decay outweighs the gradient of everything that the condition passes through:
    within some thousand steps the network no longer knows it. docs/training.md has numbers.
    """
    on_gpu = denoiser.device.type == "cuda"
    return torch.optim.AdamW(
        denoiser.parameters(), learning_rate, weight_decay=weight_decay, fused=on_gpu
    )


@dataclass(frozen=True, eq=False)
class Session:
    """A run of the command: everything the parts share."""

    config: TrainingConfig
    workspace: Workspace
    splits: Splits
    accelerator: Accelerator
    log: RunLog
    reporter: AbstractReporter
    stop: StopRequest

    def parts(self) -> dict[str, Callable[[], None]]:
        """What to do, in order."""
        return {"scm": self.fit_scm, "judge": self.train_judge, "diffusion": self.train_denoiser}

    @property
    def steps(self) -> dict[str, int]:
        """How many each part takes from its beginning to its end."""
        nodes = sum(bool(parents) for parents in self.config.causal_graph.parents.values())
        return {
            "scm": self.config.scm.steps * nodes,
            "judge": self.config.judge.steps,
            "diffusion": self.config.diffusion_steps(len(self.splits["train"])),
        }

    def fit_scm(self) -> None:
        """Fit the mechanisms of attributes that have parents; quick, and so never resumed."""
        checkpoints, settings = self.workspace.checkpoints("scm"), self.config.scm
        graph = self.config.causal_graph
        children = [node for node in graph.order if graph.parents[node]]  # as they are fitted
        if checkpoints.steps() or not self.accelerator.is_main_process:
            return
        scm = self.workspace.scm()
        total = self.steps["scm"]
        self.log.rewind("scm", 0)
        if children:
            self.reporter.begin("scm", 0, total)

        def on_step(node: str, step: int, loss: float) -> None:
            self.stop.check("scm")
            done = children.index(node) * settings.steps + step + 1
            if done % self.config.run.log_steps == 0 or done == total:
                self.log.write("scm", done, loss=loss)
                self.reporter.progress("scm", done, loss)

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
        """Train the network that reads attributes."""
        settings, scales = self.config.judge, scales_of(self.splits["train"])
        if self.accelerator.is_main_process:
            self.workspace.keep_factors(scales)
        judge = new_judge(self.config, scales).to(self.accelerator.device)
        optimiser = torch.optim.AdamW(
            judge.parameters(), settings.learning_rate, weight_decay=settings.weight_decay
        )
        course = Course(
            part="judge",
            seed=self.config.seed,
            steps=settings.steps,
            batch=settings.batch,
            learning_rate=settings.learning_rate,
            warmup=settings.warmup,
            decay="cosine",
        )
        self._run(course, ReadingObjective(judge), optimiser, scales, lambda step: None)

    def train_denoiser(self) -> None:
        """Train the image model."""
        settings, on_gpu = self.config.diffusion, self.accelerator.device.type == "cuda"
        denoiser = new_denoiser(self.config, channels_last=on_gpu).to(self.accelerator.device)
        optimiser = denoising_optimiser(denoiser, settings.learning_rate, settings.weight_decay)
        course = Course(
            part="diffusion",
            seed=self.config.seed,
            steps=self.steps["diffusion"],
            batch=settings.batch,
            learning_rate=settings.learning_rate,
            warmup=settings.warmup,
            decay=settings.decay,
            clip=settings.clip,
            ema=settings.ema,
            accumulate=settings.accumulate,
        )
        objective = DenoisingObjective(denoiser, p_null=settings.p_null, p_group=settings.p_group)

        def draw_sheet(step: int) -> None:
            pipeline = self.workspace.pipeline().to(self.accelerator.device)
            page = counterfactual_sheet(pipeline, self.splits["val"])
            path = self.workspace.sheet(step)
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, lambda file: page.save(file, "PNG"))
            self.reporter.say(f"sheet of counterfactuals: {path}")

        self._run(course, objective, optimiser, {}, draw_sheet)

    def publish(self) -> None:
        """Save the pipeline as it is now; a run that is not finished can be tried out, too."""
        self.workspace.publish({part: self.steps[part] for part in ("judge", "diffusion")})

    def _run(
        self,
        course: Course,
        objective: AbstractObjective,
        optimiser: torch.optim.Optimizer,
        scales: dict[str, tuple[float, float]],
        on_sheet: Callable[[int], None],
    ) -> None:
        accelerator, run, space = self.accelerator, self.config.run, self.config.space
        if run.compile or (run.compile is None and accelerator.device.type == "cuda"):
            alone = accelerator.num_processes == course.accumulate == 1
            objective.fuse(cuda_graphs=run.cuda_graphs and alone)
        feed = Feed(
            self.splits["train"],
            space,
            scales,
            device=accelerator.device,
            seed=stream_seed(course.seed, course.part),
            batch=course.batch,
            share=share_of(course.batch, accelerator),
        )
        loop = Loop(
            course,
            objective,
            optimiser,
            feed,
            self._validation(course.batch, scales),
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

    def _validation(self, size: int, scales: dict[str, tuple[float, float]]) -> list[Batch]:
        """The first validation images, in batches, on the device."""
        examples, limit = self.splits["val"], self.config.run.validation_images
        count = min(limit, len(examples))
        feed = Feed(
            first(examples, count),
            self.config.space,
            scales,
            device=self.accelerator.device,
            seed=0,
            batch=count,
            share=slice(None),
        )
        whole = feed.at(0)
        feed.close()
        pieces = zip(
            *(t.split(size) for t in (whole.images, whole.values, whole.factors)), strict=True
        )
        return [Batch(*piece) for piece in pieces]


def first(examples: Examples, count: int) -> Examples:
    """The first examples of a split."""
    return Examples(
        np.array(examples.images[:count]),
        {name: column[:count] for name, column in examples.attributes.items()},
        examples.names[:count],
        {name: column[:count] for name, column in examples.factors.items()},
    )
