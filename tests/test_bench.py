"""``fcfg bench``: what is compared, counted and written. Speed itself is not tested."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import fcfg
from evaluations import tiny_model
from fcfg.bench import (
    PARTS,
    Bench,
    BenchModel,
    Measurement,
    Record,
    baselines,
    heading,
    read_record,
    run,
    tables,
    timing,
)
from fcfg.bench.baselines import Inputs, batched_loop, diffusers_loop, separate_loop
from fcfg.bench.bench_model import _target, random_table, randomise_zero_layers, row_flops
from fcfg.bench.record import compared
from fcfg.bench.timing import count_flops, fast_precision, matrix_rate
from fcfg.causal.attributes import AttributeSpace, Binary, Categorical, Continuous
from fcfg.causal.graph import CausalGraph, Partition
from fcfg.cli import main
from fcfg.diffusion.networks import PAPER, UNet, UNetConfig
from fcfg.guidance import Guidance
from fcfg.sampling import DRAWN_NOISE
from refusal import refused
from tiny import tiny_pipeline

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*script_method.*:DeprecationWarning"  # torch's own import of its compiler
)
CPU, CUDA = torch.device("cpu"), torch.device("cuda")
STEPS = 5
EXACT, ROUNDED = 1e-9, 1e-3  # in float64; with float32, whose rounding noise magnifies
SAMPLING = [run.REFERENCE, run.SEPARATE, run.DIFFUSERS, run.EAGER, run.COMPILED, run.ALONE]


@pytest.fixture(scope="module")
def model() -> BenchModel:
    pipeline = tiny_model(saved=True)
    torch.manual_seed(1)
    randomise_zero_layers(pipeline.denoiser.network)
    return BenchModel("tiny", pipeline, CPU)


@pytest.fixture(scope="module")
def precise(model: BenchModel) -> BenchModel:
    """The same model in float64, so that loops are compared and not their rounding."""
    pipeline = model.fresh()
    pipeline.denoiser.double()
    return BenchModel("precise", pipeline, CPU)


@pytest.fixture(scope="module")
def folder(model: BenchModel, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    fcfg.save(model.pipeline, folder)
    return str(folder)


@pytest.fixture
def no_compiler() -> Generator[None]:
    torch.compiler.set_stance("force_eager")  # all but the compiler, which is not ours
    yield
    torch.compiler.set_stance("default")


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "find_spec", lambda name: None)


# Implementations --------------------------------------------------------------------------------


def images_of(
    model: BenchModel, monkeypatch: pytest.MonkeyPatch, images: int = 3
) -> dict[str, Tensor]:
    """The images of every implementation."""
    found: dict[str, Tensor] = {}

    def keep(self, workload, exact, name: str, computed_in: str, prepare) -> Measurement:
        found[name] = prepare()()
        return Measurement("sampling", name)

    monkeypatch.setattr(Bench, "measure_images", keep)
    bench = Bench(model, images=images, steps=STEPS, rows=2, compiled=True, quick=True)
    assert [row.name for row in bench.sampling()] == SAMPLING
    assert [*found, run.ALONE] == SAMPLING
    return found


@pytest.mark.usefixtures("no_compiler")
def test_all_implementations_give_the_same_images(
    precise: BenchModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = precise.workload(3, STEPS)
    exact = run.exact_images(workload)
    monkeypatch.setattr(Bench, "measure_network", lambda *_: Measurement("sampling", run.ALONE))
    for name, images in images_of(precise, monkeypatch).items():
        bound = ROUNDED if name == run.DIFFUSERS else EXACT  # its alphas are float32
        assert (images - exact).abs().max() < bound, name
    assert (exact - workload.images).abs().max() > 100 * ROUNDED  # or it would mean nothing


@pytest.mark.usefixtures("no_compiler")
def test_in_float32_they_differ_by_rounding_alone(
    model: BenchModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = images_of(model, monkeypatch, images=1)
    for name, images in found.items():
        assert (images - found[run.REFERENCE]).abs().max() < 10 * ROUNDED, name


def test_the_schedulers_of_diffusers_give_our_images(precise: BenchModel) -> None:
    workload = precise.workload(2, 10)
    images = diffusers_loop(Inputs.of(workload))
    assert (images - run.exact_images(workload)).abs().max() < ROUNDED


def test_groups_and_weights_matter_to_the_plain_loops(model: BenchModel) -> None:
    inputs = Inputs.of(model.workload(2, STEPS))
    images = batched_loop(inputs)
    for changed in (
        replace(inputs, weights=inputs.weights[::-1]),
        replace(inputs, counterfactual=[inputs.counterfactual[i] for i in (0, 2, 1)]),
        replace(inputs, factual=inputs.counterfactual[0]),
    ):
        for loop in (batched_loop, separate_loop):
            assert (loop(changed) - images).abs().max() > 10 * ROUNDED


@pytest.mark.parametrize("groups", [None, 1, 3])
def test_rows_are_counted_as_the_network_sees_them(model: BenchModel, groups: int | None) -> None:
    workload = model.workload(3, 2)
    if groups is not None:
        first, *others = model.pipeline.space.names
        partition = Partition(
            {"g": [first, *others]} if groups == 1 else {n: [n] for n in (first, *others)}
        )
        guidance = Guidance.fcfg(**dict.fromkeys(partition, 1.5))
        workload = replace(workload, guidance=guidance, partition=partition)
    assert len(workload.groups) == (groups or 2)
    seen, calls = 0, 0

    def count(module, inputs, output) -> None:
        nonlocal seen, calls
        seen, calls = seen + len(inputs[0]), calls + 1

    runs: dict[Callable, int] = {}
    for loop in (batched_loop, separate_loop):
        inputs = Inputs.of(workload)
        inputs.denoiser.network.register_forward_hook(count)
        seen = calls = 0
        loop(inputs)
        runs[loop] = calls
        assert seen == workload.evaluations
    assert runs == {batched_loop: 2 + 2, separate_loop: 2 + 2 * (len(workload.groups) + 1)}
    pair = run.compute(model.fresh(), workload)
    assert pair.evaluations * len(workload.images) == workload.evaluations


@pytest.mark.usefixtures("missing")
def test_what_cannot_run_says_why(model: BenchModel) -> None:
    rows = {row.name: row for row in Bench(model, images=1, steps=1, quick=True).sampling()}
    assert list(rows) == SAMPLING
    assert rows[run.DIFFUSERS].note == "not installed: pip install diffusers"
    assert "--compile" in rows[run.COMPILED].note
    assert {name for name, row in rows.items() if row.seconds is None} == {
        *(run.DIFFUSERS, run.COMPILED)
    }


def test_a_gpu_computes_in_less_than_float32(model: BenchModel) -> None:
    on_gpu = replace(model, device=CUDA).workload(1, 1)
    assert [run.precision(on_gpu, compiled=c) for c in (False, True)] == ["tf32", "bf16"]
    on_cpu = model.workload(1, 1)
    assert {run.precision(on_cpu, compiled=c) for c in (False, True)} == {"float32"}


def test_diffusers_needs_steps_that_divide(model: BenchModel) -> None:
    schedule = model.pipeline.denoiser.schedule
    assert baselines.diffusers_obstacle(8, schedule) == ""
    assert baselines.diffusers_obstacle(7, schedule) == "needs --steps that divide 1000"


def test_the_difference_is_that_of_the_images(model: BenchModel) -> None:
    workload = model.workload(2, 1)
    exact = run.exact_images(workload)
    off = exact.clone()
    off[0, 0, 0, 0] += 0.5
    bench = Bench(model)
    bench.repetitions = 2
    row = bench.measure_images(workload, exact, "off", "float32", lambda: lambda: off)
    assert row.largest_difference == pytest.approx(0.5)
    assert row.mean_difference == pytest.approx(0.5 / exact.numel())
    assert (row.images, row.groups, row.steps, row.repetitions) == (2, 2, 1, 2)


@pytest.mark.usefixtures("no_compiler")
def test_one_counterfactual_is_computed_with_the_defaults(model: BenchModel) -> None:
    bench = Bench(model, quick=True, compiled=True)
    row = bench.measure_single(compiled=True)
    pair = fcfg.CounterfactualPipeline(model.pipeline.denoiser, model.pipeline.scm)
    workload = model.workload(1, 1)
    default = pair.counterfactual(workload.images, workload.attributes, workload.do)
    assert row.evaluations == default.evaluations
    assert row.steps == len(default.abduction.times) - 1
    assert row.cold_seconds is not None
    way = f"{default.guidance}, {DRAWN_NOISE}"  # what was computed
    assert row.name == f"{way}, compiled"
    row = bench.measure_single(compiled=False, cuda_graphs=False)
    assert row.name == f"{way}, eager, kernel by kernel"


def test_a_gpu_is_also_measured_kernel_by_kernel(
    model: BenchModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[bool, bool]] = []

    def keep(self, *, compiled: bool, cuda_graphs: bool = True) -> Measurement:
        asked.append((compiled, cuda_graphs))
        return Measurement("single", "")

    monkeypatch.setattr(Bench, "measure_single", keep)
    list(Bench(replace(model, device=CUDA), compiled=True).single())
    assert asked == [(False, False), (False, True), (True, True)]


# Switches, clocks, memory -----------------------------------------------------------------------


def test_every_switch_is_put_back() -> None:
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn

    def state() -> tuple[bool, bool, bool]:
        return matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark

    def break_off() -> None:
        with timing.isolated(CPU):
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
    assert found == (1.0, 0.5)
    assert len(calls) == 3 + 2 * 4


def test_patience_ends_repetitions_but_not_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 3.0, 10.0, 13.0])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    assert timing.measure(lambda: None, CPU, repetitions=9, patience=4) == (3, 3)
    clock = iter([0.0, 9.0])
    assert timing.measure(lambda: None, CPU, repetitions=9, patience=4) == (9,)


def test_a_gpu_is_waited_for_and_its_memory_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda *device, name=name: told.append(name))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 7)
    timing.measure(lambda: told.append("call"), CUDA, repetitions=1)
    assert told == ["synchronize", "call", "synchronize"]
    timing.reset_peak(CUDA)
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
        counted = count_flops(lambda: network(x, t, c))
    assert counted == rows * row_flops(config, 8)
    assert row_flops(config, 16) > 4 * row_flops(config, 8)  # attention is more than linear


def test_the_matrix_rate_counts_two_operations_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "measure", lambda call, device, **how: (call(), (0.5,))[1])
    assert matrix_rate(CPU, size=10) == 2 * 10**3 / 0.5
    assert (fast_precision(CPU), fast_precision(CUDA)) == (torch.float32, torch.bfloat16)


# Models -----------------------------------------------------------------------------------------


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
    workload = BenchModel("mixed", pipeline, CPU).workload(3, 2)
    assert workload.images.shape == (3, 3, 8, 8)
    assert workload.images.min() >= -1
    assert set(workload.attributes) == set(pipeline.space.names)
    assert workload.do.keys() == {"smiling"}


def test_a_preset_has_the_papers_network_and_answers_that_are_not_zero() -> None:
    found = BenchModel.from_preset("celeba-hq", CPU)
    assert found.network == PAPER["celeba-hq"]
    denoiser = found.pipeline.denoiser
    assert sum(p.numel() for p in denoiser.parameters()) == 60_511_331
    head = denoiser.network.get_submodule("head.2").weight
    assert head.abs().max() > 0
    again = BenchModel.from_preset("celeba-hq", CPU).pipeline.denoiser.network.get_submodule(
        "head.2"
    )
    assert torch.equal(head, again.weight)


def test_a_stored_model_is_known_by_its_folder(folder: str, model: BenchModel) -> None:
    found = BenchModel.load(folder, CPU)
    assert found.name == "tiny"
    assert found.network == model.network


# Records ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def record() -> Record:
    base = Measurement("sampling", run.REFERENCE, images=4, evaluations=32, flops=10**12)
    rows = [
        base.timed((2.0, 1.0, 4.0)),
        replace(base, name=run.EAGER, peak_bytes=2**30).timed((0.5,)),
        Measurement("sampling", run.DIFFUSERS, note='not installed, "really"'),
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
    return Record(facts, tuple(compared(rows, run.REFERENCE, 2e12)))


def test_rates_follow_from_times(record: Record) -> None:
    reference, ours, absent = record.rows
    assert (reference.seconds, reference.seconds_low, reference.seconds_high) == (2, 1, 4)
    assert (reference.images_per_second, reference.evaluations_per_second) == (2, 16)
    assert (reference.tflops, reference.share_of_chip) == (0.5, 0.25)
    assert (reference.ratio, ours.ratio, absent.ratio) == (1, 4, None)


def test_implementations_take_turns_and_the_middle_round_counts(
    model: BenchModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = iter([1.0, 1.1, 9.0, 1.0, 3.0, 4.0])  # two rows; others use the machine in the middle
    rows = [Measurement("sampling", name, images=1) for name in (run.REFERENCE, run.EAGER)]
    monkeypatch.setattr(Bench, "sampling", lambda _: [row.timed((next(pace),)) for row in rows])
    reference, ours = Bench(model, ("sampling",), quick=True).run().rows
    assert (reference.seconds, ours.seconds, ours.repetitions) == (3.0, 1.1, 3)
    assert (ours.seconds_low, ours.seconds_high) == (1.0, 4.0)
    assert list(pace) == []


def test_a_file_reads_back_as_it_was(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "bench.csv"
    record.write(path)
    assert read_record(path) == record
    assert len(path.read_text().splitlines()) == 1 + len(record.rows)
    path.write_text("a,b\n1,2\n")
    with refused("benchmark", "got another"):
        read_record(path)
    path.write_text("a,b\n")
    with refused("benchmark", "one without rows"):
        read_record(path)
    path.write_text("")
    with refused("bench.csv", "an empty file"):
        read_record(path)


def test_tables_have_every_row_and_every_reason(record: Record) -> None:
    (table,) = tables(record)
    assert [row[0] for row in table.rows] == [row.name for row in record.rows]
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert table.notes == (f'{run.DIFFUSERS}: not installed, "really"',)
    assert "4.00×" in table.rows[1]
    assert "1.00 GiB" in table.rows[1]
    assert "1.5 M parameters" in heading(record)
    assert "with 2 threads" in heading(record)


# The command ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("missing", "no_compiler")
def test_the_command_names_every_implementation_and_writes_every_row(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "bench.csv"
    words = ["bench", folder, "--quick", "--steps", "2", "--images", "2", "--compile"]
    words += ["--device", "cpu", "--commit", "c0ffee"]
    assert main([*words, "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    record = read_record(out)
    names = {part: [row.name for row in record.of(part)] for part in PARTS}
    assert names["sampling"] == SAMPLING
    assert len(names["single"]) == 2
    for part in PARTS:
        assert all(name in shown for name in names[part])
    assert "pip install diffusers" in shown
    assert record.facts["model"] == "tiny"
    assert record.facts["device"] == "CPU"
    assert record.facts["commit"] == "c0ffee"
    assert float(record.facts["chip_tflops"]) > 0
    by_name = {row.name: row for row in record.of("sampling")}
    assert by_name[run.REFERENCE].ratio == 1
    assert by_name[run.EAGER].share_of_chip is not None
    assert by_name[run.ALONE].evaluations == 2


def test_only_what_is_asked_for_is_measured(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", folder, "--quick", "--only", "single", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert f"{DRAWN_NOISE}, eager" in out
    assert not any(word in out for word in ("Sampling", "compiled"))


def test_the_default_model_follows_the_device() -> None:
    from fcfg.cli.bench import _bench_model

    assert _bench_model("", "", CPU).name == "portraits"
    assert _bench_model("", "", CUDA).name == "celeba-hq"
    assert _bench_model("portraits", "", CUDA).name == "portraits"


def test_a_gpu_is_given_more_and_quick_less(model: BenchModel) -> None:
    on_gpu = replace(model, device=CUDA)
    assert Bench(on_gpu).images == 512
    assert Bench(on_gpu, quick=True).images < 512
    assert Bench(model, quick=True).repetitions < Bench(model).repetitions
    assert Bench(model, images=6).rows == 6
    assert Bench(model, images=6, rows=2).rows == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-model"], "no-such-model"),
        (["--preset", "celeba"], "--preset: expected one of"),
        (["--device", "gpu"], "device: expected one of"),
        (["--only", "sampling,singel"], "did you mean 'single'?"),
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
