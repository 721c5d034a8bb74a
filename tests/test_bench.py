"""``fcfg bench``: who is compared, what is counted, what is fitted. Speed itself is not a law."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

import fcfg
from evaluations import tiny_model
from fcfg.bench import (
    PARTS,
    Bench,
    Measurement,
    Record,
    Scale,
    Subject,
    cost,
    heading,
    preset_subject,
    read_record,
    sampling,
    schedulers,
    single,
    stored_subject,
    tables,
    timing,
    training,
)
from fcfg.bench.baselines import Given, batched, separate
from fcfg.bench.bench_model import _target, random_table, wake
from fcfg.bench.hardware import fast_precision, flops_of, matrix_rate, row_flops
from fcfg.bench.record import against
from fcfg.bench.timing import Timing
from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Continuous
from fcfg.causal.graph import CausalGraph
from fcfg.cli import main
from fcfg.diffusion.networks import PAPER, UNet, UNetConfig
from fcfg.sampling import PRESETS
from fcfg.training.objectives import DenoisingObjective
from refusal import refused
from test_generation import tiny_pipeline

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*script_method.*:DeprecationWarning"  # torch's own import of its compiler
)
CPU, CUDA = torch.device("cpu"), torch.device("cuda")
STEPS = 5
EXACT, ROUNDED = 1e-9, 1e-3  # in float64; where float32 has a say, which noise magnifies


@pytest.fixture(scope="module")
def subject() -> Subject:
    pipeline = tiny_model(saved=True)
    torch.manual_seed(1)
    wake(pipeline.denoiser.network)
    return Subject("tiny", pipeline, CPU)


@pytest.fixture(scope="module")
def precise(subject: Subject) -> Subject:
    """The same in float64, so that loops can be compared and not their rounding."""
    pipeline = subject.fresh()
    pipeline.denoiser.double()
    return Subject("precise", pipeline, CPU)


@pytest.fixture(scope="module")
def model(subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    fcfg.save(subject.pipeline, folder)
    return str(folder)


@pytest.fixture
def no_compiler() -> Generator[None]:
    torch.compiler.set_stance("force_eager")  # all of it but the compiler, which is not ours
    yield
    torch.compiler.set_stance("default")


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedulers, "find_spec", lambda name: None)


# Contestants ------------------------------------------------------------------------------------


def images_of(subject: Subject, **changes: int) -> dict[str, Tensor]:
    """What every contestant answers."""
    question = subject.question(**({"images": 3, "steps": STEPS} | changes))
    return {
        contestant.name: contestant.prepare(question)()
        for contestant in sampling.contestants(question, compiled=True, rows=2)
        if not contestant.absent
    }


@pytest.mark.usefixtures("no_compiler")
def test_all_contestants_give_the_same_images(precise: Subject) -> None:
    found = images_of(precise)
    assert [*found, sampling.ALONE] == list(sampling.CONTESTANTS)
    question = precise.question(3, STEPS)
    truth = sampling.exact(question)
    for name, images in found.items():
        bound = ROUNDED if name == sampling.DIFFUSERS else EXACT  # its alphas are float32
        assert (images - truth).abs().max() < bound, name
    assert (truth - question.images).abs().max() > 100 * ROUNDED  # or it would mean nothing


@pytest.mark.usefixtures("no_compiler")
def test_in_float32_they_differ_by_rounding_alone(subject: Subject) -> None:
    found = images_of(subject, images=1)
    assert len(found) > 3
    for name, images in found.items():
        assert (images - found[sampling.REFERENCE]).abs().max() < 10 * ROUNDED, name


def test_the_schedulers_of_diffusers_give_our_images(precise: Subject) -> None:
    question = precise.question(2, 10)
    images = schedulers.driven(Given.of(question))
    assert (images - sampling.exact(question)).abs().max() < ROUNDED


def test_groups_and_weights_matter_to_the_straight_loops(subject: Subject) -> None:
    given = Given.of(subject.question(2, STEPS))
    truth = batched(given)
    for changed in (
        replace(given, weights=given.weights[::-1]),
        replace(given, counterfactual=[given.counterfactual[i] for i in (0, 2, 1)]),
        replace(given, factual=given.counterfactual[0]),
    ):
        for loop in (batched, separate):
            assert (loop(changed) - truth).abs().max() > 10 * ROUNDED


@pytest.mark.parametrize("groups", [None, 1, 3])
def test_rows_are_counted_as_the_network_sees_them(subject: Subject, groups: int | None) -> None:
    question = subject.question(3, 2, groups=groups)
    assert len(question.groups) == (groups or 2)
    seen, calls = 0, 0

    def count(module, inputs, output) -> None:
        nonlocal seen, calls
        seen, calls = seen + len(inputs[0]), calls + 1

    runs = {}
    for loop in (batched, separate):
        given = Given.of(question)
        given.denoiser.network.register_forward_hook(count)
        seen = calls = 0
        loop(given)
        runs[loop] = calls
        assert seen == question.evaluations
    assert runs == {batched: 2 + 2, separate: 2 + 2 * (len(question.groups) + 1)}
    pair = sampling.answer(subject.fresh(), question)
    assert pair.evaluations * len(question.images) == question.evaluations


@pytest.mark.usefixtures("missing")
def test_who_cannot_take_part_says_why(subject: Subject) -> None:
    question = subject.question(1, 1)
    rows = {
        contestant.name: sampling.contest(question, contestant, question.images, repetitions=1)
        for contestant in sampling.contestants(question, compiled=False, rows=1)
        if contestant.absent
    }
    assert rows[sampling.DIFFUSERS].note == "not installed: pip install diffusers"
    assert "--compile" in rows[sampling.COMPILED].note
    assert all(row.seconds is None for row in rows.values())


def test_a_gpu_computes_in_less_than_float32(subject: Subject) -> None:
    there = replace(subject, device=CUDA).question(1, 1)
    assert [sampling.precision(there, compiled=c) for c in (False, True)] == ["tf32", "bf16"]
    here = subject.question(1, 1)
    assert {sampling.precision(here, compiled=c) for c in (False, True)} == {"float32"}


def test_diffusers_needs_steps_that_divide(subject: Subject) -> None:
    schedule = subject.pipeline.denoiser.schedule
    assert schedulers.obstacle(8, schedule) == ""
    assert schedulers.obstacle(7, schedule) == "needs --steps that divide 1000"


def test_the_difference_is_that_of_the_images(subject: Subject) -> None:
    question = subject.question(2, 1)
    truth = sampling.exact(question)
    off = truth.clone()
    off[0, 0, 0, 0] += 0.5
    contestant = sampling.Contestant("off", "float32", lambda question: lambda: off)
    row = sampling.contest(question, contestant, truth, repetitions=2)
    assert row.largest_difference == pytest.approx(0.5)
    assert row.mean_difference == pytest.approx(0.5 / truth.numel())
    assert (row.images, row.groups, row.steps, row.repetitions) == (2, 2, 1, 2)


@pytest.mark.usefixtures("no_compiler")
def test_one_counterfactual_is_asked_with_the_defaults(subject: Subject) -> None:
    row = single.single(subject, compiled=True, repetitions=1)
    pair = fcfg.CounterfactualPipeline(subject.pipeline.denoiser, subject.pipeline.scm)
    question = subject.question(1, 1)
    default = pair.counterfactual(question.images, question.attributes, question.do)
    assert row.evaluations == default.evaluations
    assert row.steps == len(default.abduction.times) - 1
    assert row.cold_seconds is not None
    assert row.name == f"{PRESETS['default']}, compiled"
    row = single.single(subject, compiled=False, repetitions=1, cuda_graphs=False)
    assert row.name == f"{PRESETS['default']}, eager, kernel by kernel"


# Switches, clocks, memory -----------------------------------------------------------------------


def test_every_switch_is_put_back() -> None:
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn

    def state() -> tuple[bool, bool, bool]:
        return matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark

    def break_off() -> None:
        with timing.switches(tf32=True):
            assert state() == (True, True, False)
            cudnn.benchmark = True
            matmul.allow_tf32 = False
            raise ZeroDivisionError

    before = state()
    with pytest.raises(ZeroDivisionError):
        break_off()
    assert state() == before


def test_warm_up_is_not_counted_and_windows_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 4.0, 10.0, 12.0])
    calls: list[int] = []
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    found = timing.measure(lambda: calls.append(1), CPU, warmup=3, repetitions=2, length=4)
    assert found.seconds == (1.0, 0.5)
    assert len(calls) == 3 + 2 * 4


def test_patience_ends_repetitions_but_not_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 3.0, 10.0, 13.0])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    assert timing.measure(lambda: None, CPU, repetitions=9, patience=4).seconds == (3, 3)
    clock = iter([0.0, 9.0])
    assert timing.measure(lambda: None, CPU, repetitions=9, patience=4).seconds == (9,)


def test_a_gpu_is_waited_for_and_its_memory_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda *device, name=name: told.append(name))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 7)
    timing.measure(lambda: told.append("call"), CUDA, repetitions=1)
    assert told == ["synchronize", "call", "synchronize"]
    timing.forget_peak(CUDA)
    assert told[3:] == ["empty_cache", "reset_peak_memory_stats"]
    assert timing.peak_bytes(CUDA) == 7
    assert timing.peak_bytes(CPU) is None


# Operations -------------------------------------------------------------------------------------


def test_the_papers_network_takes_22_85_gflop_a_row() -> None:
    assert row_flops(PAPER["celeba-hq"], 64) / 1e9 == pytest.approx(22.85, abs=0.005)


def test_operations_without_computing_are_those_of_computing() -> None:
    config = UNetConfig(size=8, base=32, multipliers=(1, 2), attention=(4,), condition=32)
    network = UNet(config).eval()
    rows = 3
    x, t, c = torch.randn(rows, 3, 8, 8), torch.full((rows,), 5), torch.randn(rows, 32)
    with torch.no_grad():
        counted = flops_of(lambda: network(x, t, c))
    assert counted == rows * row_flops(config, 8)
    assert row_flops(config, 16) > 4 * row_flops(config, 8)  # attention is more than linear


def test_the_matrix_rate_counts_two_operations_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    from fcfg.bench import chip

    monkeypatch.setattr(chip, "measure", lambda call, device, **how: (call(), Timing((0.5,)))[1])
    assert matrix_rate(CPU, size=10) == 2 * 10**3 / 0.5
    assert (fast_precision(CPU), fast_precision(CUDA)) == (torch.float32, torch.bfloat16)


# Costs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_an_exponent_is_found_again(power: float) -> None:
    values = [1, 2, 3, 5, 8]
    fitted = cost.fit_exponent(values, [0.3 * value**power for value in values])
    assert fitted.value == pytest.approx(power, abs=1e-9)
    assert fitted.error == pytest.approx(0, abs=1e-9)


def test_an_exponent_and_its_error_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    values = np.repeat([1.0, 2.0, 4.0, 8.0], 3)
    seconds = values**1.3 * np.exp(0.1 * rng.standard_normal(len(values)))
    known = scipy.stats.linregress(np.log(values), np.log(seconds))
    fitted = cost.fit_exponent(values.tolist(), seconds.tolist())
    assert fitted.value == pytest.approx(known.slope)
    assert fitted.error == pytest.approx(known.stderr)
    assert abs(fitted.value - 1.3) < 3 * fitted.error


@pytest.mark.parametrize(
    ("values", "seconds"), [([1, 2], [1, 2]), ([1, 2, 3], [1, 2]), ([2, 2, 2], [1, 2, 3])]
)
def test_too_little_for_an_exponent_is_refused(values: list[int], seconds: list[int]) -> None:
    with refused("exponent", "three pairs or more"):
        cost.fit_exponent(values, seconds)


def test_exponents_take_every_repetition_and_say_where_they_cannot() -> None:
    def points(axis: str, values: list[float]) -> list[tuple[Measurement, Timing]]:
        return [
            (Measurement("cost", axis, value=value), Timing((value, 1.1 * value)))
            for value in values
        ]

    rows = {r.name: r for r in cost.exponents(points("images", [1, 2, 4]) + points("steps", [1]))}
    assert tuple(rows) == cost.AXES
    assert rows["images"].exponent == pytest.approx(1)
    assert (rows["images"].exponent_error or 0) > 0
    assert rows["steps"].note == rows["groups"].note == "fewer than three values"
    assert rows["steps"].exponent is None


def test_a_sweep_changes_one_thing_at_a_time(subject: Subject) -> None:
    found = cost.points(subject, images=2, steps=1)
    values = {axis: [p.axes[axis] for p in found if axis in p.axes] for axis in cost.AXES}
    assert values == {
        "images": [2, 4, 8],
        "groups": [1, 2, 3],
        "rows": [3, 4, 5],
        "steps": [1, 2, 4],
        "pixels": [16, 64, 256],
    }
    for point in found:
        asked = point.question
        shape = (len(asked.images), len(asked.groups), asked.steps, asked.images.shape[-1])
        usual = (2, 2, 1, 8)
        different = sum(a != b for a, b in zip(shape, usual, strict=True))
        assert different <= 1
        assert point.at_once == 2 * (len(asked.groups) + 1)
        images, groups, steps, size = shape
        stated = {"images": images, "groups": groups, "rows": groups + 2}
        stated |= {"steps": steps, "pixels": size * size}
        assert all(stated[axis] == value for axis, value in point.axes.items())


def test_sizes_are_those_that_the_network_takes(subject: Subject) -> None:
    denoiser = fcfg.Denoiser(
        UNet(UNetConfig(size=4, base=64, multipliers=(1, 1, 1), attention=(), condition=12)),
        subject.pipeline.denoiser.embedder,
        subject.pipeline.denoiser.schedule,
    )
    deep = Subject("deep", fcfg.CounterfactualPipeline(denoiser, subject.pipeline.scm), CPU)
    assert cost._sizes(deep) == (4, 8, 12)


# Subjects ---------------------------------------------------------------------------------------


def test_random_attributes_are_legal() -> None:
    space = AttributeSpace(
        [Binary("sex"), Continuous("age", 20, 80), Categorical("race", ["a", "b", "c"])]
    )
    table = random_table(space, 200)
    assert {name: set(column) for name, column in space.parse(table).items() if name != "age"} == {
        "sex": {0, 1},
        "race": {0, 1, 2},
    }
    assert table["age"].min() < 30
    assert table["age"].max() > 70


def test_the_target_leaves_others_alone_where_it_can() -> None:
    assert _target(CausalGraph({"age": [], "finding": ["age"]})) == "finding"
    assert _target(CausalGraph({"age": []})) == "age"


def test_any_model_can_be_measured_not_only_drawn_ones() -> None:
    pipeline = tiny_pipeline()
    question = Subject("mixed", pipeline, CPU).question(3, 2)
    assert question.images.shape == (3, 3, 8, 8)
    assert question.images.min() >= -1
    assert set(question.attributes) == set(pipeline.space.names)
    assert question.do.keys() == {"smiling"}


def test_a_preset_has_the_papers_network_and_answers_that_are_not_zero() -> None:
    found = preset_subject("celeba-hq", CPU)
    assert found.network == PAPER["celeba-hq"]
    denoiser = found.pipeline.denoiser
    assert sum(p.numel() for p in denoiser.parameters()) == 60_511_331
    head = denoiser.network.get_submodule("head.2").weight
    assert head.abs().max() > 0
    again = preset_subject("celeba-hq", CPU).pipeline.denoiser.network.get_submodule("head.2")
    assert torch.equal(head, again.weight)


def test_a_stored_model_is_known_by_its_folder(model: str, subject: Subject) -> None:
    found = stored_subject(model, CPU)
    assert found.name == "tiny"
    assert found.network == subject.network


# Training ---------------------------------------------------------------------------------------


def test_training_has_a_row_for_each_feed(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused: list[bool] = []
    monkeypatch.setattr(
        DenoisingObjective, "fuse", lambda self, cuda_graphs: fused.append(cuda_graphs)
    )
    told: list[int] = []
    pace = training.Pace(batch=4, warmup=0, windows=1, length=1)
    benchmark_flag = torch.backends.cudnn.benchmark
    rows = training.training(subject, pace, compiled=True, on_row=lambda: told.append(1))
    assert [row.name for row in rows] == [training.REFERENCE, *training.FEEDS]
    assert fused == [False]
    assert len(told) == 4
    assert torch.backends.cudnn.benchmark == benchmark_flag
    # Forward and backward: three times the forward pass, less what no gradient is wanted for.
    forward = 4 * subject.flops()
    assert all(2.5 * forward < (row.flops or 0) < 3.2 * forward for row in rows)


def test_a_training_step_changes_the_weights(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, made = training.Work.of(subject, 2), list[fcfg.Denoiser]()
    new = training.Work.denoiser
    keep = lambda self, **how: (made.append(new(self, **how)), made[-1])[1]  # noqa: E731
    monkeypatch.setattr(training.Work, "denoiser", keep)
    with training.ours(work, tmp_path, compiled=False) as steps:
        assert len(steps) == 3
        for take in steps.values():
            before = made[0].network.get_parameter("head.2.weight").clone()
            take()
            assert not torch.equal(made[0].network.get_parameter("head.2.weight"), before)


# Records ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def record() -> Record:
    base = Measurement("sampling", sampling.REFERENCE, images=4, evaluations=32, flops=10**12)
    rows = [
        base.timed(Timing((2.0, 1.0, 4.0))),
        replace(base, name=sampling.EAGER, peak_bytes=2**30).timed(Timing((0.5,))),
        Measurement("sampling", sampling.DIFFUSERS, note='not installed, "really"'),
    ]
    facts = {
        "model": "tiny",
        "parameters": "1500000",
        "row_gflop": "1.5",
        "device": "CPU, of sorts",
        "threads": "2",
        "torch": "2.13",
        "chip_precision": "float32",
        "chip_tflops": "2",
    }
    return Record(facts, tuple(against(rows, sampling.REFERENCE, 2e12)))


def test_rates_follow_from_times(record: Record) -> None:
    reference, ours, absent = record.rows
    assert (reference.seconds, reference.seconds_low, reference.seconds_high) == (2, 1, 4)
    assert (reference.images_per_second, reference.evaluations_per_second) == (2, 16)
    assert (reference.tflops, reference.share_of_chip) == (0.5, 0.25)
    assert (reference.ratio, ours.ratio, absent.ratio) == (1, 4, None)


def test_a_file_reads_back_as_it_was(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "bench.csv"
    record.write(path)
    assert read_record(path) == record
    assert len(path.read_text().splitlines()) == 1 + len(record.rows)
    path.write_text("a,b\n1,2\n")
    with refused("benchmark", "got another"):
        read_record(path)
    path.write_text("")
    with refused("benchmark", "an empty one"):
        read_record(path)


def test_tables_have_every_row_and_every_reason(record: Record) -> None:
    (table,) = tables(record)
    assert [row[0] for row in table.rows] == [row.name for row in record.rows]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert table.notes == (f'{sampling.DIFFUSERS}: not installed, "really"',)
    assert "4.00×" in table.rows[1]
    assert "1.00 GiB" in table.rows[1]
    assert "1.5 M parameters" in heading(record)
    assert "with 2 threads" in heading(record)


# The command ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("missing", "no_compiler")
def test_the_command_names_every_contestant_and_writes_every_row(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "bench.csv"
    words = ["bench", model, "--quick", "--steps", "2", "--images", "2", "--compile"]
    words += ["--device", "cpu", "--commit", "c0ffee"]
    assert main([*words, "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    record = read_record(out)
    names = {part: [row.name for row in record.of(part)] for part in (*PARTS, "exponent")}
    assert names["sampling"] == list(sampling.CONTESTANTS)
    assert names["training"] == [training.REFERENCE, *training.FEEDS]
    assert names["exponent"] == list(cost.AXES)
    assert len(names["cost"]) == 3 * len(cost.AXES)
    assert len(names["single"]) == 2
    for part in ("sampling", "single", "training", "exponent"):
        assert all(name in shown for name in names[part])
    assert "pip install diffusers" in shown
    assert record.facts["model"] == "tiny"
    assert record.facts["device"] == "CPU"
    assert record.facts["commit"] == "c0ffee"
    assert float(record.facts["chip_tflops"]) > 0
    by_name = {row.name: row for row in record.of("sampling")}
    assert by_name[sampling.REFERENCE].ratio == 1
    assert by_name[sampling.EAGER].share_of_chip is not None
    assert by_name[sampling.ALONE].evaluations == 2


def test_only_what_is_asked_for_is_measured(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", model, "--quick", "--only", "single", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert f"{PRESETS['default']}, eager" in out
    assert not any(word in out for word in ("Sampling", "Training", "Cost", "compiled"))


def test_the_default_model_follows_the_device() -> None:
    from fcfg.cli.bench import _subject

    assert _subject("", "", CPU).name == "portraits"
    assert _subject("", "", CUDA).name == "celeba-hq"
    assert _subject("portraits", "", CUDA).name == "portraits"


def test_a_gpu_is_given_more_and_quick_less() -> None:
    assert Scale.fitting(CUDA).images == 512
    assert Scale.fitting(CUDA, quick=True).images < 512
    assert Scale.fitting(CPU, quick=True).repetitions < Scale.fitting(CPU).repetitions
    assert Scale.fitting(CPU, images=6).rows == 6
    assert Scale.fitting(CPU, images=6, rows=2).rows == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-model"], "no-such-model"),
        (["--preset", "celeba"], "--preset: expected one of"),
        (["--device", "gpu"], "device: expected one of"),
        (["--only", "sampling,trainig"], "did you mean 'training'?"),
        (["--only", ","], "--only: expected one of"),
        (["--steps", "0"], "steps: expected an integer from 1 to 1000"),
        (["--images", "0"], "--images: expected an integer"),
        (["--rows", "0"], "--rows: expected an integer"),
        (["portraits", "--preset", "celeba-hq"], "leave one out"),
        (["--out", "."], "--out: expected a file"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(Bench, "run", None)  # nothing is measured
    assert main(["bench", *words]) == 2
    out, line = capsys.readouterr()
    assert out == ""
    assert line.startswith("fcfg bench: ")
    assert line.count("\n") == 1
    assert said in line
