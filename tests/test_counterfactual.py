"""The pipeline as a whole, on worlds whose answers are known."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import reference
import worlds
from evaluations import counted_rows
from fcfg import AttributeEmbedder, Continuous, CounterfactualPipeline, StructuralCausalModel
from fcfg.causal import AttributeSpace, Binary, CausalGraph, Partition
from fcfg.diffusion import Denoiser, NoiseSchedule
from fcfg.guidance import APG, Guidance, GuidedPredictor
from fcfg.sampling import StepRecord, steps_along
from place import DEVICE, anywhere
from refusal import refused
from tiny import small_unet
from worlds import SHAPE, AdditiveNetwork, binary_space, mixture_faces, mixture_pipeline, roots

pytestmark = anywhere

SETTINGS = [Guidance.none(), *worlds.RULES]


ask = partial(worlds.ask, sampling="ddim uniform 20")


@pytest.fixture(scope="module")
def tiny() -> CounterfactualPipeline:
    """A real network of a few thousand weights, in float32."""
    torch.manual_seed(0)
    space = binary_space()
    network, embedder = small_unet(dropout=0.3), AttributeEmbedder(space, width=8)
    denoiser = Denoiser(network, embedder, NoiseSchedule(), channels=3, stride=2)
    return CounterfactualPipeline(denoiser, StructuralCausalModel(space, roots(space))).to(DEVICE)


def tiny_faces(n: int) -> tuple[Tensor, dict]:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(n, 3, 8, 8, generator=generator) * 2 - 1
    return images, {
        name: torch.randint(2, (n,), generator=generator) for name in binary_space().names
    }


@pytest.mark.parametrize("kind", ["linear", "cosine"])
@pytest.mark.parametrize(("grid", "last"), [("uniform 50", 50), ("uniform:0.8 16", 40)])
@pytest.mark.parametrize("guidance", SETTINGS, ids=repr)
def test_every_rule_agrees_with_the_straight_line_reference(guidance, grid, last, kind) -> None:
    """Float64, on unit steps (50 of T = 50) and longer ones that end early, to 1e-10."""
    rule = guidance.name.removeprefix("f")
    if rule == "cfg++":
        guidance = guidance.replace(raw=True)  # λ as the algorithm is printed
    pipeline = mixture_pipeline(steps=50, kind=kind)
    faces, pair = ask(
        pipeline,
        sampling=f"ddim {grid}",
        guidance=guidance.replace(raw=True) if rule in ("cfg++", "apg") else guidance,
    )
    denoiser = pipeline.denoiser
    alpha = {"linear": reference.linear_alpha, "cosine": reference.cosine_alpha}[kind](50)
    width = denoiser.embedder.width

    def eps(x: np.ndarray, t: int, c: np.ndarray) -> np.ndarray:
        times = torch.full((len(x),), t, device=DEVICE)
        noisy, condition = (torch.from_numpy(array).to(DEVICE) for array in (x, c))
        return denoiser.network(noisy, times, condition).cpu().numpy()

    factual = denoiser.condition(pair.abduction.attributes).cpu().numpy()
    wanted = denoiser.condition(pair.attributes).cpu().numpy()
    times = list(pair.abduction.times)
    assert times[-1] == last
    u = reference.abduct(eps, faces.numpy(), factual, alpha, times)
    np.testing.assert_allclose(pair.abduction.trajectory.x.numpy(), u, atol=1e-10)

    groups = [[0], [1, 2]] if guidance.factored else [[0, 1, 2]]
    masked = reference.masked_condition(wanted, groups, width)
    weights = [weight for _, weight in guidance.weights]
    down = times[::-1]
    expected = {
        "none": lambda: reference.predict_fcfg(eps, u, [wanted], [1.0], alpha, down),
        "cfg": lambda: reference.predict_fcfg(eps, u, masked, weights, alpha, down),
        "cfg++": lambda: reference.predict_fcfg(eps, u, masked, weights, alpha, down, plus=True),
        "apg": lambda: reference.predict_fapg(eps, u, masked, weights, alpha, down),
    }[rule]()
    np.testing.assert_allclose(pair.trajectory.x.numpy(), expected, rtol=1e-10, atol=1e-10)


def additive(steps: int = 1000) -> CounterfactualPipeline:
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(3, *SHAPE, generator=generator, dtype=torch.float64)
    return worlds.pipeline_of(AdditiveNetwork(directions), NoiseSchedule(steps=steps), 3)


def test_equal_weights_are_cfg_in_an_additive_model_alone_and_zeros_forget(pipeline) -> None:
    faces, attributes = mixture_faces(mixture_pipeline(), 4)
    by_name = Guidance.fcfg(smiling=2.5, male=2.5, young=2.5)
    for model, equal in ((additive(), True), (pipeline, False)):
        one, other = (
            model.counterfactual(faces, attributes, {"smiling": "flip"}, guidance=g, sampling=20)
            for g in (Guidance.cfg(2.5), by_name)
        )
        assert torch.allclose(one.trajectory.x, other.trajectory.x, atol=1e-10) == equal
    for guidance in (Guidance.cfg(0.0), Guidance.fcfgpp(affected=0.0, invariant=0.0)):
        _, pair = ask(pipeline, guidance=guidance)
        others = pipeline.act(pair.abduction.attributes, {"smiling": 1, "male": 0, "young": 1})
        again = pipeline.predict(pair.abduction, others, guidance)
        assert torch.equal(pair.trajectory.x, again.trajectory.x)


def test_factored_guidance_moves_the_invariant_attributes_less_than_cfg() -> None:
    """The paper's claim, where its assumption holds and the exact classifier is known."""
    pipeline = worlds.independent_pipeline()
    faces, attributes = mixture_faces(pipeline, 200)
    network = pipeline.denoiser.network
    assert isinstance(network, worlds.MixtureNetwork)

    def confidence(images: Tensor, table: dict, name: str) -> float:
        """Mean probability of the attribute's value given the image, by Bayes."""
        distance = (images.cpu()[:, None] - network.means[None]).square().sum(dim=(2, 3, 4))
        posterior = (network.prior.log() - distance / (2 * network.spread**2)).softmax(dim=1)
        column = network.values[:, binary_space().names.index(name)]
        matches = column[None] == torch.from_numpy(table[name])[:, None]
        return (posterior * matches).sum(dim=1).mean().item()

    abduction = pipeline.abduct(faces, attributes, sampling="ddim uniform 50")
    action = pipeline.act(attributes, {"smiling": "flip"})
    pairs = {
        repr(g): pipeline.predict(abduction, action, g)
        for g in (Guidance.none(), Guidance.cfg(3.0), Guidance.fcfg(affected=3.0, invariant=1.2))
    }

    def shift(key: str) -> dict[str, float]:
        there, here = pairs[key].trajectory.x, pairs["none"].trajectory.x
        table = pairs[key].attributes
        return {n: confidence(there, table, n) - confidence(here, table, n) for n in attributes}

    cfg, fcfg = shift("cfg:3.0"), shift("fcfg:affected=3.0,invariant=1.2")
    assert fcfg["smiling"] > 0.5 * cfg["smiling"] > 0
    for name in ("male", "young"):
        assert cfg[name] > 0.02
        assert fcfg[name] < cfg[name] / 3


