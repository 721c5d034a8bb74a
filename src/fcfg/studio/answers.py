"""From a question to its events: progress with coarse pictures, the answer, and what checks it.

The abduction of a picture, with the factual branch of anchored predictions, is kept and serves
every later question about the picture. So is the whole answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

import torch
from PIL import Image
from torch import Tensor

from fcfg.datasets import portraits
from fcfg.generation.results import Result, finite, scores_of
from fcfg.model import AbstractCounterfactual
from fcfg.pipeline.records import Abduction
from fcfg.sampling import OnStep, StepRecord
from fcfg.sheet import difference_map, difference_scale
from fcfg.studio.cache import BoundedCache
from fcfg.studio.engine import Job
from fcfg.studio.models import describe_plan
from fcfg.studio.pictures import image_url
from fcfg.studio.questions import PreparedQuestion, Question
from fcfg.studio.snippets import as_command, as_python
from fcfg.support.images import data_url, image_keys, pixel_range_is_known, to_png
from fcfg.trust import measure_trust, not_reached, unchecked
from fcfg.version import __version__

Event: TypeAlias = dict[str, Any]
Preview: TypeAlias = Callable[[StepRecord], Tensor | None]

_BETWEEN = 0.1  # seconds from one coarse picture to the next
_OVERHEAD = 2  # bytes in memory for each character of an event


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers questions, and keeps what later ones need."""

    abductions: BoundedCache[Any] = field(default_factory=lambda: BoundedCache(48 * 2**20))
    finished: BoundedCache[list[Event]] = field(default_factory=lambda: BoundedCache(16 * 2**20))

    def answer(self, question: PreparedQuestion, job: Job) -> None:
        """Answer a question.

        Args:
            question: The question.
            job: Receiver of the events, which also says when to stop.
        """
        job.emit({"type": "started"})
        key = _everything(question)
        events = self.finished.get(key)
        if events is None:
            work = _Work(self.abductions, question, job)
            with pixel_range_is_known():
                work.do()
            size = _OVERHEAD * sum(len(str(event)) for event in work.events)
            self.finished.put(key, work.events, size)
        else:
            for event in events:
                job.emit(event)


def _everything(question: PreparedQuestion) -> str:
    """Return all that an answer depends on."""
    asked = question.asked
    assert isinstance(asked, Question)
    wanted = (asked.reverse, asked.trust, asked.truth)
    asks = (asked.seed, asked.do, describe_plan(question.plan))
    return repr((question.model.name, question.picture.id, question.before, asks, wanted))


