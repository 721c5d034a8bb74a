"""One run: every part in order, and where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from fcfg.bench import sampling
from fcfg.bench import training as learning
from fcfg.bench.bench_model import Subject
from fcfg.bench.cost import cost, exponents, points
from fcfg.bench.hardware import fast_precision, matrix_rate
from fcfg.bench.record import Measurement, Record, against
from fcfg.bench.single import single
from fcfg.bench.training import Pace
from fcfg.evaluation.provenance import collect_provenance
from fcfg.sampling import time_grid
from fcfg.support.errors import check_among, check_integer
from fcfg.version import __version__

PARTS = ("sampling", "single", "training", "cost")


@dataclass(frozen=True)
class Scale:
    """How much is measured; more is surer and takes longer."""

    images: int  #: that the contestants answer for at once
    steps: int  #: from image to noise, and back
    repetitions: int
    singles: int  #: answers after the first
    pace: Pace = field(repr=False)  #: of training
    fewest_images: int  #: where the sweeps of the costs begin
    fewest_steps: int
    rows: int  #: for which the network is compiled
    patience: float  #: seconds after which no repetition begins, outside training

    @classmethod
    def fitting(
        cls,
        device: torch.device,
        *,
        quick: bool = False,
        images: int | None = None,
        steps: int | None = None,
        rows: int | None = None,
    ) -> Scale:
        """What takes some minutes on a GPU, two on a CPU; a part of that where it is quick.

        Args:
            device: Where.
            quick: Less of everything.
            images: Others than the device suggests, and so the next ones.
            steps: From image to noise.
            rows: For which the network is compiled; the images by default.
        """
        on_gpu = device.type == "cuda"
        most = 10**6
        images = images if images is not None else (64 if quick else 512) if on_gpu else 4
        check_integer("--images", images, 1, most, do="512 fill a large GPU, 4 a CPU")
        if rows is not None:
            check_integer("--rows", rows, 1, most, do="leave it out")
        pace = Pace(128, 15, 5, 20) if on_gpu else Pace(4, 1, 3, 1)
        return cls(
            images=images,
            steps=steps if steps is not None else 10 if on_gpu else 4,
            repetitions=1 if quick else 3,
            singles=1 if quick else 5,
            pace=Pace(pace.batch, 1, 1, pace.length) if quick else pace,
            fewest_images=max(1, images // 4) if on_gpu else 1,
            fewest_steps=1,
            rows=rows if rows is not None else images,
            patience=60 if on_gpu else 10,
        )


@dataclass(frozen=True, eq=False)
class Bench:
    """A benchmark that is about to be run.

    Args:
        subject: The model and the device.
        scale: How much is measured.
        parts: Which of PARTS.
        compiled: Whether ours is compiled, too.
        commit: Of the code; git is asked where it is None.
    """

    subject: Subject
    scale: Scale
    parts: tuple[str, ...] = PARTS
    compiled: bool = False
    commit: str | None = None

    def __post_init__(self) -> None:
        """Refuse unknown parts and impossible steps before anything is measured."""
        for part in self.parts:
            check_among("--only", part, PARTS)
        time_grid(self.subject.pipeline.denoiser.schedule, self.scale.steps)

    def run(self, on_share: Callable[[float], None] = lambda share: None) -> Record:
        """Measure everything.

        Args:
            on_share: Told which share of the work is done.
        """
        subject, rows = self.subject, list[Measurement]()
        chip = matrix_rate(subject.device)
        wanted = [part for part in PARTS if part in self.parts]
        work = {
            "sampling": self._sampling,
            "single": self._single,
            "training": self._training,
            "cost": self._cost,
        }
        for done, part in enumerate(wanted):

            def tell(share: float, done: int = done) -> None:
                on_share((done + share) / len(wanted))

            tell(0)
            rows += work[part](tell)
        references = {"sampling": sampling.REFERENCE, "training": learning.REFERENCE}
        parts = {part: [row for row in rows if row.part == part] for part in (*PARTS, "exponent")}
        filled = [
            row
            for part, found in parts.items()
            for row in against(found, references.get(part, ""), chip)
        ]
        return Record(self.facts(chip), tuple(filled))

    def facts(self, chip: float) -> dict[str, str]:
        """Of the model, the machine and the code.

        Args:
            chip: Operations a second of the large matrix product.
        """
        subject = self.subject
        kind, fast = subject.device.type, fast_precision(subject.device)
        known = collect_provenance(
            kind, str(fast).removeprefix("torch."), compiled=self.compiled, commit=self.commit
        )
        parameters = sum(p.numel() for p in subject.pipeline.denoiser.parameters())
        return {
            "model": subject.name,
            "parameters": str(parameters),
            "row_gflop": f"{subject.flops() / 1e9:.4g}",
            "device": known["environment"]["device"],
            "threads": str(torch.get_num_threads()) if kind == "cpu" else "",
            "torch": known["environment"]["torch"],
            "chip_precision": known["environment"]["precision"],
            "chip_tflops": f"{chip / 1e12:.4g}",
            "fcfg": __version__,
            "commit": known["commit"] or "",
            "command": known["command"],
        }

    def _sampling(self, tell: Callable[[float], None]) -> Iterator[Measurement]:
        question, scale = self.subject.question(self.scale.images, self.scale.steps), self.scale
        truth = sampling.exact(question)
        for done, contestant in enumerate(
            sampling.contestants(question, compiled=self.compiled, rows=scale.rows)
        ):
            tell((done + 0.5) / 6)
            yield sampling.contest(
                question,
                contestant,
                truth,
                repetitions=scale.repetitions,
                patience=scale.patience,
            )
        yield sampling.network_alone(
            question,
            compiled=self.compiled,
            rows=scale.rows if self.compiled else question.rows_at_once,
            repetitions=scale.repetitions,
        )

    def _single(self, tell: Callable[[float], None]) -> Iterator[Measurement]:
        many, patience = self.scale.singles, self.scale.patience
        ways = [(False, False)] if self.subject.device.type == "cuda" else []
        ways += [(False, True), (True, True)] if self.compiled else [(False, True)]
        for done, (compiled, graphs) in enumerate(ways):
            tell(done / len(ways))
            yield single(
                self.subject,
                compiled=compiled,
                repetitions=many,
                patience=patience,
                cuda_graphs=graphs,
            )

    def _training(self, tell: Callable[[float], None]) -> list[Measurement]:
        done = 0

        def on_row() -> None:
            nonlocal done
            done += 1
            tell(done / 4)

        on_gpu = self.subject.device.type == "cuda"
        return learning.training(
            self.subject, self.scale.pace, compiled=self.compiled and on_gpu, on_row=on_row
        )

    def _cost(self, tell: Callable[[float], None]) -> list[Measurement]:
        scale = self.scale
        todo = points(self.subject, scale.fewest_images, scale.fewest_steps)
        measured = []
        for done, point in enumerate(todo):
            tell(done / len(todo))
            measured += cost(point, repetitions=scale.repetitions, patience=scale.patience)
        return [*(row for row, _ in measured), *exponents(measured)]
