from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fcfg import Binary, Categorical, CausalGraph, StructuralCausalModel
from fcfg.causal import AttributeSpace, Continuous
from fcfg.causal.mechanisms import gumbel_posterior
from refusal import refused

# sex, age -> volume (continuous); age -> finding (binary); age, finding -> hair (categorical)
HAIR, AGE = Categorical("hair", ["dark", "fair", "grey"]), Continuous("age", 20, 80)
VOLUME = Continuous("volume", -10, 10)
SPACE = AttributeSpace([Binary("sex"), Binary("finding"), HAIR, AGE, VOLUME])
CAUSES = {"finding": ["age"], "hair": ["age", "finding"], "volume": ["sex", "age"]}
GRAPH = CausalGraph({"sex": [], "age": []} | CAUSES)
ONE_CAUSE = CausalGraph({"cause": [], "effect": ["cause"]})


def population(n: int, seed: int = 0) -> dict:
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 80, n)
    unit = (age - 50) / 30
    sex = rng.integers(0, 2, n)
    finding = (rng.random(n) < finding_probability(age)).astype(int)
    logits = np.stack([np.zeros(n), 0.5 - unit, 2 * unit + finding], axis=1)
    hair = (logits + rng.gumbel(size=(n, 3))).argmax(axis=1)
    volume = np.clip(1 - 2 * unit + sex + 0.5 * rng.normal(size=n), -10, 10)
    return {"sex": sex, "finding": finding, "hair": hair, "age": age, "volume": volume}


def finding_probability(age: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-2 * (age - 50) / 30))


@pytest.fixture(scope="module")
def fitted() -> StructuralCausalModel:
    scm = StructuralCausalModel(SPACE, GRAPH)
    scm.fit(population(4000), steps=200, batch_size=256)
    return scm


def ask(scm: StructuralCausalModel, table: dict, do: dict, **options: object) -> dict:
    columns = scm.space.parse(table)
    before = {name: column.copy() for name, column in columns.items()}
    result = scm.act(columns, do, scm.abduct(columns, **options))
    for name, column in before.items():
        assert np.array_equal(columns[name], column)  # whatever a function of a question does
    return result


BITS = st.integers(0, 1)
LEGAL = {"sex": BITS, "finding": BITS, "hair": st.integers(0, 2)}
LEGAL |= {"age": st.floats(20, 80), "volume": st.floats(-10, 10)}


@given(st.fixed_dictionaries({}, optional=LEGAL))
def test_what_is_not_affected_comes_back_bit_by_bit(fitted, do: dict[str, float]) -> None:
    factual = SPACE.parse(population(50, seed=1))
    result = ask(fitted, factual, do)
    affected = GRAPH.affected(do)
    assert list(result) == list(factual)
    for name in SPACE.names:
        if name in do:
            assert (result[name] == do[name]).all()
        elif name not in affected:
            assert np.array_equal(result[name], factual[name])
        SPACE[name].parse(result[name])  # legal, of the right kind
        assert result[name].dtype == factual[name].dtype


@pytest.mark.parametrize("targets", [["age"], ["age", "sex"], ["finding"]])
def test_the_factual_value_gives_the_factual_descendants(fitted, targets: list[str]) -> None:
    factual = SPACE.parse(population(500, seed=2))
    result = ask(fitted, factual, {name: factual[name] for name in targets})
    np.testing.assert_allclose(result["volume"], factual["volume"], atol=1e-6)
    for name in ("sex", "finding", "hair"):
        assert np.array_equal(result[name], factual[name])


def test_a_flow_learns_the_counterfactual_of_a_linear_world(fitted) -> None:
    factual = population(500, seed=3)
    older = np.clip(factual["age"] + 15, 20, 80)
    result = ask(fitted, factual, {"age": older, "sex": lambda sex: np.subtract(1, sex, out=sex)})
    truth = factual["volume"] - 2 * (older - factual["age"]) / 30 + 1 - 2 * factual["sex"]
    change = np.abs(truth - factual["volume"]).mean()
    assert np.abs(result["volume"] - truth).mean() < 0.1 * change


