"""The log of a run, TensorBoard, and progress on a terminal and elsewhere."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import ClassVar

import pytest
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, GeneralTracker
from rich.console import Console

from fcfg.cli import progress
from fcfg.cli.progress import ProgressReporter
from fcfg.training.log import RunLog
from refusal import refused


def steps(log: RunLog) -> list[tuple[str, int]]:
    return [(entry["part"], entry["step"]) for entry in log.entries()]


@pytest.fixture
def log(tmp_path: Path) -> RunLog:
    log = RunLog(tmp_path)
    for part in ("judge", "diffusion"):
        for step in range(1, 5):
            log.write(part, step, loss=1 / step, rate=2.0)
    return log


def test_every_event_is_a_line_and_what_was_there_stays(log: RunLog) -> None:
    before = log.entries()
    assert before[1] == {"part": "judge", "step": 2, "loss": 0.5, "rate": 2.0}
    again = RunLog(log.path.parent)
    again.write("scm", 1, loss=0.0)
    again.close()
    assert again.entries() == [*before, {"part": "scm", "step": 1, "loss": 0.0}]


def test_rewinding_forgets_later_steps_of_one_part_only(log: RunLog, tmp_path: Path) -> None:
    log.rewind("judge", 2)
    assert steps(log) == [("judge", 1), ("judge", 2), *(("diffusion", n) for n in range(1, 5))]
    log.rewind("diffusion", 0)
    log.rewind("judge", 7)
    assert steps(log) == [("judge", 1), ("judge", 2)]
    RunLog(tmp_path / "none").rewind("judge", 0)  # before anything was written
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("kept", [1, 20, 40])
def test_a_line_that_a_crash_cut_short_is_forgotten(log: RunLog, kept: int) -> None:
    whole = log.path.read_bytes()
    start = whole.rstrip(b"\n").rindex(b"\n") + 1
    log.path.write_bytes(whole[: start + kept])
    assert steps(log)[-1] == ("diffusion", 3)
    log.rewind("diffusion", 4)
    log.write("diffusion", 4, loss=0.25, rate=2.0)
    assert log.path.read_bytes() == whole


def test_tensorboard_gets_every_number_that_the_log_gets(tmp_path: Path) -> None:
    with warnings.catch_warnings():  # of the package itself, not ours
        warnings.simplefilter("ignore")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        log = RunLog(tmp_path, trackers=("tensorboard",))
    for step in (1, 2, 3):
        log.write("judge", step, loss=0.5 * step, rate=8.0)
    log.close()
    board = EventAccumulator(str(tmp_path / "tensorboard"))
    board.Reload()
    assert set(board.Tags()["scalars"]) == {"judge/loss", "judge/rate"}
    read = [(event.step, event.value) for event in board.Scalars("judge/loss")]
    assert read == [(1, 0.5), (2, 1.0), (3, 1.5)]
    assert steps(log) == [("judge", 1), ("judge", 2), ("judge", 3)]


class Notes(GeneralTracker):
    """A tracker of one's own, which keeps what it is told."""

    name = "notes"
    requires_logging_directory = False
    told: ClassVar[list[tuple[dict[str, float], int | None]]] = []

    def __init__(self, run_name: str) -> None:
        super().__init__()
        self.told.append(({run_name: 0.0}, None))

    @property
    def tracker(self) -> None: ...

    def store_init_configuration(self, values: dict[str, float]) -> None:
        self.told.append((values, None))

    def log(self, values: dict[str, float], step: int | None = None) -> None:
        self.told.append((values, step))


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_other_trackers_get_settings_and_numbers_and_steps_as_they_take_them(
    name: str, tmp_path: Path, monkeypatch
) -> None:
    """Steps of wandb never go back, so they are numbers there: every part begins at 0."""
    monkeypatch.setattr("fcfg.training.log.find_spec", lambda name: True)
    monkeypatch.setitem(LOGGER_TYPE_TO_CLASS, name, Notes)
    Notes.told.clear()
    log = RunLog(tmp_path, trackers=(name,), settings={"seed": 3})
    log.write("judge", 7, loss=0.5)
    log.close()
    numbers = ({"judge/step": 7, "judge/loss": 0.5}, None)
    written = numbers if name == "wandb" else ({"judge/loss": 0.5}, 7)
    assert Notes.told == [({"fcfg": 0.0}, None), ({"seed": 3}, None), written]


