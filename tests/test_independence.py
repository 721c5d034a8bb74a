"""CoInD's term: groups of attributes should add up; see also test_diagnosis.py for the gap."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import fcfg
import worlds
from fcfg import AttributeSpace, Binary, CounterfactualPipeline, Denoiser, NoiseSchedule
from fcfg.diagnosis import diagnose
from fcfg.diffusion.denoiser import Corruption
from fcfg.support.config_files import validate
from fcfg.training import TrainingConfig, train
from fcfg.training.feed import Batch
from fcfg.training.objectives import DenoisingObjective
from fcfg.training.preflight import describe
from place import DEVICE
from refusal import refused
from runs import log_of, tiny
from worlds import SHAPE, AdditiveNetwork, mixture_faces, pipeline_of, readable_embedder

WEIGHT = 0.7


def drawn(
    pipeline: CounterfactualPipeline, count: int = 200
) -> tuple[Tensor, Tensor, Corruption, Tensor]:
    """Images, values and draws of a world."""
    images, table = mixture_faces(pipeline, count)
    values = torch.from_numpy(pipeline.space.encode(pipeline.space.parse(table)))
    generator = torch.Generator(DEVICE).manual_seed(0)
    corruption = pipeline.denoiser.draw((count, *SHAPE), generator)
    groups = pipeline.denoiser.draw_groups(count, generator)
    return images.to(DEVICE), values.to(DEVICE), corruption, groups


def batch_of(count: int = 8) -> Batch:
    images = torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(1)).clamp(-1, 1)
    values = torch.arange(count)[:, None].bitwise_and(torch.tensor([1, 2, 4])).bool().float()
    return Batch(images, values, torch.zeros(count, 0))


def objective_of(independence: float) -> DenoisingObjective:
    torch.manual_seed(0)
    denoiser = tiny().model.build(tiny().inputs)
    for parameter in denoiser.network.parameters():  # a new network ignores its condition
        parameter.data += 0.05 * torch.randn(parameter.shape)
    return DenoisingObjective(denoiser, p_null=0.5, p_group=0.0, independence=independence)


def test_attributes_that_are_independent_given_the_image_do_not_interact() -> None:
    pipeline = worlds.independent_pipeline()
    term = pipeline.denoiser.interaction(*drawn(pipeline))
    assert 0 <= term < 1e-24
    additive = pipeline_of(AdditiveNetwork(torch.eye(16).view(16, *SHAPE)[:3]), NoiseSchedule(), 3)
    assert additive.denoiser.interaction(*drawn(pipeline)) < 1e-24


def exact_noise(
    network: worlds.MixtureNetwork, x_t: Tensor, t: Tensor, stated: dict[int, float]
) -> Tensor:
    """The noise of one image, from a sum over the values of its attributes that fit."""
    signal_t, noise_t = network.schedule.signal(t), network.schedule.noise(t)
    variance = signal_t**2 * network.spread**2 + noise_t**2
    total, mass = torch.zeros(SHAPE, dtype=torch.float64), 0.0
    for values, mean, prior in zip(network.values, network.means, network.prior, strict=True):
        if all(values[k] == value for k, value in stated.items()):
            off = x_t - signal_t * mean
            weight = prior * torch.exp(-off.square().sum() / (2 * variance))
            total, mass = total + weight * noise_t * off / variance, mass + weight
    return total / mass


def test_where_attributes_interact_the_term_is_that_of_noises_one_by_one() -> None:
    pipeline = worlds.mixture_pipeline()
    network, given = pipeline.denoiser.network, drawn(pipeline, 12)
    images, values, corruption, groups = given
    columns = (images, values, corruption.t, corruption.noise, groups)
    squares = []
    for image, row, t, noise, (a, b) in zip(*(c.cpu() for c in columns), strict=True):
        x_t = network.schedule.signal(t) * image + network.schedule.noise(t) * noise
        joint, first, second, null = (
            exact_noise(network, x_t, t, {k: row[k].item() for k in range(3) if keep[k]})
            for keep in (a | b, a, b, a & b)
        )
        squares.append((joint - null - (first - null) - (second - null)).square().mean())
    term = pipeline.denoiser.interaction(*given)
    assert term > 1e-4
    torch.testing.assert_close(term.cpu(), torch.stack(squares).mean(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_groups_are_disjoint_not_empty_and_of_every_kind(count: int) -> None:
    space = AttributeSpace([Binary(f"a{i}") for i in range(count)])
    denoiser = Denoiser(nn.Identity(), readable_embedder(space), NoiseSchedule(), channels=1)
    groups = denoiser.draw_groups(5_000, torch.Generator().manual_seed(0))
    a, b = groups.unbind(dim=1)
    assert not (a & b).any()
    assert a.any(dim=1).all()
    assert b.any(dim=1).all()
    kinds = 3**count - 2 * 2**count + 1  # neither of two groups is empty
    assert len(groups.flatten(1).unique(dim=0)) == kinds
    shares = groups.float().mean(dim=0)  # no attribute and no group is preferred
    assert (shares - shares.mean()).abs().max() < 0.03


@pytest.mark.parametrize("kind", ["noise", "image", "velocity"])
def test_the_term_has_the_units_of_the_loss(kind: str) -> None:
    """It is the variance that interactions add to the outputs, whatever these are."""

    class Product(nn.Module):
        def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
            visible = c.unflatten(1, (3, -1))[..., 0]
            product = sum(visible[:, i] * visible[:, j] for i, j in combinations(range(3), 2))
            return x + 0.5 * product[:, None, None, None]

    embedder = readable_embedder(worlds.binary_space())
    denoiser = Denoiser(Product(), embedder, NoiseSchedule(), channels=1, parameterisation=kind)
    corruption = denoiser.draw((4, *SHAPE), torch.Generator().manual_seed(0))
    groups = torch.tensor([[1, 0, 0], [0, 1, 0]], dtype=torch.bool).expand(4, 2, 3)
    images = torch.zeros(4, *SHAPE, dtype=torch.float64)
    term = denoiser.interaction(images, torch.ones(4, 3, dtype=torch.float64), corruption, groups)
    assert float(term) == pytest.approx(0.25)


def test_weight_zero_is_the_loss_without_the_term_and_asks_for_nothing_more() -> None:
    batch, objective, shape = batch_of(), objective_of(0.0), (8, 3, 8, 8)
    generator = torch.Generator().manual_seed(3)
    draws = objective.draw(shape, generator)
    plain = objective.subject.draw(shape, torch.Generator().manual_seed(3))
    assert len(draws) == 3
    assert torch.equal(draws[2], plain.keep)
    other = torch.Generator().manual_seed(3)
    with_term = objective_of(WEIGHT).draw(shape, other)
    assert all(map(torch.equal, draws, with_term[:3]))  # all other draws are as they are
    assert torch.equal(generator.get_state(), other.get_state())  # and so are later ones
    reference = objective.subject.loss(batch.images, batch.values, plain)
    rows: list[int] = []
    objective.subject.network.register_forward_hook(lambda m, x, y: rows.append(len(y)))
    assert torch.equal(objective(batch, draws), reference)
    assert rows == [8]
    after = torch.Generator().manual_seed(3)
    objective.subject.draw(shape, after)
    assert torch.equal(generator.get_state(), after.get_state())


def test_the_loss_is_the_sum_of_both_terms_and_every_term_has_a_gradient() -> None:
    batch, objective = batch_of(), objective_of(WEIGHT)
    denoiser = objective.subject
    draws = objective.draw((8, 3, 8, 8), torch.Generator().manual_seed(3))
    corruption = Corruption(*draws[:3])
    parts = (
        denoiser.loss(batch.images, batch.values, corruption),
        denoiser.interaction(batch.images, batch.values, corruption, draws[3]),
    )
    assert torch.equal(objective(batch, draws), parts[0] + WEIGHT * parts[1])
    variants = objective.variants(draws)
    assert variants["validation_loss"] == draws
    assert torch.equal(objective(batch, variants["validation_without_independence"]), parts[0])
    assert torch.equal(objective.over(denoiser)(batch, draws), objective(batch, draws))
    outputs: list[Tensor] = []
    denoiser.network.register_forward_hook(lambda m, x, y: outputs.append(y))
    term = denoiser.interaction(batch.images, batch.values, corruption, draws[3])
    (gradient,) = torch.autograd.grad(term, outputs)
    joint, first, second, null = gradient.chunk(4)
    assert joint.abs().max() > 0
    for part, sign in ((first, -1), (second, -1), (null, 1)):
        assert torch.equal(part, sign * joint)


def test_a_run_with_the_term_differs_and_logs_both_losses(finished: Path, tmp_path: Path) -> None:
    out = train(tiny(model={"independence": WEIGHT}), tmp_path / "run", "diffusion")
    plain, other = (fcfg.load(run).denoiser.state_dict() for run in (finished, out))
    assert not all(torch.equal(other[key], plain[key]) for key in plain)
    entries = [e for e in log_of(out) if "validation_without_independence" in e]
    assert [e["step"] for e in entries] == [6, 12]
    assert all(e["validation_loss"] >= e["validation_without_independence"] for e in entries)
    refused(str(out), "model.independence: 0.7", "model.independence: 0.0").by(train, tiny(), out)


@pytest.mark.parametrize(
    ("settings", "seen"),
    [({}, None), ({"p_group": 0.0}, False), ({"p_group": 0.0, "independence": 1.0}, True)],
)
def test_a_diagnosis_knows_that_the_term_shows_parts(settings: dict, seen: bool | None) -> None:
    pipeline = worlds.independent_pipeline()
    pipeline.provenance["training"] = {"model": settings}
    found = diagnose(pipeline, *mixture_faces(pipeline, 4), noised=1, times=2)
    assert found.trained_on_parts is seen


def test_illegal_weights_are_refused_and_legal_ones_count_four_more_rows() -> None:
    for wrong, told in ((-0.1, "greater than or equal to 0"), (float("nan"), "finite")):
        with refused("configuration, model, 'independence'", told):
            tiny(model={"independence": wrong})
    values = tiny(model={"independence": 1}).model_dump()
    values |= {"attributes": {"smiling": {"kind": "binary"}}, "graph": {"smiling": []}}
    with refused("configuration", "model.independence must be 0 for a single attribute"):
        validate(TrainingConfig, values, "configuration")
    plain, more = (describe(tiny(model={"independence": w})) for w in (0, 1))
    assert 4.5 < more.flops / plain.flops <= 5
    assert 4.5 < more.activation_bytes / plain.activation_bytes <= 5
