"""Laws of recorded steps: they answer as the steps themselves do, whatever is asked next.

On a CPU with graphs that are made up; with ``--device cuda`` with those of the GPU.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from awake import FCFG, Counting, ask, awake_model, distance, without_the_compiler
from awake import pytestmark as pytestmark
from evaluations import SIZE
from fcfg import Counterfactual, CounterfactualPipeline, Guidance
from fcfg.datasets import portraits
from fcfg.pipeline.runtime import Execution, StepRecorder, cuda_graphs, prepare_denoiser
from fcfg.sampling import StepRecord, as_solver
from graphs import make_up_graphs
from place import DEVICE
from worlds import RULES

SOLVERS = ("ddim", "fixed-point:2", "dpm-2m", "heun", "bdia:0.5")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Callable[..., CounterfactualPipeline]:
    """Prepares a pipeline as on a GPU, which a CPU is made to look like."""
    if DEVICE.type == "cpu":
        make_up_graphs(monkeypatch)

    def prepared(
        pipeline: CounterfactualPipeline, precision: str = "float32", **options: Any
    ) -> CounterfactualPipeline:
        pipeline.prepare(precision, **options)
        if DEVICE.type == "cpu":
            pipeline._recorder = StepRecorder(pipeline.denoiser)
        return pipeline

    return prepared


@pytest.fixture
def plain() -> CounterfactualPipeline:
    """Steps as they are."""
    return awake_model()


def recordings(pipeline: CounterfactualPipeline) -> int:
    return len(pipeline._recorder._steps)


def ask_do(
    pipeline: CounterfactualPipeline,
    do: Mapping[str, Any],
    count: int = 2,
    *,
    seed: int = 3,
    **options: Any,
) -> Counterfactual:
    faces = portraits.sample(count, seed=seed, size=SIZE)
    asked = {"guidance": FCFG, "sampling": "ddim uniform 4"} | options
    return pipeline.counterfactual(faces.images, faces.attributes, do, **asked)


def alike(one: Counterfactual, other: Counterfactual) -> None:
    """To rounding in all that a run leaves behind."""
    assert distance(one, other) < 1e-5  # another layout, and other kernels, round otherwise
    assert one.trajectory.spent == other.trajectory.spent
    mine, theirs = one.abduction.trajectory, other.abduction.trajectory
    assert len(mine.companions) == len(theirs.companions)
    for a, b in zip(mine.companions, theirs.companions, strict=True):
        assert torch.allclose(a, b, atol=1e-4)
    assert (mine.residual is None) == (theirs.residual is None)
    if mine.residual is not None:
        assert torch.allclose(mine.residual, theirs.residual, atol=1e-4)


MET = [(solver, rule) for solver in SOLVERS for rule in RULES[1::2]]  # every factored one
MET += [("dpm-2m", rule) for rule in RULES[::2]]


@pytest.mark.parametrize(("solver", "guidance"), MET, ids=str)
def test_recorded_steps_answer_as_the_steps_do(recorded, plain, solver, guidance) -> None:
    pipeline = recorded(awake_model())
    guidance = guidance.replace(start=0.2, stop=0.9)  # some steps are guided, and some are not
    for steps in (5, 4):  # the second time nothing is recorded
        options = {"guidance": guidance, "sampling": f"{solver} karras {steps}"}
        alike(ask(pipeline, 2, **options), ask(plain, 2, **options))
        if steps == 5:
            count = recordings(pipeline)
            assert count >= 6
    assert recordings(pipeline) == count


def test_recordings_of_rules_and_solvers_are_not_mixed_up(recorded, plain) -> None:
    """Shapes alone do not tell them apart; nor what the network predicts."""
    rules = [*RULES[1::2], RULES[5].replace(eta=1.0)]
    asked = [*({"guidance": rule} for rule in rules), {"sampling": "heun uniform 4"}]
    for parameterisation, some in (("noise", asked), ("image", [{}]), ("velocity", [{}])):
        pipeline = awake_model()
        pipeline.denoiser.parameterisation = plain.denoiser.parameterisation = parameterisation
        pipeline = recorded(pipeline)
        for options in some:
            alike(ask(pipeline, 1, **options), ask(plain, 1, **options))


def test_another_question_is_answered_by_the_same_recordings(recorded, plain) -> None:
    pipeline = recorded(awake_model())
    ask(pipeline, 3)
    count = recordings(pipeline)
    stronger = Guidance.fcfg(affected=5.0, invariant=0.5)
    for do in ({"smiling": 0}, {"male": 1}, {"young": [0, 1, 0], "male": 1}):
        options = {"guidance": stronger, "sampling": "ddim uniform 4", "seed": 7}
        pairs = [ask_do(asked, do, 3, **options) for asked in (pipeline, plain)]
        alike(*pairs)
        backs = [asked.reverse(pair) for asked, pair in zip((pipeline, plain), pairs, strict=True)]
        alike(*backs)
    assert recordings(pipeline) == count
    ask(pipeline, 2)  # another number of images is another recording
    assert recordings(pipeline) == 2 * count


def test_what_was_told_of_a_step_stays(recorded, plain) -> None:
    """The next replay overwrites what the last one gave, but nothing that somebody has."""
    told: list[list[StepRecord]] = []
    for pipeline in (recorded(awake_model()), plain):
        told.append([])
        ask(pipeline, 2, sampling="ddim uniform 4", on_step=told[-1].append)
    assert len(told[0]) == len(told[1]) == 8
    for one, other in zip(*told, strict=True):
        assert torch.allclose(one.trajectory.x, other.trajectory.x, atol=1e-3)
        assert one.trajectory.evaluations == other.trajectory.evaluations


def test_a_question_inside_of_another_disturbs_neither(recorded, plain) -> None:
    """Both are of the same kind, under other conditions."""
    pipeline = recorded(awake_model())
    male, young = ({name: lambda column: 1 - column} for name in ("male", "young"))
    wanted = ask_do(plain, male), ask_do(plain, young)
    inner: list[Counterfactual] = []

    def ask_another(record: StepRecord) -> None:
        if record.index == 1:
            inner.append(ask_do(pipeline, young))

    for _ in range(2):
        alike(ask_do(pipeline, male, on_step=ask_another), wanted[0])
    assert len(inner) == 4
    for pair in inner:
        alike(pair, wanted[1])


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("replaced", [False, True])
def test_weights_that_change_later_are_used(recorded, precision: str, replaced: bool) -> None:
    pipeline, fresh = recorded(awake_model(), precision), awake_model()
    before = ask(pipeline, 2)
    for network in (pipeline.denoiser.network, fresh.denoiser.network):
        other = {name: 2 * weight for name, weight in network.state_dict().items()}
        network.load_state_dict(other, assign=replaced)
    after = ask(pipeline, 2)
    assert distance(after, ask(recorded(fresh, precision), 2)) == 0
    assert distance(before, after) > 1e-3


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_recorded_steps_of_a_compiled_network(recorded, precision: str) -> None:
    """All of it but the compiler; on a GPU with it, by hand: it takes minutes."""
    pipeline = recorded(awake_model(), precision, compile=True, batch_size=6)
    with without_the_compiler():
        found = [ask(pipeline, 2, sampling=f"ddim uniform {steps}") for steps in (3, 4)]
    for one, steps in zip(found, (3, 4), strict=True):
        other = ask(recorded(awake_model(), precision), 2, sampling=f"ddim uniform {steps}")
        assert distance(one, other) < (1e-5 if precision == "float32" else 0.03)


def test_what_depends_on_numbers_is_not_recorded_nor_on_another_device(recorded, plain) -> None:
    """As where somebody moves the denoiser by hand."""
    guidance = FCFG.replace(tolerance=0.01)
    pipeline = recorded(awake_model())
    alike(*(ask(asked, 2, guidance=guidance) for asked in (pipeline, plain)))
    count = recordings(pipeline)
    ask(pipeline, 2)
    assert recordings(pipeline) > count  # those of the prediction
    pipeline = recorded(awake_model())
    pipeline._recorder._device = torch.device("meta")
    alike(ask(pipeline, 1), ask(plain, 1))
    assert recordings(pipeline) == 0


def test_many_images_are_not_recorded(recorded, plain, monkeypatch) -> None:
    monkeypatch.setattr(cuda_graphs, "_MOST_PIXELS", 6 * SIZE**2)
    pipeline = recorded(awake_model())
    alike(ask(pipeline, 7), ask(plain, 7))
    assert recordings(pipeline) == 0
    alike(ask(pipeline, 3), ask(plain, 3))  # 3 rows there, and 9 back
    count = recordings(pipeline)
    alike(ask(pipeline, 2), ask(plain, 2))
    assert 0 < count < recordings(pipeline) / 2


def test_recordings_share_their_memory_and_no_more_are_kept_than_some(
    recorded, plain, monkeypatch
) -> None:
    pipeline = recorded(awake_model())
    for count in (1, 2):
        ask(pipeline, count)
    pools = [step.graph.pool() for step in pipeline._recorder._steps.values()]
    assert len(pools) > 8
    assert all(pool == pools[0] for pool in pools)
    monkeypatch.setattr(cuda_graphs, "_KEPT", 8)
    for count in (1, 2, 3, 1):
        alike(ask(pipeline, count), ask(plain, count))
        assert recordings(pipeline) <= 8


with_tf32 = partial(torch.backends.cudnn.flags, enabled=True, allow_tf32=True)


@contextmanager
def with_autocast() -> Generator[None]:
    """Of a GPU, which ``torch.autocast`` would not switch on where there is none."""
    torch.set_autocast_enabled("cuda", True)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)


@pytest.mark.parametrize("switched", [with_tf32, with_autocast, torch.inference_mode])
def test_switches_of_torch_are_seen(recorded, plain, switched) -> None:
    pipeline = recorded(awake_model())
    with switched():
        ask(pipeline, 1)
    count = recordings(pipeline)
    alike(ask(pipeline, 1), ask(plain, 1))
    assert recordings(pipeline) == 2 * count
    with switched():
        ask(pipeline, 1)
    assert recordings(pipeline) == 2 * count


def test_only_our_network_is_recorded_and_only_on_a_gpu(recorded) -> None:
    ours, theirs = awake_model(), awake_model()
    theirs.denoiser.network = Counting(theirs.denoiser.network)
    found = [prepare_denoiser(pipeline.denoiser, Execution()) for pipeline in (ours, theirs)]
    assert (found[0] is not None) == (DEVICE.type == "cuda")
    assert found[1] is None
    recorder = recorded(awake_model())._recorder
    assert str(recorder.replaying(as_solver("dpm-2m"))) == "dpm-2m"


def test_another_network_in_its_place_is_asked(recorded, plain) -> None:
    pipeline = recorded(awake_model())
    before = ask(pipeline, 2)
    for denoiser in (pipeline.denoiser, plain.denoiser):
        denoiser.evaluate = Otherwise(denoiser.network)
    after = ask(pipeline, 2)
    alike(after, ask(plain, 2))
    assert distance(before, after) > 1e-3
    pipeline.denoiser.evaluate = None
    assert distance(before, ask(pipeline, 2)) == 0


class Otherwise(nn.Module):
    """Says half of what a network says."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        return self.network(x, t, c) / 2


def test_a_copy_of_a_pipeline_records_for_itself(recorded, plain) -> None:
    pipeline = recorded(awake_model())
    before = ask(pipeline, 2)
    twin = copy.deepcopy(pipeline)
    assert recordings(twin) == 0
    for parameter in pipeline.denoiser.network.parameters():
        parameter.data.zero_()
    alike(ask(twin, 2), before)
    assert distance(ask(pipeline, 2), before) > 1e-3
    alike(ask(twin, 2), ask(plain, 2))


def test_threads_take_turns(recorded, plain) -> None:
    """Each asks something else, of the same recordings."""
    pipeline = recorded(awake_model())
    asked = [{"smiling": 1}, {"male": 1}, {"young": 1}] * 2
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda do: ask_do(pipeline, do, sampling="ddim uniform 8"), asked))
    for do, pair in zip(asked, found, strict=True):
        alike(pair, ask_do(plain, do, sampling="ddim uniform 8"))