def test_only_what_has_an_effect_is_evaluated(pipeline) -> None:
    faces, attributes = mixture_faces(pipeline, 3)
    two = "fcfg:affected=3,invariant="
    costs = {"none": 1, "cfg:2": 2, "cfg:0": 1, f"{two}1.2": 3, f"{two}1.2 of all": 2}
    ones = "fcfg:smiling=3,male=1,young="
    costs |= {f"{two}0": 2, f"{ones}1": 4, f"{ones}0": 3}
    for text, rows in costs.items():
        guidance, _, targets = text.partition(" of ")
        do = dict.fromkeys(binary_space().names if targets else ["smiling"], 1)
        how = {"guidance": Guidance.parse(guidance), "sampling": "ddim uniform 10"}
        with counted_rows(pipeline) as spent:
            pair = pipeline.counterfactual(faces, attributes, do, **how)
        assert sum(spent) == 3 * 10 * (1 + rows)
        assert len(spent) == 20  # one call a step, whatever the number of groups
        assert pair.evaluations == 10 * (1 + rows)


def test_momentum_waits_while_a_step_is_not_guided(pipeline) -> None:
    denoiser = pipeline.denoiser
    _, attributes = mixture_faces(pipeline, 2)
    keep = torch.tensor([[True, False, False]], device=denoiser.device)
    predictor = GuidedPredictor(denoiser, denoiser.condition(attributes), keep, APG())
    x = torch.randn(2, *SHAPE, dtype=torch.float64).to(denoiser.device)
    how = {"weights": torch.ones(2, 1), "device": denoiser.device, "dtype": torch.float64}
    on, off = steps_along(denoiser.schedule, (900, 800, 700), guided=[True, False], **how)
    _, state = predictor.predict(x, on, predictor.init(x))
    assert state[0].abs().sum() > 0
    _, after = predictor.predict(x, off, state)
    assert torch.equal(after[0], state[0])


