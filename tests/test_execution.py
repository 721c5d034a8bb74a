from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import fcfg
from awake import Counting, ask, awake_model, distance, questions, without_the_compiler
from awake import pytestmark as pytestmark
from evaluations import SIZE
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.runtime import CompiledRows, Execution, covering, devices, fitting_rows
from fcfg.pipeline.runtime.compiled_batches import compiled_sizes
from fcfg.pipeline.runtime.cuda_graphs import as_recording
from fcfg.support.hashing import digest_of
from place import DEVICE
from refusal import refused

COMPILED = """
import torch
from awake import ask, awake_model, distance
from fcfg.guidance import Guidance

plain, compiled = (
    awake_model().prepare("float32", compile=compiled, batch_size=2) for compiled in (False, True)
)
texts = [
    text.format(rule, w, w / 2, w / 4)
    for rule, w in (("cfg", 2), ("cfg++", 0.1), ("apg", 2))
    for text in ("{}:{}", "f{}:affected={},invariant={}", "f{}:smiling={},male={},young={}")
]
for text in texts:
    guidance = Guidance.parse(text)
    worst = distance(*(ask(p, 3, guidance=guidance) for p in (plain, compiled)))
    assert 0 < worst < 1e-5, (text, worst)  # other kernels round otherwise
"""


@pytest.mark.long
def test_a_compiled_network_gives_the_same_answers_under_every_rule() -> None:
    """With the real compiler, in a process without run-time checks, which it would trip over."""
    command = [sys.executable, "-c", COMPILED]
    subprocess.run(command, check=True, cwd=Path(__file__).parent, timeout=600)


def test_a_network_compiled_for_some_rows_answers_any_number() -> None:
    network = awake_model().denoiser.network
    with torch.no_grad(), without_the_compiler():
        for count in (1, 4, 7, 10, 41):
            wanted = network(*questions(count))
            for most in (1, 4, 5, 40):
                found = CompiledRows(network, most)(*questions(count))
                assert torch.allclose(found, wanted, atol=1e-6)


@given(rows=st.integers(1, 10_000), most=st.integers(1, 5_000))
def test_any_number_of_rows_is_made_of_few_sizes_and_little_waste(rows: int, most: int) -> None:
    sizes = compiled_sizes(most)
    assert len(sizes) <= 3
    assert sizes[0] == most
    pieces = covering(rows, sizes)
    assert set(pieces) <= set(sizes)
    assert pieces == sorted(pieces, reverse=True)
    assert rows <= sum(pieces) <= max(2 * rows, sizes[-1])
    assert sum(pieces[:-1]) < rows  # the last one holds something
    assert len(pieces) <= rows // most + 1 + 2 * 16


def test_a_single_image_does_not_pay_for_a_batch() -> None:
    pipeline = awake_model()
    pipeline.denoiser.network = Counting(pipeline.denoiser.network)
    pipeline.prepare(compile=True, batch_size=1024)
    with without_the_compiler():
        ask(pipeline, 1)
    assert set(pipeline.denoiser.network.asked) == {4}  # one row, or three


