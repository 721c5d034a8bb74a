"""The training loop: steps, validation, checkpoints and early stops.

The state of a run is (weights, moving average, optimiser, step). The rows, the noise and the
dropout of a step follow from (seed, step), so a run that is killed and resumed takes the same
steps as an uninterrupted one.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from types import FrameType

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast
from jaxtyping import Float
from torch import Tensor, nn

from fcfg.support.errors import InputError
from fcfg.support.progress import Reporter
from fcfg.training.feed import Batch, Feed
from fcfg.training.log import RunLog
from fcfg.training.objectives import AnyObjective
from fcfg.training.optimiser import (
    Course,
    MovingAverage,
    fill_optimiser,
    optimiser_for,
    optimiser_tensors,
)
from fcfg.training.sections import Run
from fcfg.training.shards import fill, shard, whole, whole_tensors
from fcfg.training.state import Checkpoint, Checkpoints, under_prefix, with_prefix

_MOST_SKIPPED = 20  # steps in a row


class TrainingStopped(Exception):
    """A run stopped early; its checkpoints are kept, and the message says how to resume.

    The ``code`` is the exit code of the command: 128 + the signal, or 1 after a failure.
    """

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class StopRequest:
    """A request to stop, made by a signal."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal == signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt  # a second Ctrl-C stops at once
        self.signal = number

    def check(self, activity: str) -> None:
        """Raise if a stop was requested; nothing of the activity is kept."""
        if self.signal is not None:
            message = f"{activity}: stopped; run the same command again to go on"
            raise TrainingStopped(message, code=128 + self.signal)

    @contextmanager
    def listening(self) -> Generator[None]:
        """Take SIGINT and SIGTERM as requests to stop after the current step."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(number, self._handle) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What all parts of a run share."""

    settings: Run
    accelerator: Accelerator
    log: RunLog
    reporter: Reporter
    stop: StopRequest

    @property
    def is_main(self) -> bool:
        """Whether this process writes."""
        return self.accelerator.is_main_process

    def counted(self, activity: str, done: int, total: int) -> None:
        """Report work on images, unless a stop was requested."""
        self.stop.check(activity)
        self.reporter.progress(activity, done, total)