@pytest.mark.parametrize("guidance", SETTINGS, ids=repr)
def test_a_batch_is_as_many_batches_of_one(pipeline, guidance) -> None:
    faces, whole = ask(pipeline, n=5, guidance=guidance)
    for batch_size in (3, 7):
        _, parts = ask(pipeline, n=5, guidance=guidance, batch_size=batch_size)
        assert torch.allclose(parts.trajectory.x, whole.trajectory.x, atol=1e-10)
    table = whole.abduction.attributes
    for row in range(5):
        own = {name: column[row : row + 1] for name, column in table.items()}
        how = {"guidance": guidance, "sampling": "ddim uniform 20"}
        alone = pipeline.counterfactual(faces[row : row + 1], own, {"smiling": "flip"}, **how)
        assert torch.allclose(alone.trajectory.x[0], whole.trajectory.x[row], atol=1e-10)


def test_no_call_has_more_rows_than_the_batch_size_and_steps_say_whose_they_are(pipeline) -> None:
    guidance = Guidance.fcfg(affected=3, invariant=1)
    with counted_rows(pipeline) as seen:
        ask(pipeline, n=10, guidance=guidance, batch_size=7, sampling="ddim uniform 2")
    assert max(seen) == 7  # abduction: one row an image
    assert sorted(set(seen)) == [3, 6, 7]  # prediction: two images of three rows
    seen: list[StepRecord] = []
    how = {"sampling": "ddim uniform 3", "batch_size": 4, "on_step": seen.append}
    ask(pipeline, n=5, guidance=Guidance.cfg(2.0), **how)
    blocks = [(0, 4), (4, 1), (0, 2), (2, 2), (4, 1)]
    assert [(r.first_image, len(r.trajectory.x)) for r in seen[::3]] == blocks
    assert [r.ascending for r in seen] == [True] * 6 + [False] * 9
    assert [round(r.share, 3) for r in seen[:6]] == [0.267, 0.533, 0.8, 0.867, 0.933, 1.0]
    assert seen[-1].share == 1


def test_the_state_stays_float32_under_a_bfloat16_network(tiny) -> None:
    images, attributes = tiny_faces(2)
    how = {"guidance": Guidance.cfg(1.5), "sampling": 5}
    whole = tiny.counterfactual(images, attributes, {"male": "flip"}, **how)
    rough = copy.deepcopy(tiny)
    rough.denoiser.to(torch.bfloat16)
    half = rough.counterfactual(images, attributes, {"male": "flip"}, **how)
    assert half.trajectory.x.dtype == torch.float32
    assert not torch.equal(half.trajectory.x, half.trajectory.x.bfloat16().float())
    assert (half.trajectory.x - whole.trajectory.x).abs().mean() < 0.1


def test_dropout_and_gradients_are_off_during_a_run_and_back_on_after_it(tiny) -> None:
    images, attributes = tiny_faces(2)
    images.requires_grad_()
    tiny.denoiser.train()
    one, other = (
        tiny.counterfactual(images, attributes, {"male": "flip"}, sampling=3) for _ in range(2)
    )
    assert torch.equal(one.images, other.images)
    assert not one.trajectory.x.requires_grad
    assert tiny.denoiser.training
    tiny.denoiser.network.eval()  # a part in another mode than the whole
    tiny.counterfactual(images, attributes, {"male": "flip"}, sampling=1)
    assert tiny.denoiser.training
    assert not tiny.denoiser.network.training
    tiny.denoiser.eval()


def test_networks_move_with_the_pipeline_and_images_alone_are_clamped(pipeline) -> None:
    judge = nn.Linear(1, 1)
    made = mixture_pipeline()
    moved = CounterfactualPipeline(made.denoiser, made.scm, judge=judge, provenance={"seed": 1})
    assert moved.to("meta") is moved
    assert judge.weight.device.type == moved.denoiser.device.type == "meta"
    assert moved.provenance == {"seed": 1}
    _, pair = ask(pipeline, n=20, guidance=Guidance.cfg(8.0))
    assert pair.trajectory.x.abs().max() > 1
    assert pair.images.abs().max() == 1
    assert torch.equal(pair.images, pair.trajectory.x.clamp(-1, 1))


