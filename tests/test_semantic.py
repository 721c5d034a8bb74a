"""SA-DCG: its networks, its denoiser, and the pipeline over it; see also test_laws.py."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional

from fcfg import AttributeSpace, Binary, Guidance, NoiseSchedule
from fcfg.diagnosis import diagnose
from fcfg.diffusion import Corruption
from fcfg.model import Factual
from fcfg.rivals.sadcg import SemanticConfig, SemanticDenoiser, SemanticEmbedder
from fcfg.rivals.sadcg.network import SemanticEncoder, SemanticUNet
from fcfg.training.feed import Batch
from fcfg.training.objectives import DenoisingObjective
from fcfg.trust import denoising_loss, measure_trust
from refusal import refused
from tiny import randomised
from tiny_rivals import SEMANTIC, tiny_denoiser, tiny_images, tiny_pipeline
from worlds import binary_space, mixture_pipeline

SAMPLING = "dpm-2m karras 5"
PIPELINE = tiny_pipeline()
DENOISER: SemanticDenoiser = PIPELINE.denoiser
IMAGES, TABLE = tiny_images()
VALUES = torch.from_numpy(binary_space().encode(binary_space().parse(TABLE))).double()
SECOND_DROPPED = torch.tensor([[True] * 3, [False] * 3, [True] * 3])


def drawn(keep: Tensor = SECOND_DROPPED) -> Corruption:
    made = DENOISER.draw((3, 1, 8, 8), torch.Generator().manual_seed(5))
    return Corruption(made.t, made.noise.double(), keep, made.latent.double())


def noised(corruption: Corruption) -> Tensor:
    alpha = DENOISER.schedule.alpha[corruption.t].view(-1, 1, 1, 1)
    return alpha.sqrt() * IMAGES + (1 - alpha).sqrt() * corruption.noise


@pytest.mark.parametrize(("attributes", "millions"), [(3, 72.56), (7, 72.62)])
def test_both_networks_have_the_papers_72_6_million_parameters(attributes, millions) -> None:
    def count(*modules: nn.Module) -> float:
        return sum(p.numel() for module in modules for p in module.parameters()) / 1e6

    config = SemanticConfig(condition=32 + attributes)
    with torch.device("meta"):
        network, encoder = SemanticUNet(config), SemanticEncoder(config)
        embedder = SemanticEmbedder(AttributeSpace([Binary(f"a{i}") for i in range(attributes)]))
    denoiser = SemanticDenoiser(network, embedder, NoiseSchedule(), encoder)
    assert round(count(encoder), 1) == 37.2
    assert round(count(denoiser), 2) == millions
    if attributes == 3:
        assert round(count(network), 1) == 35.3


def test_a_block_scales_and_shifts_by_time_and_scales_by_condition() -> None:
    block = DENOISER.network.down[0].block
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


def test_networks_have_the_shapes_of_the_paper_or_are_refused() -> None:
    t = torch.tensor([1, 500, 1000])
    c = torch.randn(6, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    both = DENOISER(IMAGES, t, c)
    apart = torch.cat([DENOISER(IMAGES, t, part) for part in c.chunk(2)])
    torch.testing.assert_close(both, apart)
    assert (both[:3] - both[3:]).abs().mean() > 1e-3
    torch.manual_seed(0)
    network, t = randomised(SemanticUNet(SEMANTIC), 0.04), torch.tensor([1, 500, 999])
    c = torch.linspace(-1, 1, 21).view(3, 7)
    exact = network(IMAGES.float(), t, c)
    rough = network.bfloat16()(IMAGES.bfloat16(), t, c.bfloat16())
    assert rough.dtype == torch.bfloat16
    assert (rough - exact).abs().mean() < 0.05 * exact.abs().mean()
    for changes, told in (
        ({"latent": 7}, "no room for attributes"),
        ({"head_channels": 8}, "head_channels must be at least 16"),
        ({"encoder_multipliers": (1, 2, 2, 2, 2)}, "size 8 is not divisible by 16"),
        ({"encoder_multipliers": ()}, "at least one level"),
        ({"encoder_multipliers": (1, 2, 2, 2)}, "too few to be normalised"),
        ({"attention": (2,)}, "attention"),
    ):
        with pytest.raises(ValidationError, match=told):
            SemanticConfig(**(SEMANTIC.model_dump() | changes))


def test_the_loss_is_the_squared_error_of_an_image_and_the_divergence() -> None:
    corruption = drawn()
    mean, log_variance = DENOISER.encoder(IMAGES)
    q = Normal(mean, (0.5 * log_variance).exp())
    divergence = kl_divergence(q, Normal(0.0, 1.0)).sum() / 3
    assert divergence > 0.01
    c = torch.cat([mean + q.stddev * corruption.latent, VALUES], dim=1)
    c[1] = DENOISER.embedder.null
    x_t, error = noised(corruption), 0.0
    for row in (slice(row, row + 1) for row in range(3)):
        eps = DENOISER.network(x_t[row], corruption.t[row], c[row])
        error = error + (corruption.noise[row] - eps).square().sum() / 3
    for weight in (0.0, 1e-3, 1.0):
        loss = DENOISER.loss(IMAGES, VALUES, corruption, kl_weight=weight)
        torch.testing.assert_close(loss, error + weight * divergence)


def test_every_weight_learns_and_masks_keep_or_drop_a_condition_as_a_whole() -> None:
    denoiser = tiny_denoiser().double()
    denoiser.loss(IMAGES, VALUES, drawn()).backward()
    still = [n for n, p in denoiser.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []
    embedder = DENOISER.embedder
    c = torch.randn(3, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    masked = embedder.masked(c, SECOND_DROPPED)
    assert torch.equal(masked[::2], c[::2])
    assert torch.equal(masked[1], embedder.null)
    assert torch.equal(embedder.masked(c, SECOND_DROPPED, -c)[1], -c[1])


def test_the_same_learned_null_vector_is_used_in_training_and_inference() -> None:
    denoiser, corruption = tiny_denoiser().double(), drawn(torch.zeros_like(SECOND_DROPPED))
    condition = torch.cat([denoiser.semantics(IMAGES), VALUES], dim=1)
    keep, losses = torch.ones(1, 3, dtype=torch.bool), []
    for _ in range(2):
        loss = denoiser.loss(IMAGES, VALUES, corruption, kl_weight=0.0)
        predictor = Guidance.cfg(2.0).predictor(denoiser, condition, condition, keep)
        null = predictor.evaluate(noised(corruption), corruption.t, guided=True)[0]
        torch.testing.assert_close(loss, (null - corruption.noise).square().sum() / 3)
        losses.append(loss.item())
        denoiser.embedder.null.data += 1
    assert losses[0] != pytest.approx(losses[1], rel=1e-5)
    other = denoiser.loss(IMAGES, 1 - VALUES, corruption, kl_weight=0.0)
    assert other.item() == denoiser.loss(IMAGES, VALUES, corruption, kl_weight=0.0).item()


def test_what_masks_single_attributes_or_does_not_fit_is_refused() -> None:
    together = "SA-DCG masks all attributes together"
    fcfg = Guidance.fcfg(affected=3.0, invariant=1.2)
    unchecked = inspect.unwrap(SemanticDenoiser.loss)  # as callers without run-time checks
    other = SemanticEncoder(SemanticConfig(**(SEMANTIC.model_dump() | {"blocks": 2})))
    parts = (DENOISER.network, DENOISER.embedder, DENOISER.schedule)
    one, shape = torch.tensor([[True, False, True]]), (3, 1, 8, 8)
    for subject, fragment, call in (
        ("mask", together, lambda: DENOISER.embedder.masked(VALUES, one)),
        ("p_group", together, lambda: DENOISER.draw(shape, torch.Generator(), p_group=0.5)),
        ("guidance fcfg", together, lambda: PIPELINE.plan(["male"], fcfg)),
        ("diagnosis", together, lambda: diagnose(PIPELINE, IMAGES, TABLE)),
        ("condition", "attributes alone", lambda: DENOISER.condition(TABLE)),
        ("images", "floating", lambda: unchecked(DENOISER, IMAGES.byte(), VALUES, drawn())),
        ("denoiser of SA-DCG", "one config", lambda: SemanticDenoiser(*parts, other)),
    ):
        refused(subject, fragment).by(call)


def test_images_add_nothing_to_the_conditions_of_other_denoisers() -> None:
    denoiser = mixture_pipeline().denoiser
    alone = denoiser.condition(TABLE)
    assert torch.equal(denoiser.condition(TABLE, denoiser.semantics(IMAGES)), alone)


def test_an_abduction_keeps_the_semantics_and_a_prediction_uses_them() -> None:
    plan = PIPELINE.plan(["male"], sampling="paper")
    assert plan.setting == Guidance.cfg(2.0)
    plan = PIPELINE.plan(["male"], plan.setting, sampling=SAMPLING)
    first = PIPELINE.abduct(IMAGES, TABLE, plan=plan, batch_size=2)
    torch.testing.assert_close(first.semantics, DENOISER.encoder(IMAGES)[0].detach())
    about = (Factual(IMAGES, first.attributes, first.keys), plan)
    second = PIPELINE.restore(*about, first.inferred)
    assert torch.equal(first.semantics, second.semantics)
    assert torch.equal(first.trajectory.x, second.trajectory.x)
    rest = {name: value for name, value in first.inferred.items() if name != "semantics"}
    assert PIPELINE.restore(*about, rest) is None
    action = PIPELINE.act(TABLE, {"male": 1})
    answers = [
        PIPELINE.predict(replace(first, semantics=z), action, plan).trajectory.x
        for z in (first.semantics, first.semantics + 1)
    ]
    assert (answers[0] - answers[1]).abs().mean() > 1e-3


@pytest.mark.parametrize("text", ["contrast:1.5", "apg:2", "cfg:2;stop=0.6"])
def test_anchored_predictions_give_the_image_back_under_its_own_attributes(text: str) -> None:
    states: list[Tensor] = []
    how: dict[str, Any] = {"guidance": Guidance.parse(text).replace(anchor=True)}
    how["on_step"] = lambda record: states.append(record.trajectory.x)
    same = {"male": TABLE["male"]}
    pair = PIPELINE.counterfactual(IMAGES, TABLE, same, sampling=SAMPLING, **how)
    torch.testing.assert_close(states[-1], IMAGES, atol=1e-9, rtol=0)
    assert torch.equal(pair.images, IMAGES)


def test_weight_one_is_the_plain_model_and_weight_zero_the_null_vector() -> None:
    abduction = PIPELINE.abduct(IMAGES, TABLE, sampling=SAMPLING)
    to = [PIPELINE.act(TABLE, {"male": male}) for male in (0, 1)]
    plain, one, zero, again = (
        PIPELINE.predict(abduction, to[male], Guidance.parse(text)).trajectory.x
        for text, male in (("none", 1), ("cfg:1", 1), ("cfg:0", 1), ("cfg:0", 0))
    )
    assert torch.equal(plain, one)
    assert torch.equal(zero, again)
    assert (zero - plain).abs().mean() > 1e-3


def test_signals_of_trust_see_the_semantics_of_the_images() -> None:
    pair = PIPELINE.counterfactual(IMAGES, TABLE, {"male": 1}, sampling=SAMPLING)
    signals = measure_trust(PIPELINE, IMAGES, pair)
    alone = denoising_loss(DENOISER, pair.images, pair.attributes, batch_size=1)
    together = torch.stack([signals.values[n] for n in signals.values if "loss" in n], dim=1)
    torch.testing.assert_close(together, alone)
    other = tiny_denoiser().double()
    other.encoder.mean[3].bias.data += 1
    moved = denoising_loss(other, pair.images, pair.attributes)
    assert (moved - alone).abs().max() > 1e-4


def test_the_objective_is_the_loss_of_its_denoiser_with_and_without_the_condition() -> None:
    objective = DenoisingObjective(DENOISER, p_null=0.5, kl_weight=0.1)
    batch = Batch(IMAGES, VALUES, VALUES[:, :0])
    t, noise, keep, latent = objective.draw((3, 1, 8, 8), torch.Generator().manual_seed(0))
    draws = t, noise.double(), keep, latent.double()
    other = tiny_denoiser(1).double()
    for each, denoiser in ((objective, DENOISER), (objective.over(other), other)):
        assert each.subject is denoiser
        expected = denoiser.loss(IMAGES, VALUES, Corruption(*draws), kl_weight=0.1)
        assert torch.equal(each(batch, draws), expected)
    variants = objective.variants(draws)
    assert variants.pop("validation_loss") == draws
    assert list(variants) == [*("validation_with_condition", "validation_without_condition")]
    for kept, (*before, forced, after) in zip((True, False), variants.values(), strict=True):
        assert (*before, after) == (*draws[:2], draws[3])
        assert torch.equal(forced, torch.full_like(keep, kept))
