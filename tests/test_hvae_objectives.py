"""Training a hierarchical VAE: its free energy, then its counterfactuals under a constraint."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional

from fcfg import AttributeJudge, Judge, JudgeConfig
from fcfg.rivals.hvae import HVAE, HVAEConfig, transfer_residual
from fcfg.rivals.hvae_objectives import (
    ConstrainedHVAE,
    CounterfactualObjective,
    FreeEnergyObjective,
    TrainingInterventions,
)
from fcfg.training.feed import Batch
from fcfg.training.objectives import AbstractObjective, Draws
from tiny import randomised
from tiny_rivals import SICK, pictures, sick_scm, sick_table

SHAPE = (1, 4, 4)
CODERS = {"encoder": "4b1d4,1b1", "decoder": "1b1,4b1"}
CONFIG = HVAEConfig(size=4, channels=1, parents=2, **CODERS, widths=(16, 16), latent=4)


def network(**changes: object) -> HVAE:
    torch.manual_seed(0)
    return HVAE(HVAEConfig(**{**CONFIG.model_dump(), **changes}))


def draws_of(objective: AbstractObjective, count: int, seed: int = 2) -> Draws:
    return objective.draw((count, *SHAPE), torch.Generator().manual_seed(seed))


def sick_batch(count: int = 6) -> Batch:
    values = torch.from_numpy(SICK.encode(sick_table(count))).float()
    return Batch(pictures(count, *SHAPE[:2]), values, torch.zeros(count, 0))


def sick_objective(*, soft: bool) -> CounterfactualObjective:
    subject = ConstrainedHVAE(network(parents=5), 4.0, damping=10.0)
    torch.manual_seed(1)
    factors = {"tone": (0.0, 1.0)}  # drawn images have some, and counterfactuals have none
    network_of_judge = randomised(Judge(JudgeConfig(channels=1, outputs=6, width=4)), 0.2)
    judge = AttributeJudge(network_of_judge, SICK, factors)
    interventions = TrainingInterventions(sick_scm(), sick_table(300))
    return CounterfactualObjective(subject, judge, interventions, beta=2.0, soft=soft)


def test_the_loss_of_the_free_energy_is_a_mean_with_hidden_attributes_in_training() -> None:
    objective = FreeEnergyObjective(network(parents=5), beta=3.0)
    batch, draws = sick_batch(), draws_of(FreeEnergyObjective(network(), beta=3.0), 6)
    nll, kl = objective.subject.free_energy(batch.images, batch.values, draws)
    assert torch.allclose(objective(batch, draws), (nll + 3 * kl).mean())
    assert torch.equal(objective.over(objective.subject)(batch, draws), objective(batch, draws))
    assert objective.variants(draws) == {"validation_loss": draws}
    assert objective.advice({"validation_loss": 1.0}) is None
    objective = FreeEnergyObjective(network(dropped=(0, 1)), beta=1.0)
    paths = {int(draws_of(objective, 4, seed)[-1].unique().item()) for seed in range(20)}
    assert paths == {0, 1, 2}
    draws = draws_of(objective, 4)
    assert objective.variants(draws)["validation_loss"] == draws[:-1]


def test_the_loss_of_a_batch_is_the_mean_of_its_parts() -> None:
    tuning = sick_objective(soft=True)
    tuning.subject.damping = 0.0  # which is not linear in the energy
    for objective in (FreeEnergyObjective(network(parents=5, dropped=(0,)), beta=1.0), tuning):
        batch, draws = sick_batch(), draws_of(objective, 6)
        assert {len(drawn) for drawn in draws} == {6}
        parts = [
            objective(part, tuple(drawn[rows] for drawn in draws))
            for part, rows in zip(batch.split(3), (slice(0, 3), slice(3, 6)), strict=True)
        ]
        assert torch.allclose(objective(batch, draws), sum(parts) / 2, rtol=1e-5)


@pytest.mark.parametrize("energy", [3.5, 4.0, 4.6])
def test_the_gradients_of_the_constraint_are_those_of_the_damped_lagrangian(energy) -> None:
    subject = ConstrainedHVAE(network(), 4.0, damping=10.0)
    subject.multiplier.data.fill_(0.3)
    value = torch.tensor(energy, requires_grad=True)
    subject.penalty(value).backward()
    assert np.isclose(value.grad.item(), 0.3 + 10 * (energy - 4), atol=1e-5)
    assert np.isclose(subject.multiplier.grad.item(), energy - 4, atol=1e-5)


def test_the_multiplier_ascends_while_the_constraint_is_broken_and_is_never_negative() -> None:
    subject = ConstrainedHVAE(network(), 4.0)
    optimiser = torch.optim.AdamW([subject.multiplier], lr=0.1, maximize=True, weight_decay=0)
    for energy, expected in ((5.0, 0.1), (5.0, 0.2), *[(1.0, None)] * 6):
        optimiser.zero_grad()
        subject.penalty(torch.tensor(energy)).backward()
        optimiser.step()
        subject.clamp()
        value = subject.multiplier.item()
        assert value >= 0
        assert expected is None or np.isclose(value, expected, atol=1e-4)
    assert value == 0


def test_a_target_takes_values_of_other_images_and_only_its_descendants_follow() -> None:
    scm, factual, train = sick_scm(), sick_table(6), sick_table(300)
    interventions = TrainingInterventions(scm, train)
    rows, keys = torch.tensor([7, 0, 299, 7, 11, 5]), torch.arange(6)
    encoded = torch.from_numpy(SICK.encode(factual)).float()
    for target in SICK.names:
        after = interventions.counterfactual(encoded, target, rows, keys)
        found = SICK.decode(after.numpy())
        assert np.allclose(found[target], train[target][rows.numpy()], rtol=1e-5)
        for name in set(SICK.names) - scm.graph.affected([target]):
            assert np.allclose(found[name], factual[name], rtol=1e-5)
    after = interventions.counterfactual(encoded, "age", rows, keys)
    noise = scm.abduct(factual, ["sick"], keys=range(6))
    expected = scm.act(factual, {"age": train["age"][rows.numpy()]}, noise)
    assert np.array_equal(SICK.decode(after.numpy())["sick"], expected["sick"])


def test_a_batch_has_one_attribute_and_soft_targets_where_it_has_no_effect() -> None:
    interventions = TrainingInterventions(sick_scm(), sick_table(300))
    soft = {name: interventions.softened(name).tolist() for name in SICK.names}
    site = [False, True, True, True, False]
    # A descendant is not soft, and neither is a number.
    assert soft == {"sick": site, "site": [True, False, False, False, False], "age": site}
    objective = sick_objective(soft=False)
    seen = [draws_of(objective, 5, seed)[0] for seed in range(20)]
    assert all(len(attribute.unique()) == 1 for attribute in seen)
    assert {int(attribute[0]) for attribute in seen} == {0, 1, 2}
    _, rows, keys, *noise = draws_of(objective, 200)
    assert 250 < int(rows.max()) < 300
    assert int(rows.min()) >= 0
    assert len(keys.unique()) == 200
    assert [tuple(n.shape) for n in noise] == objective.subject.network.noise_shapes(200)


@pytest.mark.parametrize("target", range(3))
@pytest.mark.parametrize("soft", [False, True])
def test_the_loss_is_the_judges_on_counterfactuals_and_the_constraint(soft, target: int) -> None:
    objective = sick_objective(soft=soft)
    subject, judge, batch = objective.subject, objective.judge, sick_batch()
    subject.multiplier.data.fill_(0.7)
    _, rows, keys, *noise = draws_of(objective, 6)
    loss = objective(batch, (torch.full((6,), target), rows, keys, *noise))
    # The same by hand.
    interventions = TrainingInterventions(sick_scm(), sick_table(300))
    name = SICK.names[target]
    wanted = interventions.counterfactual(batch.values, name, rows, keys)
    inference = subject.network.infer(batch.images, batch.values, noise)
    pixels = subject.network.decode(inference.latents, wanted)
    answer = transfer_residual(batch.images, inference.pixels, pixels).clamp(-1, 1)
    judge.eval()
    logits, factual = judge(answer), judge(batch.images)
    sick, site, age = wanted[:, :1], wanted[:, 1:4], wanted[:, 4:]
    if soft and name == "site":
        sick = factual[:, :1].sigmoid()
    if soft and name != "site":
        site = factual[:, 1:4].softmax(dim=1)
    auxiliary = (
        functional.binary_cross_entropy(logits[:, :1].sigmoid(), sick)
        - (site * logits[:, 1:4].log_softmax(dim=1)).sum(dim=1).mean()
        + (logits[:, 4:5] - age).square().mean()
    )
    nll, kl = subject.network.free_energy(batch.images, batch.values, noise)
    slack = 4.0 - (nll + 2 * kl).mean()
    assert torch.allclose(loss, auxiliary - (0.7 - 10 * slack) * slack, rtol=1e-5)


def test_judge_and_causal_model_are_frozen_and_the_network_is_trained_throughout() -> None:
    objective = sick_objective(soft=True).train()
    judge = copy.deepcopy(objective.judge.state_dict())
    trained = {id(parameter) for parameter in objective.subject.parameters()}
    objective(sick_batch(), draws_of(objective, 6)).backward()
    for parameter in objective.parameters():
        assert (parameter.grad is not None) == (id(parameter) in trained)
    # Running means of normalisation would follow, were the judge in training mode.
    assert all(torch.equal(objective.judge.state_dict()[name], judge[name]) for name in judge)
    kept = " ".join(objective.subject.state_dict())
    assert "judge" not in kept
    assert "mechanism" not in kept


def test_another_subject_has_the_same_objective() -> None:
    objective = sick_objective(soft=True)
    batch, draws = sick_batch(), draws_of(objective, 6)
    other = objective.over(copy.deepcopy(objective.subject))
    objective.fuse(cuda_graphs=False)
    assert other.subject is not objective.subject
    assert torch.equal(other(batch, draws), objective(batch, draws))
    variants = objective.variants(draws)
    assert variants["validation_loss"] == draws
    energy = objective(batch, variants["validation_free_energy"])
    network = objective.subject.network
    nll, kl = network.free_energy(batch.images, batch.values, draws[3:])
    assert torch.allclose(energy, (nll + 2.0 * kl).mean())
    objective.subject.bound.fill_(1.0)
    assert objective.advice({"validation_free_energy": 1.04}) is None
    assert "far above" in (objective.advice({"validation_free_energy": 1.06}) or "")