def test_monotone_logits_learn_probabilities_and_never_undo_a_finding_by_raising_its_cause(
    fitted,
) -> None:
    for age in np.linspace(25, 75, 6):
        table = population(4000, seed=4) | {"age": np.full(4000, age)}
        # Averaged over abducted noise, interventions have the interventional distribution.
        table["finding"] = (np.random.default_rng(5).random(4000) < finding_probability(age)) * 1
        result = ask(fitted, table, {"age": 60.0})
        assert abs(result["finding"].mean() - finding_probability(np.array(60.0))) < 0.05
    factual = SPACE.parse(population(2000, seed=6))
    result = ask(fitted, factual, {"age": lambda age: np.minimum(age + 20, 80)})
    had = factual["finding"] == 1
    assert (result["finding"][had] == 1).mean() > 0.999  # counterfactual stability


def test_an_abducted_noise_returns_the_class_in_every_draw_and_is_standard_gumbel() -> None:
    generator = torch.Generator().manual_seed(0)
    for logits in ([1.0, -1.0], [0.0, 0.0, 0.0], [40.0, -40.0, 5.0], [-1.2, -0.36]):
        rows = torch.tensor(logits, dtype=torch.float64).repeat(100_000, 1)
        for observed in range(len(logits)):
            k = torch.full((100_000,), observed)
            shape = (100_000, len(logits) + 1)
            uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
            most = 1 - 2**-53  # the largest a generator gives
            uniform[0], uniform[1], uniform[2], uniform[3, 0] = 0, most, most, 0
            noise = gumbel_posterior(rows, k, uniform)
            assert torch.isfinite(noise).all()
            assert ((rows + noise).argmax(dim=1) == observed).all()
    generator = torch.Generator().manual_seed(0)
    logits = torch.tensor([1.0, -1.0, 0.3], dtype=torch.float64).repeat(100_000, 1)
    observed = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
    uniform = torch.rand(100_000, 4, generator=generator, dtype=torch.float64)
    noise = gumbel_posterior(logits, observed, uniform).numpy()
    for level in range(3):
        assert abs(noise[:, level].mean() - np.euler_gamma) < 0.015
        assert abs(noise[:, level].var() - np.pi**2 / 6) < 0.03
        assert stats.kstest(noise[:, level], "gumbel_r").pvalue > 0.01
    assert np.abs(np.corrcoef(noise.T) - np.eye(3)).max() < 0.015


@pytest.mark.promise("An answer depends on the image and the seed alone, not on its neighbours")
def test_a_row_depends_on_its_key_and_the_seed_and_not_on_its_neighbours(fitted) -> None:
    table = SPACE.parse(population(300, seed=7))
    keys = np.arange(300)
    everything = ask(fitted, table, {"age": 75}, seed=3, keys=keys)
    order = np.random.default_rng(0).permutation(300)[:40]
    some = ask(fitted, {n: c[order] for n, c in table.items()}, {"age": 75}, seed=3, keys=order)
    for name in ("finding", "hair"):
        assert np.array_equal(some[name], everything[name][order])
    default = ask(fitted, table, {"age": 75}, seed=3)
    other = ask(fitted, table, {"age": 75}, seed=4)
    assert np.array_equal(default["hair"], everything["hair"])
    assert not np.array_equal(default["hair"], other["hair"])
    same = {name: np.repeat(column[:1], 50) for name, column in table.items()}
    names = [f"{i:06}.png" for i in range(50)]  # keys may be names
    one, turned = (fitted.abduct(same, keys=keys)["hair"] for keys in (names, names[::-1]))
    torch.testing.assert_close(one, turned.flip(0), rtol=1e-14, atol=1e-14)  # last rows may round
    assert len(one.unique()) == 150


def test_fitting_is_reproducible_and_improves_the_likelihood() -> None:
    losses: dict[str, list[float]] = {}

    def record(node: str, step: int, loss: float) -> None:
        losses.setdefault(node, []).append(loss)

    table, state = population(300), torch.random.get_rng_state()
    models = [StructuralCausalModel(SPACE, GRAPH) for _ in range(2)]
    likelihoods = [m.fit(table, steps=30, batch_size=100, on_step=record) for m in models]
    assert likelihoods[0] == likelihoods[1]
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)
    for node, curve in losses.items():
        assert likelihoods[0][node] < curve[0]
    assert list(losses) == ["finding", "hair", "volume"]
    assert torch.equal(torch.random.get_rng_state(), state)  # of the process
    assert StructuralCausalModel(SPACE, GRAPH).fit(table, steps=30, seed=1) != likelihoods[0]


