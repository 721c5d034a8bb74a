"""The loop: one step after the other, with everything that keeps a long run alive.

The state of a run is (weights, moving average, optimiser, step). The rows, the noise and the
dropout of a step follow from (seed, step), so that a run that was killed and resumed takes the
same steps as one that was not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from fcfg.pipeline.batching import evaluating
from fcfg.support.errors import InputError
from fcfg.support.hashing import stream_seed
from fcfg.training.config import Decay, Run
from fcfg.training.feed import Batch, Feed
from fcfg.training.log import AbstractReporter, RunLog
from fcfg.training.objectives import AbstractObjective, Draws
from fcfg.training.state import (
    Checkpoint,
    Checkpoints,
    fill_optimiser,
    optimiser_tensors,
    under_prefix,
    with_prefix,
)
from fcfg.training.stopping import StopRequest, TrainingStopped


@dataclass(frozen=True)
class Course:
    """What a part of a run is to do."""

    part: str
    seed: int
    steps: int
    batch: int  #: images in a step, over all processes
    learning_rate: float
    warmup: int = 0
    decay: Decay = "constant"
    clip: float | None = None
    ema: float | None = None  #: decay of the moving average; none is kept without
    accumulate: int = 1

    def rate_at(self, step: int) -> float:
        """Learning rate of a step, from 0."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        if self.decay == "constant":
            return self.learning_rate
        share = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))