def test_a_tracker_that_is_not_installed_is_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("fcfg.training.log.find_spec", lambda name: None)
    for name in ("tensorboard", "wandb"):
        with refused("run.trackers", f"pip install {name}", "log.jsonl"):
            RunLog(tmp_path, trackers=(name,))


def reporter(*, terminal: bool, quiet: bool = False) -> tuple[ProgressReporter, io.StringIO]:
    screen = io.StringIO()
    console = Console(force_terminal=terminal, file=screen, width=120, color_system=None)
    return ProgressReporter(console, quiet=quiet), screen


def test_a_terminal_shows_part_steps_and_loss_and_a_new_part_has_a_new_bar() -> None:
    bar, screen = reporter(terminal=True)
    with bar:
        bar.progress("reading images", 0, 8)
        bar.progress("reading images", 8, 8)
        assert "8/8" in rendered(bar)
        bar.progress("judge", 0, 40)
        assert "reading images" not in rendered(bar)
        assert "0/40" in rendered(bar)
        bar.progress("judge", 30, 40, 0.25)
        bar.progress("judge", 40, 40, 0.125)
    shown = screen.getvalue()
    for text in ("reading images", "judge", "40/40", "loss 0.1250", "it/s"):
        assert text in shown, text
    assert "\njudge: step" not in shown  # the bar says it


def rendered(bar: ProgressReporter) -> str:
    """The bars as they are now."""
    page = Console(file=io.StringIO(), width=120, color_system=None)
    page.print(bar._bar.get_renderable())
    return page.file.getvalue()


Event = tuple[float, str, int, int] | tuple[float, str, int, int, float]
DIFFUSION, READING, DRAWING = "diffusion", "reading images", "drawing portraits"


#: Lines that come every half minute at most, and at the end.
SEVERAL = [
    "diffusion: step 4 of 10, loss 0.2500, 10.0 s/it, about 60 s left",
    "diffusion: step 8 of 10, loss 0.1250, 10.0 s/it, about 20 s left",
    "diffusion: step 10 of 10, loss 0.1000",
]
#: What is left counts the steps of this run alone.
LATER = ["diffusion: step 1100 of 2000, loss 0.5000, 2.5 it/s, about 6 min left"]
TOLD: list[tuple[list[Event], list[str]]] = [  # seconds before an event, what it tells; the lines
    ([(0, DIFFUSION, 0, 10), *((10, DIFFUSION, n, 10, 1 / n) for n in range(1, 11))], SEVERAL),
    ([(0, DIFFUSION, 1000, 2000), (40, DIFFUSION, 1100, 2000, 0.5)], LATER),
    ([(0, READING, 0, 8), (40, READING, 0, 8)], ["reading images: 0 of 8"]),
    ([(0, READING, n, 8) for n in (0, 4, 8)], ["reading images: 8 of 8"]),  # without a loss
    ([(0, DRAWING, n, 3) for n in (0, 3)], ["drawing portraits: 3 of 3"]),
]


@pytest.mark.parametrize(("events", "lines"), TOLD)
def test_elsewhere_lines_come_now_and_then_and_at_the_end(monkeypatch, events, lines) -> None:
    bar, screen = reporter(terminal=False)
    clock, path = 100.0, "runs/[bold]/[/x]/:smile:/" + "long/" * 50
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock)
    with bar:
        for seconds, *told in events:
            clock += seconds
            bar.progress(*told)
        bar.say(path)
    assert screen.getvalue().splitlines() == [*lines, path]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_quiet_one_shows_nothing(terminal: bool) -> None:
    bar, screen = reporter(terminal=terminal, quiet=True)
    with bar:
        bar.progress("reading images", 8, 8)
        bar.progress("judge", 20, 40)
        bar.progress("judge", 40, 40, 0.25)
        bar.say("done")
    assert screen.getvalue() == ""


def test_by_default_it_is_the_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressReporter() as bar:
        bar.say("done")
    assert capsys.readouterr() == ("", "done\n")
