"""SA-DCG: its networks, its denoiser, and the pipeline over it."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional

from awake import without_the_compiler
from fcfg.causal.attributes import AttributeSpace, Binary
from fcfg.diagnosis import diagnose
from fcfg.diffusion.denoiser import Corruption
from fcfg.diffusion.schedule import NoiseSchedule
from fcfg.guidance import Guidance
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.rivals.sadcg import (
    SemanticConfig,
    SemanticDenoiser,
    SemanticEmbedder,
    SemanticEncoder,
    SemanticUNet,
)
from fcfg.training.feed import Batch
from fcfg.training.objectives import DenoisingObjective
from fcfg.trust import measure_trust
from fcfg.trust.manifold import denoising_loss
from refusal import refused
from tiny import randomised
from tiny_semantic import CONFIG, tiny_denoiser, tiny_images, tiny_pipeline
from worlds import binary_space

RULES = [
    *("cfg:2", "contrast:1.5", "apg:2", "cfg++:0.02", "cfg:0", "none"),
    "cfg:2;stop=0.6",
]
SAMPLING = "dpm-2m karras 5"


def count(*modules: torch.nn.Module) -> int:
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


@pytest.fixture(scope="module")
def denoiser() -> SemanticDenoiser:
    return tiny_denoiser()


@pytest.fixture(scope="module")
def pipeline() -> CounterfactualPipeline:
    return tiny_pipeline()


def drawn(denoiser: SemanticDenoiser, n: int = 3, p_null: float = 0.5) -> Corruption:
    generator = torch.Generator().manual_seed(5)
    corruption = denoiser.draw((n, 1, 8, 8), generator, p_null=p_null)
    assert corruption.latent is not None
    latent = corruption.latent.double()
    return replace(corruption, noise=corruption.noise.double(), latent=latent)


def encoded(n: int = 3) -> tuple[Tensor, Tensor]:
    images, attributes = tiny_images(n)
    space = binary_space()
    return images, torch.from_numpy(space.encode(space.parse(attributes))).double()


# Networks


@pytest.mark.parametrize(("attributes", "millions"), [(3, 72.56), (7, 72.62)])
def test_both_networks_have_the_papers_72_6_million_parameters(
    attributes: int, millions: float
) -> None:
    config = SemanticConfig(condition=32 + attributes)
    space = AttributeSpace([Binary(f"a{i}") for i in range(attributes)])
    with torch.device("meta"):
        network, encoder = SemanticUNet(config), SemanticEncoder(config)
        embedder = SemanticEmbedder(space)
    denoiser = SemanticDenoiser(network, embedder, NoiseSchedule(), encoder)
    assert round(count(encoder) / 1e6, 1) == 37.2
    assert round(count(denoiser) / 1e6, 2) == millions
    if attributes == 3:
        assert round(count(network) / 1e6, 1) == 35.3


def test_a_block_scales_and_shifts_by_time_and_scales_by_condition(
    denoiser: SemanticDenoiser,
) -> None:
    block = denoiser.network.down[0].block
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(2, 8, 8, 8, generator=generator, dtype=torch.float64)
    embedding = torch.randn(2, 14, generator=generator, dtype=torch.float64)
    normal, _, convolution = block.first
    h = functional.silu(functional.group_norm(x, 8, normal.weight, normal.bias))
    h = functional.group_norm(convolution(h), 8, block.norm.weight, block.norm.bias)
    of_time, of_condition = block.modulation.time, block.modulation.condition
    a, b = (embedding[:, :7] @ of_time.weight.T + of_time.bias)[..., None, None].chunk(2, dim=1)
    s = (embedding[:, 7:] @ of_condition.weight.T + of_condition.bias)[..., None, None]
    expected = x + block.second[2](functional.silu((h * a + b) * s))
    torch.testing.assert_close(block(x, embedding), expected)


def test_several_sets_of_conditions_are_several_calls(denoiser: SemanticDenoiser) -> None:
    images, _ = tiny_images()
    t = torch.tensor([1, 500, 1000])
    c = torch.randn(6, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    both = denoiser(images, t, c)
    apart = torch.cat([denoiser(images, t, part) for part in c.chunk(2)])
    torch.testing.assert_close(both, apart)
    assert (both[:3] - both[3:]).abs().mean() > 1e-3


def test_the_prediction_depends_on_semantics_attributes_and_time(
    denoiser: SemanticDenoiser,
) -> None:
    images, attributes = tiny_images()
    t, table = torch.full((3,), 300), binary_space().parse(attributes)
    z = denoiser.semantics(images)
    before = denoiser(images, t, denoiser.condition(table, z))
    changed = {**table, "male": 1 - table["male"]}
    for other in (
        denoiser(images, t, denoiser.condition(table, z + 1)),
        denoiser(images, t, denoiser.condition(changed, z)),
        denoiser(images, t + 300, denoiser.condition(table, z)),
    ):
        assert (other - before).abs().mean() > 1e-4


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"latent": 7}, "no room for attributes"),
        ({"head_channels": 8}, "head_channels must be at least 16"),
        ({"encoder_multipliers": (1, 2, 2, 2, 2)}, "size 8 is not divisible by 16"),
        ({"encoder_multipliers": ()}, "at least one level"),
        ({"encoder_multipliers": (1, 2, 2, 2)}, "too few to be normalised"),
        ({"attention": (2,)}, "attention"),
    ],
)
def test_shapes_that_cannot_be_computed_are_refused(changes, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        SemanticConfig(**(CONFIG.model_dump() | changes))


# Denoiser


def test_the_loss_is_the_squared_error_of_an_image_and_the_divergence(
    denoiser: SemanticDenoiser,
) -> None:
    images, values = encoded()
    corruption = drawn(denoiser)
    corruption = replace(corruption, keep=torch.tensor([[True] * 3, [False] * 3, [True] * 3]))
    mean, log_variance = denoiser.encoder(images)
    q = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    p = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
    z = mean + q.stddev * corruption.latent
    error = 0.0
    for row in range(3):
        alpha = denoiser.schedule.alpha[corruption.t[row]]
        x_t = alpha.sqrt() * images[row] + (1 - alpha).sqrt() * corruption.noise[row]
        c = torch.cat([z[row], values[row]]) if row != 1 else denoiser.embedder.null
        eps = denoiser.network(x_t[None], corruption.t[row : row + 1], c[None])[0]
        error = error + (corruption.noise[row] - eps).square().sum() / 3
    divergence = torch.distributions.kl_divergence(q, p).sum() / 3
    assert divergence > 0.01
    for weight in (0.0, 1e-3, 1.0):
        loss = denoiser.loss(images, values, corruption, kl_weight=weight)
        torch.testing.assert_close(loss, error + weight * divergence)


def test_every_weight_learns(denoiser: SemanticDenoiser) -> None:
    images, values = encoded()
    corruption = replace(drawn(denoiser), keep=torch.tensor([[True] * 3, [False] * 3, [True] * 3]))
    denoiser.zero_grad()
    denoiser.loss(images, values, corruption).backward()
    still = [n for n, p in denoiser.named_parameters() if p.grad is None or not p.grad.any()]
    denoiser.zero_grad()
    assert still == []


def test_the_same_learned_null_vector_is_used_in_training_and_inference() -> None:
    denoiser = tiny_denoiser()
    images, values = encoded()
    corruption = replace(drawn(denoiser), keep=torch.zeros(3, 3, dtype=torch.bool))
    condition = torch.cat([denoiser.semantics(images), values], dim=1)
    keep = torch.ones(1, 3, dtype=torch.bool)
    signal, noise = (
        levels(corruption.t).view(-1, 1, 1, 1)
        for levels in (denoiser.schedule.signal, denoiser.schedule.noise)
    )
    x_t = signal * images + noise * corruption.noise
    losses = []
    for _ in range(2):
        loss = denoiser.loss(images, values, corruption, kl_weight=0.0)
        predictor = Guidance.cfg(2.0).predictor(denoiser, condition, condition, keep)
        null = predictor.evaluate(x_t, corruption.t, guided=True)[0]
        torch.testing.assert_close(loss, (null - corruption.noise).square().sum() / 3)
        losses.append(loss.item())
        denoiser.embedder.null.data += 1
    assert losses[0] != pytest.approx(losses[1], rel=1e-3)
    other = denoiser.loss(images + 0.0, 1 - values, corruption, kl_weight=0.0)
    assert other.item() == denoiser.loss(images, values, corruption, kl_weight=0.0).item()


def test_a_condition_is_dropped_as_often_as_asked(denoiser: SemanticDenoiser) -> None:
    keep = drawn(denoiser, n=4000, p_null=0.2).keep
    assert torch.equal(keep.all(dim=1), keep.any(dim=1))
    assert keep[:, 0].double().mean().item() == pytest.approx(0.8, abs=0.03)


def test_masks_keep_or_drop_a_condition_as_a_whole(denoiser: SemanticDenoiser) -> None:
    embedder = denoiser.embedder
    c = torch.randn(2, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    keep = torch.tensor([[True] * 3, [False] * 3])
    masked = embedder.masked(c, keep)
    assert torch.equal(masked[0], c[0])
    assert torch.equal(masked[1], embedder.null)
    assert torch.equal(embedder.masked(c, keep, -c)[1], -c[1])
    with refused("mask", "SA-DCG masks all attributes together"):
        embedder.masked(c, torch.tensor([[True, False, True]]))


def test_what_needs_masks_of_single_attributes_is_refused(
    pipeline: CounterfactualPipeline,
) -> None:
    images, attributes = tiny_images()
    told = "SA-DCG masks all attributes together"
    denoiser, fcfg = pipeline.denoiser, Guidance.fcfg(affected=3.0, invariant=1.2)
    with refused("guidance fcfg", told):
        pipeline.counterfactual(images, attributes, {"male": 1}, guidance=fcfg)
    with refused("guidance fcfg", told):
        pipeline.plan(["male"], fcfg, sampling=SAMPLING)
    with refused("diagnosis", told):
        diagnose(pipeline, images, attributes)
    with refused("p_group", told):
        denoiser.draw((3, 1, 8, 8), torch.Generator(), p_group=0.5)


def test_what_does_not_fit_together_is_refused(denoiser: SemanticDenoiser) -> None:
    images, attributes = tiny_images()
    with refused("condition", "attributes alone"):
        denoiser.condition(binary_space().parse(attributes))
    with refused("images", "floating-point"):
        unchecked = inspect.unwrap(SemanticDenoiser.loss)  # as callers without run-time checks
        unchecked(denoiser, images.to(torch.uint8), encoded()[1], drawn(denoiser))
    other = SemanticEncoder(SemanticConfig(**(CONFIG.model_dump() | {"blocks": 2})))
    with refused("denoiser of SA-DCG", "one config"):
        SemanticDenoiser(denoiser.network, denoiser.embedder, denoiser.schedule, other)


# Pipeline


def test_an_abduction_keeps_the_semantics_and_a_prediction_uses_them(
    pipeline: CounterfactualPipeline,
) -> None:
    images, attributes = tiny_images()
    abduction = pipeline.abduct(images, attributes, sampling=SAMPLING, batch_size=2)
    torch.testing.assert_close(abduction.semantics, pipeline.denoiser.encoder(images)[0].detach())
    action = pipeline.act(attributes, {"male": 1})
    answers = [
        pipeline.predict(replace(abduction, semantics=z), action, Guidance.cfg(2.0)).trajectory.x
        for z in (abduction.semantics, abduction.semantics + 1)
    ]
    assert (answers[0] - answers[1]).abs().mean() > 1e-3


@pytest.mark.parametrize("text", RULES)
def test_anchored_predictions_give_the_image_back_under_its_own_attributes(
    pipeline: CounterfactualPipeline, text: str
) -> None:
    images, attributes = tiny_images()
    abduction = pipeline.abduct(images, attributes, sampling=SAMPLING)
    action = pipeline.act(attributes, {"male": attributes["male"]})
    states: list[Tensor] = []
    pair = pipeline.predict(
        abduction,
        action,
        Guidance.parse(text).replace(anchor=True),
        on_step=lambda record: states.append(record.trajectory.x),
    )
    torch.testing.assert_close(states[-1], images, atol=1e-9, rtol=0)
    assert torch.equal(pair.images, images)


def test_weight_one_is_the_plain_model_and_weight_zero_the_null_vector(
    pipeline: CounterfactualPipeline,
) -> None:
    images, attributes = tiny_images()
    abduction = pipeline.abduct(images, attributes, sampling=SAMPLING)
    action = pipeline.act(attributes, {"male": 1})
    plain, one, zero = (
        pipeline.predict(abduction, action, Guidance.parse(text)).trajectory.x
        for text in ("none", "cfg:1", "cfg:0")
    )
    assert torch.equal(plain, one)
    other = pipeline.act(attributes, {"male": 0})
    again = pipeline.predict(abduction, other, Guidance.cfg(0.0)).trajectory.x
    assert torch.equal(zero, again)
    assert (zero - plain).abs().mean() > 1e-3


def test_a_network_in_bf16_stays_in_it_and_near_the_exact_one() -> None:
    torch.manual_seed(0)
    network = randomised(SemanticUNet(CONFIG), 0.04)
    images, _ = tiny_images()
    c = torch.linspace(-1, 1, 21).view(3, 7)
    exact = network(images.float(), torch.tensor([1, 500, 999]), c)
    rough = network.bfloat16()(images.bfloat16(), torch.tensor([1, 500, 999]), c.bfloat16())
    assert rough.dtype == torch.bfloat16
    assert (rough - exact).abs().mean() < 0.05 * exact.abs().mean()


def test_the_papers_sampling_has_cfg_by_default(pipeline: CounterfactualPipeline) -> None:
    assert pipeline.plan(["male"], sampling="paper").setting == Guidance.cfg(2.0)


def test_kept_abductions_hold_their_semantics(
    pipeline: CounterfactualPipeline,
) -> None:
    images, attributes = tiny_images()
    plan = pipeline.plan(["male"], Guidance.cfg(2.0), sampling=SAMPLING)
    first = pipeline.abduct(images, attributes, plan=plan)
    about = (images, first.attributes, first.keys, plan)
    second = pipeline.restore(*about, first.inferred)
    assert torch.equal(first.semantics, second.semantics)
    assert torch.equal(first.trajectory.x, second.trajectory.x)
    rest = {name: value for name, value in first.inferred.items() if name != "semantics"}
    assert pipeline.restore(*about, rest) is None


def test_signals_of_trust_see_the_semantics_of_the_images(
    pipeline: CounterfactualPipeline,
) -> None:
    images, attributes = tiny_images()
    pair = pipeline.counterfactual(images, attributes, {"male": 1}, sampling=SAMPLING)
    signals = measure_trust(pipeline, images, pair)
    alone = denoising_loss(pipeline.denoiser, pair.images, pair.attributes, batch_size=1)
    together = torch.stack([signals.values[n] for n in signals.values if "loss" in n], dim=1)
    torch.testing.assert_close(together, alone)
    other = tiny_pipeline()
    other.denoiser.encoder.mean[3].bias.data += 1
    moved = denoising_loss(other.denoiser, pair.images, pair.attributes)
    assert (moved - alone).abs().max() > 1e-4


# Training


def objective_and_batch() -> tuple[DenoisingObjective, Batch, tuple[Tensor, ...]]:
    objective = DenoisingObjective(tiny_denoiser(), p_null=0.5, kl_weight=0.1)
    images, values = encoded()
    draws = objective.draw((3, 1, 8, 8), torch.Generator().manual_seed(0))
    t, noise, keep, latent = draws
    return (
        objective,
        Batch(images, values, values[:, :0]),
        (t, noise.double(), keep, latent.double()),
    )


def test_the_objective_is_the_loss_of_its_denoiser() -> None:
    objective, batch, draws = objective_and_batch()
    denoiser = objective.subject
    expected = denoiser.loss(batch.images, batch.values, Corruption(*draws), kl_weight=0.1)
    assert torch.equal(objective(batch, draws), expected)
    other = tiny_denoiser(1)
    there = objective.over(other)
    assert there.subject is other
    expected = other.loss(batch.images, batch.values, Corruption(*draws), kl_weight=0.1)
    assert torch.equal(there(batch, draws), expected)


def test_validation_losses_are_with_and_without_the_condition() -> None:
    objective, batch, draws = objective_and_batch()
    variants = objective.variants(draws)
    losses = {name: objective(batch, some).item() for name, some in variants.items()}
    assert losses["validation_loss"] == objective(batch, draws).item()
    for name, keep in (("with", True), ("without", False)):
        forced = (*draws[:2], torch.full_like(draws[2], keep), draws[3])
        assert losses[f"validation_{name}_condition"] == objective(batch, forced).item()
    assert losses["validation_with_condition"] != losses["validation_without_condition"]


def test_a_condition_that_does_not_help_is_warned_of() -> None:
    objective, _, _ = objective_and_batch()
    names = ("validation_with_condition", "validation_without_condition")
    assert objective.advice(dict(zip(names, (1.0, 2.0), strict=True))) is None
    assert "no better" in objective.advice(dict(zip(names, (2.0, 1.0), strict=True)))


@pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning")  # torch's own import
def test_a_compiled_objective_is_the_same() -> None:
    objective, batch, draws = objective_and_batch()
    expected = objective(batch, draws)
    with without_the_compiler():
        objective.fuse(cuda_graphs=False)
        assert torch.equal(objective(batch, draws), expected)


def test_a_few_steps_lower_the_loss() -> None:
    objective, batch, draws = objective_and_batch()
    optimiser = torch.optim.Adam(objective.parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        loss = objective(batch, draws)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) / 5 < 0.7 * losses[0]