def causal_pipeline() -> CounterfactualPipeline:
    """Age causes a finding; sex stands apart."""
    space = AttributeSpace([Continuous("age", 0, 100), Binary("finding"), Binary("sex")])
    scm = StructuralCausalModel(space, CausalGraph({"age": [], "finding": ["age"], "sex": []}))
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 100, 500)
    finding = (rng.random(500) < 1 / (1 + np.exp(-(age - 50) / 10))).astype(int)
    scm.fit({"age": age, "finding": finding, "sex": rng.integers(0, 2, 500)}, steps=100)
    torch.manual_seed(0)
    network = AdditiveNetwork(torch.randn(3, *SHAPE))
    denoiser = Denoiser(network, AttributeEmbedder(space, width=4), NoiseSchedule(), channels=1)
    return CounterfactualPipeline(denoiser, scm)


def test_an_intervention_on_a_cause_propagates_and_groups_its_effects() -> None:
    pipeline = causal_pipeline()
    images = torch.zeros(40, *SHAPE)
    table = {"age": np.full(40, 20.0), "finding": np.zeros(40, int), "sex": np.arange(40) % 2}
    how = {"guidance": Guidance.fcfg(affected=3.0, invariant=1.2), "sampling": 2}
    pair = pipeline.counterfactual(images, table, {"age": 95}, seed=5, **how)
    assert pair.attributes["finding"].mean() > 0.8
    assert np.array_equal(pair.attributes["sex"], table["sex"])
    assert pair.partition.groups == {"affected": ("age", "finding"), "invariant": ("sex",)}
    assert pair.action.targets == ("age",)
    assert pair.action.seed == 5
    back = pipeline.reverse(pair)
    assert np.array_equal(back.attributes["finding"], table["finding"])
    assert back.partition == pair.partition
    down = pipeline.counterfactual(images, table, {"finding": 1}, **how)
    assert down.partition["affected"] == ("finding",)
    assert np.array_equal(down.attributes["age"], table["age"])


@pytest.mark.promise("An answer depends on the image and the seed alone, not on its neighbours")
def test_an_answer_depends_on_the_image_and_the_seed_alone() -> None:
    """Batch of n = n batches of one, where attributes are drawn, too."""
    pipeline = causal_pipeline()
    images = torch.rand(12, *SHAPE, generator=torch.Generator().manual_seed(0)) * 2 - 1
    table = {"age": np.full(12, 45.0), "finding": np.zeros(12, int), "sex": np.zeros(12, int)}

    def findings(rows: list[int], **options: Any) -> list[int]:
        own = {name: column[rows] for name, column in table.items()}
        pair = pipeline.counterfactual(images[rows], own, {"age": 55}, sampling=1, **options)
        return pair.attributes["finding"].tolist()

    whole = findings(list(range(12)))
    assert 0 < sum(whole) < 12
    assert [findings([row])[0] for row in range(12)] == whole
    assert findings(list(range(12)), seed=1) != whole
    names = [f"{i}.png" for i in range(12)]
    by_name = findings(list(range(12)), keys=names)
    assert by_name != whole
    assert findings([3, 7], keys=[names[3], names[7]]) == [by_name[3], by_name[7]]
    abduction = pipeline.abduct(images, table, sampling=1)
    staged = pipeline.act(table, {"age": 55}, keys=abduction.keys)
    assert staged.attributes["finding"].tolist() == whole


