"""From a question to its events: progress with coarse pictures, the answer, and what checks it.

The abduction of a picture, with the factual branch of anchored predictions, is kept and serves
every later question about the picture. So is the whole answer.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

from PIL import Image
from torch import Tensor

from fcfg import answers
from fcfg.answers import AnswerLoop, Memory
from fcfg.datasets import portraits
from fcfg.generation.results import Result, distances, results_of
from fcfg.model import AbstractCounterfactual
from fcfg.sampling import StepRecord
from fcfg.sheet import difference_map, difference_scale
from fcfg.studio.engine import Job
from fcfg.studio.models import describe_plan
from fcfg.studio.pictures import png_of
from fcfg.studio.questions import PreparedQuestion, as_command, as_python
from fcfg.support.images import data_url, pixel_range_is_known, to_png
from fcfg.trust import measure_trust, unchecked
from fcfg.version import __version__

Event: TypeAlias = dict[str, Any]

_BETWEEN = 0.1  # seconds from one coarse picture to the next


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers questions, and keeps what later ones need."""

    abductions: Memory = field(default_factory=lambda: Memory(48 * 2**20))
    finished: Memory = field(default_factory=lambda: Memory(16 * 2**20))  #: events of answers

    def answer(self, question: PreparedQuestion, job: Job) -> None:
        """Answer a question by events that a job receives, which also says when to stop."""
        job.emit({"type": "started"})
        asked = question.asked.model_dump(exclude={"visitor", "keep", "guidance", "sampling"})
        key = repr((question.model.name, asked, describe_plan(question.plan)))
        events: list[Event] | None = self.finished.get(key)
        if events is None:
            with pixel_range_is_known():
                events = _Work(self.abductions, question, job).do()
            self.finished.put(key, events)
        else:
            for event in events:
                job.emit(event)


class _Work:
    """The work on one question."""

    def __init__(self, abductions: Memory, question: PreparedQuestion, job: Job) -> None:
        self._asked, self._question, self._job = question.asked, question, job
        self._model, self._plan = question.model.model, question.plan
        self._factual = question.picture.image
        self._begin, self._last_preview = time.monotonic(), 0.0
        self._path: Any = None  # of the abduction, where coarse pictures are shown
        self._events: list[Event] = []  # all but those of progress
        checks = self._asked.trust and self._model.traits.trust
        self._to_do = answers.Question(
            "the question",
            self._plan.shared(),  # has a path, for previews and for any guidance
            lambda: question.action,
            returns=int(self._asked.reverse),
            extra=self._plan.rows if checks else 0,  # or less, if anchored
        )
        self._loop = AnswerLoop(
            self._model,
            self._factual,
            question.factual,
            [self._to_do],
            about=question.model.name,
            memory=abductions,
            on_step=self._show_step,
        )

    def do(self) -> list[Event]:
        """Do all parts of the work, cheap and important ones first."""
        to_do, progress, block = self._to_do, self._loop.progress, next(iter(self._loop))
        abduction = block.abduction(to_do.plan)
        if not progress.done:  # kept since an earlier question
            progress.advance(to_do.plan.abduction_rows)
        if self._question.opening is None:  # which is better than a coarse picture
            self._path = getattr(abduction, "path", None)
        pair: Any = block.predict(to_do)
        limits = self._model.limits(self._asked.do, self._plan)
        result = self._show_answer(pair)
        drawing = self._question.picture.drawing
        if self._asked.truth and drawing is not None:
            truth = portraits.counterfactual(drawing, dict(pair.attributes)).images
            self._show("truth", truth, pair.images.float())
        if to_do.extra:
            with block.phase("trust", down=to_do.extra) as on_step:
                measured = measure_trust(self._model, self._factual, pair, on_step=on_step)
            result = result.checked(measured, 0).doubted(limits)
            self._show_trust(result)
        back = block.reverse(to_do, pair)
        if back is not None:
            error = self._show("reversal", back.images, self._factual)
            rows = result.network_rows | {"reversal": back.spent[0]}
            before = result.reasons
            result = replace(result, reversal_error=error, network_rows=rows).doubted(limits)
            if result.signals and result.reasons != before:
                self._show_trust(result)
        python, command = as_python(self._question), as_command(self._question)
        self._emit("done", record=self._record(result), python=python, command=command)
        return self._events

    def _emit(self, kind: str, **values: Any) -> None:
        self._events.append({"type": kind, **values})
        self._job.check()
        self._job.emit(self._events[-1])

    def _show_step(self, phase: str, step: StepRecord, share: float) -> None:
        """Tell the progress, with a coarse picture now and then; or end the work."""
        self._job.check()
        event = {"type": "progress", "phase": phase, "share": round(share, 4)}
        now = time.monotonic()
        if phase == "prediction" and now - self._last_preview >= _BETWEEN:
            image = self._preview(step)
            if image is not None:
                self._last_preview = now
                event["image"] = data_url(png_of(image))
        self._job.emit(event)

    def _preview(self, step: StepRecord) -> Tensor | None:
        """Return a coarse answer, if there is one.

        The picture and its counterfactual start from the same noise, and differ more with each
        step: what they differ by so far is added to the picture. On drawings this is nearer to the
        answer than the picture is, at every step; a run with few steps is not.
        """
        if self._path is None or (step.index + 1) / step.steps < 0.4:
            return None
        states, now = self._path.states, step.trajectory.x
        if now.shape[1:] != self._factual.shape[1:]:
            return None  # latents, which are no picture
        return self._factual + (now - states[len(states) - 2 - step.index].to(now)).cpu()

    def _show_answer(self, pair: AbstractCounterfactual) -> Result:
        question, before, after = self._question, self._factual[0], pair.images[0].float()
        shown = question.picture.picture
        about = {"file": str(shown.path), "stored": shown.stored, "prepared": shown.notes}
        about["attributes_from"] = "given"
        (result,) = results_of(self._model, self._factual, question.factual, pair, about=[about])
        scale = difference_scale(before, after.nan_to_num())
        change = difference_map(before, after.nan_to_num(), scale)
        self._emit(
            "answer",
            image=data_url(png_of(pair.images)),
            difference=data_url(to_png(Image.fromarray(change))),
            difference_scale=scale,
            change=result.change,
            attributes=result.counterfactual,
            judged=result.judged,
            not_reached=result.not_reached,
            evaluations=pair.spent[0],
            seconds=round(time.monotonic() - self._begin, 3),
            **describe_plan(self._plan),
        )
        return result

    def _show(self, kind: str, images: Tensor, others: Tensor) -> float | None:
        (error,) = distances(images.float(), others)
        self._emit(kind, image=data_url(png_of(images)), error=error)
        return error

    def _show_trust(self, result: Result) -> None:
        trusted = not (result.reasons or result.not_reached)
        rest = unchecked(self._model.thresholds, self._plan)
        about = {"trusted": trusted, "reasons": list(result.reasons), "unchecked": rest}
        self._emit("trust", **about, signals=result.signals)

    def _record(self, result: Result) -> dict[str, Any]:
        """Return all that is needed to compute and to judge the answer again."""
        entry = {name: value for name, value in asdict(result).items() if name != "outputs"}
        return {
            "fcfg": __version__,
            "model": self._question.model.name,
            "network": repr(self._model),
            "do": self._asked.do,
            **self._plan.to_json(),
            "seed": self._asked.seed,
            "device": str(self._model.device),
            "precision": self._model.precision,
            **entry,
        }