class Loop:
    """The training of one module: from the images of a feed, with those of validation beside.

    With ``shards``, all processes together write a checkpoint, which holds whole tensors.
    """

    def __init__(
        self,
        course: Course,
        objective: AnyObjective,
        feed: Feed,
        validation: list[Batch],
        checkpoints: Checkpoints,
        around: Surroundings,
        *,
        shards: bool = False,
    ) -> None:
        self.course, self.objective, self.feed = course, objective, feed
        self.validation, self.checkpoints, self.around = validation, checkpoints, around
        self._shards, ema, accelerator = shards, course.settings.ema, around.accelerator
        average = None if ema is None else deepcopy(objective.subject)
        subject = objective.subject if average is None else average
        #: With the weights to publish, and not compiled.
        self._published = objective if shards and average is None else objective.over(subject)
        for each in dict.fromkeys((objective, self._published)) if shards else ():
            shard(each, accelerator)
        self.optimiser = optimiser_for(objective, course.settings)
        # Before the average, which follows the weights where they are then: this may move them.
        self._wrapped: nn.Module = accelerator.prepare_model(objective, evaluation_mode=shards)
        self.average = None
        if ema is not None and average is not None:
            self.average = MovingAverage(objective.subject, average, ema)
        self.step = 0
        self.best: dict[str, float] | None = None
        self._parameters = list(objective.parameters())
        self._generator = torch.Generator(device=around.accelerator.device)
        self._written = time.monotonic()
        self._loss = torch.zeros((), device=around.accelerator.device)
        self._skipped = 0  # steps in a row
        self._not_taken = 0  # steps since the last line of the log

    def resume(self) -> None:
        """Load the latest checkpoint, if there is one."""
        checkpoint = self.checkpoints.latest()
        if checkpoint is None:
            return
        fill(self.objective.subject, under_prefix("weights", checkpoint.tensors))
        fill_optimiser(self.optimiser, under_prefix("optimiser", checkpoint.tensors))
        if self.average is not None:
            fill(self.average.module, under_prefix("average", checkpoint.tensors))
        self.step, self.best = checkpoint.step, checkpoint.facts["best"]

    def run(self, on_checkpoint: Callable[[], None], on_sheet: Callable[[int], None]) -> None:
        """Take all remaining steps; the main process has callbacks of checkpoints and sheets."""
        course, settings, around = self.course, self.around.settings, self.around
        around.reporter.progress(course.part, self.step, course.steps)
        if self.step:
            around.reporter.say(f"{course.part}: going on at step {self.step} of {course.steps}")
        self._wrapped.train()
        total = torch.zeros((), device=around.accelerator.device)
        logged, began, waited = self.step, time.perf_counter(), self.feed.waited
        while self.step < course.steps:
            total += self.take_step()
            done = self.step
            validates = _every(done, course.steps, settings.validations)  # the last step, too
            if done % settings.log_steps == 0 or validates:
                loss = self._agreed(total / (done - logged))
                seconds = time.perf_counter() - began
                skipped = {} if course.settings.skip is None else {"skipped": self._not_taken}
                waiting = (self.feed.waited - waited) / seconds
                self._log(loss=loss, rate=(done - logged) / seconds, data_wait=waiting, **skipped)
                around.reporter.progress(course.part, done, course.steps, loss)
                total.zero_()
                self._not_taken = 0
                logged, began, waited = done, time.perf_counter(), self.feed.waited
            improved = validates and self._validate()
            agreed = logged == done or around.accelerator.num_processes == 1
            stop = around.stop.signal if agreed else None
            if self._checkpoint_is_due(improved or stop is not None, agreed=agreed):
                self._write(on_checkpoint)
            if stop is not None:
                raise TrainingStopped(
                    f"{course.part}: stopped at step {done} of {course.steps}, which is kept; run "
                    "the same command again to go on",
                    code=128 + stop,
                )
            if around.is_main and _every(done, course.steps, settings.sheets):
                on_sheet(done)

    def take_step(self) -> Float[Tensor, ""]:
        """Take one optimiser step and return the loss on the rows of this process.

        A step whose gradient is too large, or no number, is skipped; the loss is the last one.
        """
        course, settings, accelerator = self.course, self.course.settings, self.around.accelerator
        batch = self.feed.at(self.step)
        self._generator.manual_seed(course.stream(self.step))
        rows = share_of(settings.batch, accelerator)
        shape = (settings.batch, *batch.images.shape[1:])
        draws = tuple(drawn[rows] for drawn in self.objective.draw(shape, self._generator))
        torch.manual_seed(course.stream(self.step, accelerator.process_index))
        for group in self.optimiser.param_groups:
            group["lr"] = course.rate_at(self.step) * group.get("factor", 1.0)
        mean = torch.zeros((), device=accelerator.device)
        size = len(batch.images) // settings.accumulate
        for number, part in enumerate(batch.split(size)):
            part_draws = tuple(drawn.split(size)[number] for drawn in draws)
            last = number == settings.accumulate - 1
            with nullcontext() if last else accelerator.no_sync(self._wrapped):
                loss = self._wrapped(part, part_draws) / settings.accumulate
                accelerator.backward(loss)
            mean += loss.detach()
        if self._is_sound():
            self.optimiser.step()
            self.objective.after_step()
            self._loss, self._skipped = mean, 0
        else:
            self._skipped += 1
            self._not_taken += 1
        self.optimiser.zero_grad(set_to_none=True)
        if self.average is not None:
            self.average.update(self.step)
        self.step += 1
        if self._skipped > _MOST_SKIPPED:
            raise self._diverged(f"too steep in {self._skipped} steps in a row")
        return self._loss

    def _is_sound(self) -> bool:
        """Clip the gradients; return whether the step should be taken."""
        settings = self.course.settings
        if settings.clip is None and settings.skip is None:
            return True
        norm = nn.utils.clip_grad_norm_(self._parameters, settings.clip or math.inf)
        return settings.skip is None or bool(whole(norm) < settings.skip)

    def _agreed(self, loss: Float[Tensor, ""]) -> float:
        """Return the loss over all processes, and share a request to stop among them."""
        stop = self.around.stop
        request = torch.tensor(float(stop.signal or 0), device=loss.device)
        gathered = self.around.accelerator.gather(torch.stack([loss, request])[None])
        value, number = gathered[:, 0].mean().item(), gathered[:, 1].max().item()
        if not math.isfinite(value):
            raise self._diverged(str(value))
        stop.signal = stop.signal or int(number) or None  # it may have just arrived
        return value

    def _diverged(self, value: str) -> TrainingStopped:
        return TrainingStopped(
            f"{self.course.part}: the loss became {value} at or before step {self.step}; "
            f"{self._kept}; lower the learning rate, set clip: 1.0, or use run.precision=float32"
        )

    @property
    def _kept(self) -> str:
        """Say which checkpoint can be relied on."""
        kept = self.checkpoints.steps()
        return f"the checkpoint of step {kept[-1]} is whole" if kept else "nothing was kept"

    def _log(self, **values: float) -> None:
        """Write a line to the log, with what the objective has to say."""
        if self.around.is_main:
            own = self.objective.log_values()
            self.around.log.write(self.course.part, self.step, **values, **own)

    def _validate(self) -> bool:
        """Log the validation loss of the published weights; return whether it is the lowest."""
        objective = self._published
        self._generator.manual_seed(self.course.stream("validation"))
        with self.around.accelerator.autocast():
            losses = objective.mean_losses(self.validation, self._generator)
        self._log(**losses)
        advice = objective.advice(losses) if self.step == self.course.steps else None
        if advice is not None:
            self.around.reporter.say(f"{self.course.part}: {advice}")
        loss = losses["validation_loss"]
        improved = self.best is None or loss < self.best["loss"]
        if improved:
            self.best = {"step": self.step, "loss": loss}
        return improved

    def _checkpoint_is_due(self, is_wanted: bool, *, agreed: bool) -> bool:
        """Return whether this process takes part in a checkpoint: with shards, all do or none."""
        settings, around = self.around.settings, self.around
        minutes = (time.monotonic() - self._written) / 60
        by_steps = self.step % settings.checkpoint_steps == 0 or self.step == self.course.steps
        is_due = is_wanted or by_steps or minutes >= settings.checkpoint_minutes
        if not self._shards:
            return is_due and around.is_main
        if agreed and not by_steps:  # clocks differ, and so may losses in their last bits
            answer = torch.tensor(float(is_due), device=around.accelerator.device)
            return bool(broadcast(answer))
        return by_steps

    def _write(self, on_checkpoint: Callable[[], None]) -> None:
        """Gather what a checkpoint holds; the main process writes it."""
        self._written = time.monotonic()
        modules: dict[str, nn.Module] = {"weights": self.objective.subject}
        if self.average is not None:
            modules["average"] = self.average.module
        tensors = with_prefix("optimiser", optimiser_tensors(self.optimiser))
        for prefix, module in modules.items():
            tensors |= with_prefix(prefix, module.state_dict())
        tensors = whole_tensors(tensors, keep=self.around.is_main)
        if self.around.is_main:
            self._keep(tensors, on_checkpoint)

    def _keep(self, tensors: dict[str, Tensor], on_checkpoint: Callable[[], None]) -> None:
        """Write a checkpoint, unless the weights are not finite."""
        names = (f"weights.{name}" for name, _ in self.objective.subject.named_parameters())
        if not all(bool(tensors[name].isfinite().all()) for name in names):
            raise self._diverged("nan")
        best = None if self.best is None else int(self.best["step"])
        try:
            self.checkpoints.write(Checkpoint(self.step, tensors, {"best": self.best}), best)
        except OSError as error:
            raise TrainingStopped(
                f"{self.course.part}: the checkpoint of step {self.step} could not be written to "
                f"{self.checkpoints.folder} ({error.strerror}); {self._kept}; make room and run "
                "the same command again"
            ) from error
        try:
            on_checkpoint()
        except InputError as error:
            raise TrainingStopped(
                f"{self.course.part}: step {self.step} is kept, but the pipeline could not be "
                f"saved ({str(error).rstrip('.')}); see to it and run the same command again"
            ) from error


def share_of(batch: int, accelerator: Accelerator) -> slice:
    """Return the rows of a batch that belong to this process."""
    size = batch // accelerator.num_processes
    return slice(accelerator.process_index * size, (accelerator.process_index + 1) * size)


def _every(done: int, total: int, times: int) -> bool:
    """Return whether a step is one of ``times`` evenly spaced ones, which include the last.

    >>> [done for done in range(1, 11) if _every(done, 10, 4)]
    [3, 5, 8, 10]
    """
    return done * times // total > (done - 1) * times // total