class MovingAverage:
    r"""A moving average of weights that forgets its beginnings.

    .. math:: \bar\theta \leftarrow d_n \bar\theta + (1 - d_n)\, \theta,
        \qquad d_n = \min\bigl(d, \tfrac{1 + n}{10 + n}\bigr)

    Args:
        module: What is averaged; its parameters stay the same objects.
        decay: d, which :math:`d_n` rises to.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self._model = AveragedModel(module)
        self._decay = decay
        self._current = [p.detach() for p in module.parameters()]
        self._average = [p.detach() for p in self._model.module.parameters()]

    @property
    def module(self) -> nn.Module:
        """The module with averaged weights."""
        return self._model.module

    def update(self, step: int) -> None:
        """Take in the weights after a step, from 0.

        The lists are made once: to collect a few hundred parameters in every step costs more
        than to average them.
        """
        decay = min(self._decay, (1 + step) / (10 + step)) if step else 0.0
        get_ema_multi_avg_fn(decay)(self._average, self._current, step)


class Loop:
    """Trains one module.

    Args:
        course: What to do.
        objective: The module with its loss.
        optimiser: Over its parameters.
        feed: The training images.
        validation: Fixed batches with fixed draws.
        accelerator: Placement, data parallelism, autocast.
        checkpoints: Where states are kept.
        log: Where events are written.
        run: How to behave.
        reporter: Is told how it goes.
        stop: Whether somebody asked to stop.
    """

    def __init__(
        self,
        course: Course,
        objective: AbstractObjective,
        optimiser: torch.optim.Optimizer,
        feed: Feed,
        validation: list[Batch],
        *,
        accelerator: Accelerator,
        checkpoints: Checkpoints,
        log: RunLog,
        run: Run,
        reporter: AbstractReporter,
        stop: StopRequest,
    ) -> None:
        self.course, self.objective, self.optimiser = course, objective, optimiser
        self.feed, self.validation = feed, validation
        self.accelerator, self.checkpoints, self.log = accelerator, checkpoints, log
        self.run_settings, self.reporter, self.stop = run, reporter, stop
        self.average = None if course.ema is None else MovingAverage(objective.subject, course.ema)
        self._parameters = list(objective.parameters())
        self.step = 0
        self.best: dict[str, float] | None = None
        self._generator = torch.Generator(device=accelerator.device)
        self._written = time.monotonic()
        self._wrapped: nn.Module = accelerator.prepare(objective)

    @property
    def published(self) -> nn.Module:
        """The weights a user gets: averaged, where an average is kept."""
        return self.objective.subject if self.average is None else self.average.module

    def resume(self) -> bool:
        """Go on where the newest checkpoint stands; whether there was one."""
        checkpoint = self.checkpoints.latest()
        if checkpoint is None:
            return False
        self.objective.subject.load_state_dict(under_prefix("weights", checkpoint.tensors))
        fill_optimiser(self.optimiser, under_prefix("optimiser", checkpoint.tensors))
        if self.average is not None:
            self.average.module.load_state_dict(under_prefix("average", checkpoint.tensors))
        self.step, self.best = checkpoint.step, checkpoint.facts["best"]
        return True

    def run(self, on_checkpoint: Callable[[], None], on_sheet: Callable[[int], None]) -> None:
        """Take all steps that are left.

        Args:
            on_checkpoint: Called by the first process after each checkpoint.
            on_sheet: Called by the first process with the step, as often as sheets are wanted.
        """
        course, settings = self.course, self.run_settings
        self.reporter.begin(course.part, self.step, course.steps)
        self._wrapped.train()
        total = torch.zeros((), device=self.accelerator.device)
        logged, began, waited = self.step, time.perf_counter(), self.feed.waited
        while self.step < course.steps:
            total += self.take_step()
            done = self.step
            validates = _every(done, course.steps, settings.validations)
            if done % settings.log_steps == 0 or validates or done == course.steps:
                loss = self._agreed(total / (done - logged))
                seconds = time.perf_counter() - began
                if self.accelerator.is_main_process:
                    share = (self.feed.waited - waited) / seconds
                    rate = (done - logged) / seconds
                    self.log.write(course.part, done, loss=loss, rate=rate, data_wait=share)
                self.reporter.progress(course.part, done, loss)
                total.zero_()
                logged, began, waited = done, time.perf_counter(), self.feed.waited
            improved = validates and self._validate()
            if (self._checkpoint_is_due() or improved) and self.accelerator.is_main_process:
                self._write(on_checkpoint)
            if self.stop.signal is not None and (logged == done or self._alone):
                self._end_early(on_checkpoint)
            if self.accelerator.is_main_process and _every(done, course.steps, settings.sheets):
                on_sheet(done)

    @property
    def _alone(self) -> bool:
        return self.accelerator.num_processes == 1

    def take_step(self) -> Float[Tensor, ""]:
        """One step of the optimiser; the loss of this process's share."""
        course, accelerator = self.course, self.accelerator
        batch = self.feed.at(self.step)
        self._generator.manual_seed(stream_seed(course.seed, course.part, self.step))
        mine = share_of(course.batch, accelerator)
        whole = self.objective.draw(_shape(batch.images, course.batch), self._generator)
        draws = tuple(drawn[mine] for drawn in whole)
        torch.manual_seed(
            stream_seed(course.seed, course.part, self.step, accelerator.process_index)
        )
        for group in self.optimiser.param_groups:
            group["lr"] = course.rate_at(self.step)
        mean = torch.zeros((), device=accelerator.device)
        for number, (piece, drawn) in enumerate(_pieces(batch, draws, course.accumulate)):
            last = number == course.accumulate - 1
            with nullcontext() if last else accelerator.no_sync(self._wrapped):
                loss = self._wrapped(piece, drawn) / course.accumulate
                accelerator.backward(loss)
            mean += loss.detach()
        if course.clip is not None:
            nn.utils.clip_grad_norm_(self._parameters, course.clip)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if self.average is not None:
            self.average.update(self.step)
        self.step += 1
        return mean

    def _agreed(self, loss: Float[Tensor, ""]) -> float:
        """The loss over all processes; where one was asked to stop, all are."""
        asked = torch.tensor(float(self.stop.signal or 0), device=loss.device)
        everyone = self.accelerator.gather(torch.stack([loss, asked])[None])
        value, signal = everyone[:, 0].mean().item(), everyone[:, 1].max().item()
        if not math.isfinite(value):
            raise self._diverged(value)
        self.stop.signal = self.stop.signal or int(signal) or None  # it may have come just now
        return value

    def _diverged(self, value: float) -> TrainingStopped:
        kept = self.checkpoints.steps()
        return TrainingStopped(
            f"{self.course.part}: the loss became {value} at or before step {self.step}; "
            + (f"the checkpoint of step {kept[-1]} is whole" if kept else "nothing was kept")
            + "; lower the learning rate, set clip: 1.0, or use run.precision=float32",
            code=1,
        )

    @torch.no_grad()
    def _validate(self) -> bool:
        """Measure the loss of the published weights on held-out images; whether it is the best."""
        judged = self.objective.over(self.published)
        self._generator.manual_seed(stream_seed(self.course.seed, self.course.part, "validation"))
        losses: dict[str, float] = {}
        count = sum(len(batch.images) for batch in self.validation)
        with evaluating(judged), self.accelerator.autocast():
            for batch in self.validation:
                rows = len(batch.images)
                draws = judged.draw(_shape(batch.images, rows), self._generator)
                for name, variant in judged.variants(draws).items():
                    share = rows / count * float(judged(batch, variant))
                    losses[name] = losses.get(name, 0.0) + share
        if self.accelerator.is_main_process:
            self.log.write(self.course.part, self.step, **losses)
        advice = judged.advice(losses) if self.step == self.course.steps else None
        if advice is not None:
            self.reporter.say(f"{self.course.part}: {advice}")
        loss = losses["validation_loss"]
        improved = self.best is None or loss < self.best["loss"]
        if improved:
            self.best = {"step": self.step, "loss": loss}
        return improved

    def _checkpoint_is_due(self) -> bool:
        settings = self.run_settings
        minutes = (time.monotonic() - self._written) / 60
        by_steps = self.step % settings.checkpoint_steps == 0 or self.step == self.course.steps
        return by_steps or minutes >= settings.checkpoint_minutes

    def _write(self, on_checkpoint: Callable[[], None]) -> None:
        """Write the state, unless it is broken."""
        self._written = time.monotonic()
        subject = self.objective.subject
        if not all(bool(parameter.isfinite().all()) for parameter in subject.parameters()):
            raise self._diverged(math.nan)
        tensors = with_prefix("weights", subject.state_dict())
        tensors |= with_prefix("optimiser", optimiser_tensors(self.optimiser))
        if self.average is not None:
            tensors |= with_prefix("average", self.average.module.state_dict())
        best = None if self.best is None else int(self.best["step"])
        try:
            self.checkpoints.write(Checkpoint(self.step, tensors, {"best": self.best}), best)
        except OSError as error:
            kept = self.checkpoints.steps()
            raise TrainingStopped(
                f"{self.course.part}: the checkpoint of step {self.step} could not be written to "
                f"{self.checkpoints.folder} ({error.strerror}); "
                + (f"that of step {kept[-1]} is whole" if kept else "there is none before it")
                + "; make room and run the same command again",
                code=1,
            ) from error
        try:
            on_checkpoint()
        except InputError as error:
            raise TrainingStopped(
                f"{self.course.part}: step {self.step} is kept, but the pipeline could not be "
                f"saved ({str(error).rstrip('.')}); see to it and run the same command again",
                code=1,
            ) from error

    def _end_early(self, on_checkpoint: Callable[[], None]) -> None:
        """Keep what is done, and end as the signal asks."""
        if self.accelerator.is_main_process and self.step not in self.checkpoints.steps():
            self._write(on_checkpoint)
        signal = self.stop.signal or 0
        raise TrainingStopped(
            f"{self.course.part}: stopped at step {self.step} of {self.course.steps}, which is "
            "kept; run the same command again to go on",
            code=128 + signal,
        )


def share_of(batch: int, accelerator: Accelerator) -> slice:
    """Rows of a batch that this process takes."""
    size = batch // accelerator.num_processes
    return slice(accelerator.process_index * size, (accelerator.process_index + 1) * size)


def _shape(images: Tensor, rows: int) -> tuple[int, int, int, int]:
    """Of a batch with so many rows."""
    _, channels, height, width = images.shape
    return rows, channels, height, width


def _pieces(batch: Batch, draws: Draws, count: int) -> Iterator[tuple[Batch, Draws]]:
    """A batch in parts, one after the other."""
    size = len(batch.images) // count
    for start in range(0, size * count, size):
        rows = slice(start, start + size)
        piece = Batch(batch.images[rows], batch.values[rows], batch.factors[rows])
        yield piece, tuple(drawn[rows] for drawn in draws)


def _every(done: int, total: int, times: int) -> bool:
    """Whether this is one of so many steps, evenly spaced, the last one included.

    >>> [done for done in range(1, 11) if _every(done, 10, 4)]
    [3, 5, 8, 10]
    """
    return done * times // total > (done - 1) * times // total