def test_bad_questions_are_refused_before_any_work(tiny) -> None:
    male, both = Partition({"a": ["male"]}), {name: [0, 1] for name in binary_space().names}

    def wrong(subject: str, *fragments: str, images: Any = (2, 3, 8, 8), **change: Any) -> None:
        images = torch.zeros(images) if isinstance(images, tuple) else images
        question = {"images": images, "attributes": both, "do": {"male": 1}} | change
        with counted_rows(tiny) as asked:
            refused(subject, *fragments).by(tiny.counterfactual, **question)
        assert not asked

    wrong("images", "uint8", images=torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
    wrong("images", "(batch, 3, height, width)", images=(2, 1, 8, 8))
    wrong("images", "divisible by 2", images=(2, 3, 9, 8), any_size=True)
    wrong("images", "any_size=True", images=(2, 3, 16, 16))
    wrong("images", "got 8 by 16", images=(2, 3, 8, 16))
    wrong("attributes", "3 values in each column", images=(3, 3, 8, 8))
    wrong("attributes", "no column for 'smiling', 'young'", attributes={"male": [0, 1]})
    wrong("attributes", "a mapping", attributes=None)
    wrong("intervention", "'hat'", do={"hat": 1})
    wrong("intervention on 'male'", "0 or 1", do={"male": 2})
    wrong("do", "a mapping", do=["male"])
    wrong("guidance", "Guidance.parse", guidance=3.0)
    wrong("guidance 'cgf:3'", "did you mean 'cfg'", guidance="cgf:3")
    wrong("guidance", "none for 'invariant'", guidance=Guidance.fcfg(affected=3.0))
    wrong("partition", "a fcfg.Partition", partition={"a": ["male"]})
    wrong("partition", "contrast has no groups", partition=male)
    wrong("partition", "no group for", partition=male, guidance=Guidance.fcfg(a=2.0))
    wrong("sampling", "a SamplingConfig", sampling=5.5)
    wrong("sampling", "did you mean 'paper'?", sampling="papr")
    wrong("grid", "did you mean 'uniform'?", sampling="ddim uniformly 10")
    wrong("steps", "1 to 1000", sampling=0)
    wrong("seed", "an integer", seed=None)
    wrong("keys", "2 integers or strings", keys=["a"])
    wrong("batch_size", "at least 2 network rows", batch_size=1)
    wrong("batch_size", "from 1", batch_size=0, guidance=Guidance.none())
    # All that is wrong is said at once.
    all_wrong = {"images": (2, 3, 16, 16), "attributes": {"nme": [0]}, "do": {"agee": 1}}
    wrong("images", "8 by 8", "got 16 by 16", "'nme'", "'agee'", **all_wrong)


def test_guidance_may_be_a_text(tiny) -> None:
    images, own = torch.zeros(1, 3, 8, 8), {name: [0] for name in binary_space().names}
    one, other = (
        tiny.counterfactual(images, own, {"male": 1}, guidance=guidance, sampling=2)
        for guidance in ("cfg:3", Guidance.cfg(3.0))
    )
    assert torch.equal(one.images, other.images)


def test_another_size_is_answered_for_who_means_it(tiny) -> None:
    images, attributes = torch.zeros(2, 3, 16, 8), {name: [0, 1] for name in binary_space().names}
    pair = tiny.counterfactual(images, attributes, {"male": 1}, sampling=2, any_size=True)
    assert pair.images.shape == images.shape
    assert tiny.reverse(pair).images.shape == images.shape
    kept = tiny.abduct(images, attributes, sampling=2, any_size=True).trajectory.x
    assert kept.shape == images.shape


def test_what_does_not_belong_together_is_refused(tiny) -> None:
    images, attributes = tiny_faces(3)
    pair = tiny.counterfactual(images, attributes, {"male": 1}, sampling=2)
    abduction, action = pair.abduction, pair.action
    fewer = {name: column[:2] for name, column in attributes.items()}
    others = attributes | {"young": 1 - attributes["young"]}
    denoiser, space = tiny.denoiser, AttributeSpace([Binary("male")])
    embedder = AttributeEmbedder(tiny.space, width=8)
    smaller = StructuralCausalModel(space, roots(space))
    changed = type(tiny)(Denoiser(denoiser.network, embedder, denoiser.schedule), tiny.scm)
    changed.to(DEVICE)
    unknown = replace(abduction, model="")  # put together by hand
    assert tiny.predict(unknown, action).images.shape == images.shape
    for subject, fragment, call in (
        ("pipeline, denoiser", "a fcfg.Denoiser", lambda: type(tiny)(tiny.scm, denoiser)),
        ("model, scm", "a fcfg.Struct", lambda: type(tiny)(denoiser, denoiser)),
        ("pipeline", "one attribute space", lambda: type(tiny)(denoiser, smaller)),
        ("abduction", "another model", lambda: changed.predict(abduction, action)),
        ("batch_size", "got int 0", lambda: tiny.abduct(images, attributes, batch_size=0)),
        ("batch_size", "at least 2", lambda: tiny.reverse(pair, batch_size=1)),
        ("action", "got 2", lambda: tiny.predict(abduction, tiny.act(fewer, {"male": 1}))),
        ("action", "same images", lambda: tiny.predict(abduction, tiny.act(others, {"male": 1}))),
        ("action", "result of model.act", lambda: tiny.predict(abduction, {"male": 1})),
        ("abduction", "result of model.abduct", lambda: tiny.predict(images, action)),
        ("pair", "result of model.counterfactual", lambda: tiny.reverse(abduction)),
    ):
        with counted_rows(tiny) as asked, refused(subject, fragment):
            call()
        assert not asked  # before any work was done