class _Work:
    """The work on one question.

    Args:
        abductions: Abductions of earlier questions.
        question: The question.
        job: Receiver of the events.
    """

    def __init__(
        self, abductions: BoundedCache[Any], question: PreparedQuestion, job: Job
    ) -> None:
        assert isinstance(question.asked, Question)
        self._asked, self._question, self._job = question.asked, question, job
        self._model, self._plan = question.model.model, question.plan
        self._factual, self._abductions = question.picture.image, abductions
        self._key = repr((question.model.name, question.picture.id, question.before))
        self._key += repr(self._plan.shared().abduction)
        self._begin, self._last_preview = time.monotonic(), 0.0
        self._done, self._total = 0.0, 1.0  # costs, in network rows per step
        self.events: list[Event] = []  #: all but those of progress

    def do(self) -> None:
        """Do all parts of the work, cheap and important ones first."""
        asked, rows = self._asked, self._plan.rows
        abduction = self._abductions.get(self._key)
        is_anchored = bool(getattr(self._plan.setting, "anchor", False))
        checks = asked.trust and self._model.traits.trust
        extra = 0 if is_anchored else rows  # trust predicts the picture itself as well
        self._total = (abduction is None) + rows + checks * extra + asked.reverse * (1 + rows)
        if abduction is None:
            abduction = self._abduct()
            self._keep(abduction)
        shown = self._question.opening is not None  # already, and better than a coarse picture
        preview = None if shown else _previews(abduction, self._factual)
        on_step = self._steps("prediction", rows, preview)
        pair = self._model.predict(abduction, self._question.action, self._plan, on_step=on_step)
        self._keep(pair.abduction)  # which holds the factual branch
        result = self._show_answer(pair)
        if asked.truth and self._question.picture.drawing is not None:
            self._show_truth(pair)
        if checks:
            result = self._show_trust(result, pair, self._steps("trust", extra))
        if asked.reverse:
            result = self._show_reversal(result, pair)
        self._emit(
            "done",
            record=self._record(result),
            python=as_python(self._question),
            command=as_command(self._question),
        )

    def _emit(self, kind: str, **values: Any) -> None:
        self.events.append({"type": kind, **values})
        self._job.check()
        self._job.emit(self.events[-1])

    def _steps(self, phase: str, cost: float, preview: Preview | None = None) -> OnStep:
        """Return a callback for the next part of the work, which may also end it."""
        before, self._done = self._done, self._done + cost

        def on_step(step: StepRecord) -> None:
            self._job.check()
            share = (before + cost * step.share) / self._total
            event = {"type": "progress", "phase": phase, "share": round(min(1.0, share), 4)}
            now = time.monotonic()
            if preview is not None and now - self._last_preview >= _BETWEEN:
                image = preview(step)
                if image is not None:
                    self._last_preview = now
                    event["image"] = image_url(image)
            self._job.emit(event)

        return on_step

    def _abduct(self) -> Any:
        # Shared, it has a path, for previews and for any guidance.
        plan, on_step = self._plan.shared(), self._steps("abduction", 1)
        return self._model.abduct(
            self._factual, self._question.factual, plan=plan, on_step=on_step
        )

    def _keep(self, abduction: Any) -> None:
        self._abductions.put(self._key, abduction, _bytes_of(abduction))

    def _show_answer(self, pair: AbstractCounterfactual) -> Result:
        question, images = self._question, pair.images.float()
        space, shown = self._model.space, {"factual": self._factual, "counterfactual": images}
        read = {name: self._model.read(x.nan_to_num()) for name, x in shown.items()}
        (missed,) = not_reached(self._model, question.factual, pair.action, *read.values())
        judged = {
            name: scores_of(space, reading, 0)
            for name, reading in read.items()
            if reading is not None
        }
        result = Result(
            file=question.picture.name,
            stored=(question.model.pixels.size, question.model.pixels.size),
            prepared=question.picture.notes,
            attributes_from="given",
            factual=question.before,
            counterfactual=question.after,
            judged=judged,
            not_reached=missed,
            network_rows={"counterfactual": pair.spent[0]},
            key=image_keys(self._factual)[0],
            change=_distance(images, self._factual),
        )
        scale = difference_scale(self._factual[0], images[0].nan_to_num())
        change = difference_map(self._factual[0], images[0].nan_to_num(), scale)
        self._emit(
            "answer",
            image=image_url(images),
            difference=data_url(to_png(Image.fromarray(change))),
            difference_scale=scale,
            change=result.change,
            attributes=result.counterfactual,
            judged=judged,
            not_reached=missed,
            evaluations=pair.spent[0],
            seconds=round(time.monotonic() - self._begin, 3),
            **describe_plan(self._plan),
        )
        return result

    def _show_truth(self, pair: AbstractCounterfactual) -> None:
        drawing = self._question.picture.drawing
        assert drawing is not None
        truth = portraits.counterfactual(drawing, dict(pair.attributes)).images
        error = _distance(pair.images.float(), truth)
        self._emit("truth", image=image_url(truth), error=error)

    def _show_trust(self, result: Result, pair: Any, on_step: OnStep) -> Result:
        measured = measure_trust(self._model, self._factual, pair, on_step=on_step)
        signals = {name: finite(value) for name, value in measured.of(0).items()}
        rows = result.network_rows | measured.cost
        result = replace(result, signals=signals, network_rows=rows).doubted(self._limits)
        self._emit_trust(result)
        return result

    @property
    def _limits(self) -> Mapping[str, float]:
        thresholds, sampling = self._model.thresholds, self._plan.sampling
        if thresholds is None or sampling is None:
            return {}
        return thresholds.limits_for(list(self._asked.do), self._plan.setting, sampling)

    def _emit_trust(self, result: Result) -> None:
        trusted = not (result.reasons or result.not_reached)
        rest = unchecked(self._model.thresholds, self._plan)
        about = {"trusted": trusted, "reasons": list(result.reasons), "unchecked": rest}
        self._emit("trust", **about, signals=result.signals)

    def _show_reversal(self, result: Result, pair: AbstractCounterfactual) -> Result:
        there = self._steps("reversal", 1)
        back = self._steps("reversal", self._plan.rows)
        reversal = self._model.reverse(
            pair, on_step=lambda step: (there if step.ascending else back)(step)
        )
        error = _distance(reversal.images.float(), self._factual)
        self._emit("reversal", image=image_url(reversal.images), error=error)
        rows = result.network_rows | {"reversal": reversal.spent[0]}
        doubted = replace(result, reversal_error=error, network_rows=rows).doubted(self._limits)
        if result.signals and doubted.reasons != result.reasons:
            self._emit_trust(doubted)
        return doubted

    def _record(self, result: Result) -> dict[str, Any]:
        """Return all that is needed to compute and to judge the answer again."""
        question = self._question
        entry = {name: value for name, value in asdict(result).items() if name != "outputs"}
        return {
            "fcfg": __version__,
            "model": question.model.name,
            "network": repr(self._model),
            "do": self._asked.do,
            **self._plan.to_json(),
            "seed": self._asked.seed,
            "device": str(self._model.device),
            "precision": question.model.model.precision,
            **entry,
        }


def _previews(abduction: Any, factual: Tensor) -> Preview | None:
    """Return how to see the answer while it is computed.

    The picture and its counterfactual start from the same noise, and differ more with each step:
    what they differ by so far is added to the picture. On drawings this is nearer to the answer
    than the picture is, at every step; a run with few steps is not.

    Args:
        abduction: Abduction that kept its path.
        factual: The picture.
    """
    if not isinstance(abduction, Abduction) or abduction.path is None:
        return None
    states = abduction.path.states

    def preview(step: StepRecord) -> Tensor | None:
        share = (step.index + 1) / step.steps
        there = states[len(states) - 2 - step.index].to(step.trajectory.x)
        return None if share < 0.4 else factual + (step.trajectory.x - there).cpu()

    return preview


def _bytes_of(abduction: Any) -> int:
    """Return the size of the tensors of an abduction."""
    found: list[Tensor] = []
    if isinstance(abduction, Abduction):
        found += [abduction.trajectory.x, *abduction.trajectory.companions]
        path = abduction.path
        found += [] if path is None else [path.states]
        found += [] if path is None or path.noises is None else [path.noises]
        found += [] if abduction.anchor is None else [abduction.anchor.corrections]
    else:
        found += [abduction.images]
    return sum(tensor.nbytes for tensor in found)


def _distance(images: Tensor, others: Tensor) -> float | None:
    """Return the mean absolute difference of two images; None if it is not finite."""
    return finite(torch.mean((images - others).abs()).item())