def test_small_batches_see_every_row_and_values_end_in_their_range(fitted) -> None:
    """In the end each of two rows that say the opposite is known almost for sure."""
    space = AttributeSpace([Binary("cause"), Binary("effect")])
    scm = StructuralCausalModel(space, ONE_CAUSE)
    table = {"cause": [0, 1], "effect": [1, 0]}
    assert scm.fit(table, steps=100, batch_size=1)["effect"] < 0.1
    table = {"sex": [0], "finding": [0], "hair": [0], "age": [80.0], "volume": [9.9]}
    noise = fitted.abduct(table)
    for shift, bound in ((100, 10), (-200, -10)):
        noise["volume"] += shift
        assert fitted.act(table, {"age": 20.0}, noise)["volume"] == bound


def test_the_noises_of_two_nodes_are_independent() -> None:
    """Were they drawn from one stream, common noise would pose as a cause."""
    space = AttributeSpace([Binary("cause"), Binary("one"), Binary("other")])
    graph = CausalGraph({"cause": [], "one": ["cause"], "other": ["cause"]})
    scm = StructuralCausalModel(space, graph)
    rng = np.random.default_rng(0)
    table = {name: rng.integers(0, 2, 4000) for name in space.names}
    scm.fit(table, steps=5)
    noise = scm.abduct(table)
    rank = np.corrcoef(noise["one"].numpy().T, noise["other"].numpy().T)[:2, 2:]
    assert np.abs(rank).max() < 0.05


def test_the_reported_likelihood_is_that_of_the_values_in_their_own_unit() -> None:
    """For Gaussian values the best there is, is known."""
    space = AttributeSpace([Binary("cause"), Continuous("effect", -1000, 1000)])
    scm = StructuralCausalModel(space, ONE_CAUSE)
    rng = np.random.default_rng(0)
    cause, spread = rng.integers(0, 2, 3000), 40.0
    effect = 100 * cause + spread * rng.normal(size=3000)
    found = scm.fit({"cause": cause, "effect": effect}, steps=150, batch_size=256)
    best = 0.5 * np.log(2 * np.pi * np.e * spread**2)
    assert abs(found["effect"] - best) < 0.06


def test_an_interrupted_fit_is_no_fit() -> None:
    """Nor is that of another graph; a child that is set needs none."""
    scm, table = StructuralCausalModel(SPACE, GRAPH), SPACE.parse(population(50))

    def interrupt(node: str, step: int, loss: float) -> None:
        if node == "hair":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scm.fit(table, steps=3, on_step=interrupt)
    assert set(scm.fitted_parents) == {"finding"}
    refused("mechanism of 'hair'", "got none", "fit").by(scm.abduct, table, ["hair"])
    assert (scm.act(table, {"volume": 3.0}, scm.abduct(table, nodes=[]))["volume"] == 3).all()
    scm.fit(table, steps=2)
    noise = scm.abduct(table)
    scm.graph = CausalGraph(GRAPH.parents | {"volume": ("age",)})
    with refused("mechanism of 'volume'", "['age']", "fitted on ['sex', 'age']"):
        scm.act(table, {"age": 30}, noise)


def test_illegal_input_is_refused(fitted) -> None:
    few, scm = population(5), StructuralCausalModel(SPACE, GRAPH)
    targets = {"age": (81, float("nan"), [30, 40]), "hair": ("blond",), "sex": (lambda x: x + 1,)}
    for name, values in targets.items():
        for value in values:
            refused(f"intervention on '{name}'").by(ask, fitted, few, {name: value})
    for keys in ([1, 2], "abcde", [0.1] * 5, [None] * 5, [True] * 5):
        refused("keys").by(fitted.abduct, few, keys=keys)
    for seed in (None, 1.5, "a"):
        refused("seed").by(fitted.abduct, few, seed=seed)
    for do in (["age"], {"hat": 1}):
        refused("intervention").by(fitted.act, few, do, {})
    for option, value in {"steps": 0, "batch_size": 0, "learning_rate": 1e6}.items():
        refused("fit").by(scm.fit, few, **{option: value})
    refused("causal graph").by(StructuralCausalModel, SPACE, CausalGraph({"sex": []}))
    refused("attributes").by(fitted.abduct, few, nodes=["hat"])
    refused("noise").by(fitted.act, few, {"age": 30}, {})
    refused("attribute 'finding'").by(scm.fit, few | {"finding": [1] * 5})