def test_inputs_of_any_layout_meet_one_compiled_network(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []

    def compile_as_is(network: nn.Module, **options: object) -> object:
        def run(*tensors: Tensor) -> Tensor:
            seen.append(sum((tensor.stride() for tensor in tensors), ()))
            return network(*tensors)

        return run

    monkeypatch.setattr(torch, "compile", compile_as_is)
    pipeline = awake_model().prepare(compile=True, batch_size=4, cuda_graphs=False)
    ask(pipeline, 4)
    assert len(seen) == 3 * (1 + 3)
    assert len(set(seen)) == 1


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_a_small_call_is_told_at_once_unless_a_whole_step_is(graphs, inside, monkeypatch) -> None:
    modes: list[str] = []

    def compile_as_is(network: nn.Module, *, dynamic: bool, mode: str) -> nn.Module:
        modes.append(mode)
        return network

    monkeypatch.setattr(torch, "compile", compile_as_is)
    rows = CompiledRows(awake_model().denoiser.network, 2048, graphs)
    with torch.no_grad(), as_recording() if inside else nullcontext():
        for _ in range(2):
            rows(*questions(1036))  # 2,048
            rows(*questions(70))  # 128
    assert modes == ["default", "reduce-overhead" if graphs and not inside else "default"]


def test_precision_is_that_of_the_network_alone() -> None:
    loaded = ask(awake_model())
    exact, tf32, automatic, rounded = (
        ask(awake_model().prepare(precision)) for precision in ("float32", "tf32", "auto", "bf16")
    )
    assert distance(exact, loaded) < 1e-5  # another layout rounds otherwise
    if DEVICE.type == "cpu":
        assert distance(exact, tf32) == 0  # a CPU has no TF32
    else:
        assert 1e-6 < distance(exact, tf32) < 0.01
    assert distance(tf32, automatic) == 0
    assert rounded.trajectory.x.dtype == torch.float32
    assert 1e-4 < distance(exact, rounded) < 0.03  # bf16 has eight binary digits


def test_only_a_gpu_has_tf32_and_networks_lie_as_their_convolutions() -> None:
    for precision in ("auto", "tf32", "float32", "bf16"):
        asked = Execution(precision, compile=True, batch_size=7)
        both = on_gpu, on_cpu = asked.on("cuda:1"), asked.on(torch.device("cpu"))
        wanted = ("tf32", "float32") if precision in ("auto", "tf32") else (precision, precision)
        assert (on_gpu.precision, on_cpu.precision) == wanted
        assert all(replace(each, precision=precision) == asked for each in both)
    network = fcfg.load("portraits").prepare().denoiser.network
    assert network.memory_format == torch.channels_last
    assert network.stem.weight.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("replaced", [False, True])
def test_weights_that_change_later_are_used(precision, compiled, replaced) -> None:
    """Written over, or others put in their place."""
    pipeline, fresh = awake_model().prepare(precision, compile=compiled), awake_model()
    with torch.no_grad(), without_the_compiler():
        before = pipeline.denoiser(*questions(2))
        for network in (pipeline.denoiser.network, fresh.denoiser.network):
            twice = {name: 2 * weight for name, weight in network.state_dict().items()}
            network.load_state_dict(twice, assign=replaced)
        after = pipeline.denoiser(*questions(2))
        fresh.prepare(precision, compile=compiled)
        assert torch.equal(after, fresh.denoiser(*questions(2)))
    assert not torch.equal(before, after)


def test_training_asks_the_network_itself() -> None:
    pipeline = awake_model().prepare("bf16")
    denoiser, arguments = pipeline.denoiser, questions(2)
    with torch.no_grad():
        rounded = denoiser.output(*arguments)
        plain = denoiser.train().output(*arguments)
        assert torch.equal(plain, denoiser.network(*arguments))
    assert not torch.equal(plain, rounded)


def test_what_nobody_knows_is_refused() -> None:
    pipeline = awake_model()
    for precision in ("fp32", "bf61", "fp16"):
        refused("precision").by(pipeline.prepare, precision)
    for batch_size in (0, 10**9 + 1):
        refused("batch_size").by(pipeline.prepare, batch_size=batch_size)
    for switch in ("compile", "cuda_graphs"):
        refused(switch).by(pipeline.prepare, **{switch: 256})
    assert pipeline.execution is None


MODES = [("float32", False), ("bf16", False), ("float32", True), ("bf16", True)]


@pytest.mark.parametrize(("precision", "compiled"), MODES)
def test_the_weights_stay_and_can_be_saved(precision: str, compiled: bool, tmp_path: Path) -> None:
    def images(pipeline: CounterfactualPipeline) -> torch.Tensor:
        torch.backends.mkldnn.set_flags(True)  # which bf16 on a CPU without it switches off
        return ask(pipeline).trajectory.x

    pipeline = awake_model()
    before, digest = pipeline.denoiser.state_dict(), digest_of(pipeline.denoiser)
    plain = images(pipeline.prepare("float32"))
    with without_the_compiler():
        for _ in range(2):  # nothing is wrapped or rounded twice
            pipeline.prepare(precision, compile=compiled, batch_size=4)
        prepared = images(pipeline)
        pipeline.prepare(precision, compile=compiled, batch_size=4).to(DEVICE)
        assert torch.equal(images(pipeline), prepared)
    assert list(pipeline.denoiser.state_dict()) == list(before)
    assert digest_of(pipeline.denoiser) == digest
    assert repr(pipeline).startswith("CounterfactualPipeline(UNet of")
    fcfg.save(pipeline, tmp_path / "model")
    again = fcfg.load(tmp_path / "model").to(DEVICE)
    assert digest_of(again.denoiser) == digest
    assert torch.equal(images(again.prepare("float32")), plain)
    with without_the_compiler():
        again.prepare(precision, compile=compiled, batch_size=4)
        assert torch.equal(images(again), prepared)


@pytest.mark.parametrize(("precision", "compiled"), MODES)
def test_answers_do_not_depend_on_the_batch_size(precision: str, compiled: bool) -> None:
    pipeline = awake_model().prepare(precision, compile=compiled, batch_size=6)
    # In bf16, kernels for other shapes may round to another neighbour, one part in 256.
    most = 1e-5 if precision == "float32" else 0.03
    with without_the_compiler():
        whole = ask(pipeline, 5)
        for size in (3, 7):
            assert distance(whole, ask(pipeline, 5, batch_size=size)) < most


@pytest.mark.parametrize("compiled", [False, True])
def test_out_of_memory_loses_nothing(compiled: bool) -> None:
    pipeline = awake_model()
    pipeline.denoiser.network = network = Counting(pipeline.denoiser.network, most=8)
    pipeline.prepare("float32", compile=compiled, batch_size=16)
    with without_the_compiler():
        found = ask(pipeline, 10, batch_size=30)
    assert distance(found, ask(awake_model(), 10)) < 1e-5
    if not compiled:
        assert sum(network.asked) == 3 * 10 * (1 + 3)  # nothing that was finished is done again
    network.most = 0
    with pytest.raises(torch.OutOfMemoryError), without_the_compiler():
        ask(pipeline, 1)


def test_rows_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU that is made up: 1,000 bytes a row, 900 of its bytes free, and some kept."""
    pipeline = awake_model().to("cpu")
    assert fitting_rows(pipeline.denoiser, (SIZE, SIZE)) == 256
    peak = iter([5_000 + 16 * 1_000])
    told: dict[str, Any] = {"reset_peak_memory_stats": None, "memory_allocated": 5_000}
    told |= {"memory_reserved": 105_000, "mem_get_info": (900_000, 2_000_000)}
    for name, answer in told.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, answer=answer: answer)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: next(peak))
    measured = devices._measured(pipeline.denoiser, (SIZE, SIZE))
    assert measured == (1_000_000, 1_000)
    monkeypatch.setattr(devices, "_measured", lambda *asked: measured)
    monkeypatch.setattr(type(pipeline.denoiser), "device", torch.device("cuda"))
    assert fitting_rows(pipeline.denoiser, (SIZE, SIZE)) == 512  # of 800 that would fit
    assert devices.rows_within(free=10**15, each=1.0) == 4096
    assert devices.rows_within(free=0, each=1e9) == 1
