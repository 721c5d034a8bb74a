"""Signals of trust and their thresholds: in worlds whose counterfactuals are known, those that are
doubted are worse."""  # noqa: D205, D209

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fcfg
from fcfg import Action, Counterfactual, CounterfactualPipeline, Guidance, Judge, JudgeConfig
from fcfg.cli import main
from fcfg.datasets import portraits
from fcfg.generation import generate
from fcfg.judge import AttributeJudge, Reading
from fcfg.model.thresholds import LEVELS, Thresholds, signal_ranges
from fcfg.pipeline.plans import PAPER_GUIDANCE
from fcfg.sampling import as_sampling
from fcfg.storage.beside import WORDS, read_words
from fcfg.trust import denoising_loss, measure_trust, not_reached, reasons, trust_thresholds
from fcfg.trust.validation import upper_limit
from refusal import refused
from studios import ask as ask_studio
from studios import client_of, of, studio_of, upload
from tiny import GIVEN, ask, draw, tiny_pipeline
from worlds import MixtureNetwork, mixture_faces, mixture_pipeline

SAMPLING = "dpm-2m karras 8"
GUIDANCE = Guidance.parse("contrast:1;anchor=true")


class ExactJudge(Judge):
    """Reads the exact probability of every attribute of the mixture world."""

    def __init__(self, world: MixtureNetwork) -> None:
        super().__init__(JudgeConfig(channels=1, outputs=world.values.shape[1], width=1))
        self.world, self.head = [world], nn.Identity()  # in a list: no part of the judge

    def features(self, images: Tensor) -> Tensor:
        (world,) = self.world
        distance = (images[:, None].double() - world.means) ** 2 / (2 * world.spread**2)
        log = (world.prior.log() - distance.sum(dim=(2, 3, 4)))[:, :, None]
        is_one = world.values == 1
        one, zero = (log.masked_fill(~side, -torch.inf).logsumexp(1) for side in (is_one, ~is_one))
        return (one - zero).float()


@pytest.fixture(scope="module")
def world() -> CounterfactualPipeline:
    pipeline = mixture_pipeline(spread=0.3)
    pipeline.judge = AttributeJudge(ExactJudge(pipeline.denoiser.network), pipeline.space).eval()
    images, attributes = mixture_faces(pipeline, 400, seed=7)
    pipeline.thresholds = trust_thresholds(
        pipeline, images, attributes, guidance=GUIDANCE, sampling=SAMPLING
    )
    return pipeline


def truth(pipeline: CounterfactualPipeline, images: Tensor, before: Any, after: Any) -> Tensor:
    """The world moves the mean, and keeps what differs from it."""
    network, weights = pipeline.denoiser.network, [4, 2, 1]
    means = [
        network.means[sum(w * torch.as_tensor(t[n]) for w, n in zip(weights, t, strict=True))]
        for t in (before, after)
    ]
    return images + means[1] - means[0]


def doubted(pipeline: CounterfactualPipeline, images: Tensor, pair: Counterfactual) -> list[bool]:
    """Whether there is a reason not to believe each image."""
    sampling = as_sampling(SAMPLING)
    limits = pipeline.thresholds.limits_for(pair.action.targets, pair.guidance, sampling)
    signals = measure_trust(pipeline, images, pair)
    return [bool(reasons(signals.of(i), limits, {}, {})) for i in range(len(images))]


def test_an_anchored_answer_has_the_size_of_its_correction_and_losses_the_time_of_their_level(
    world,
) -> None:
    world, asked = mixture_pipeline(steps=25, kind="cosine"), set[int]()
    network = world.denoiser.network
    network.register_forward_pre_hook(lambda _, inputs: asked.update(inputs[1].tolist()))
    denoising_loss(world.denoiser, *mixture_faces(world, 2))
    assert (min(asked), len(asked)) == (1, 4)
    images, attributes = mixture_faces(world, 5)
    losses = denoising_loss(world.denoiser, images, attributes)
    assert losses.shape == (5, len(LEVELS))
    for size in (1, 2):
        parts = denoising_loss(world.denoiser, images, attributes, batch_size=size)
        torch.testing.assert_close(parts, losses)
    # Within a class, the exact prediction is linear. The noise is the same for all and has both
    # signs, so that losses differ by the distance from the mean, and by nothing else.
    network, schedule = world.denoiser.network, world.denoiser.schedule
    origin = {name: 0 * column for name, column in attributes.items()}
    away = images - network.means[0] - truth(world, 0 * images, origin, attributes)
    distance = away.square().mean(dim=(1, 2, 3))
    times = torch.arange(1, schedule.steps + 1)
    strengths = schedule.noise(times) / schedule.signal(times)
    for level, loss in zip(LEVELS, losses.exp().T, strict=True):
        strength = strengths[(strengths - level).abs().argmin()]
        factor = (strength / (network.spread**2 + strength**2)) ** 2
        torch.testing.assert_close(loss - loss[0], factor * (distance - distance[0]))


def test_an_anchored_answer_has_the_size_of_its_correction(world) -> None:
    images, attributes = mixture_faces(world, 4)
    how = {"guidance": GUIDANCE, "sampling": SAMPLING}
    pair = world.counterfactual(images, attributes, {"male": "flip"}, **how)
    signals = measure_trust(world, images, pair)
    torch.testing.assert_close(signals.values["correction"], pair.correction)
    assert signals.rows == 2 * len(LEVELS)
    names = [f"loss {level}" for level in LEVELS] + ["change", "correction"]
    names += ["given smiling", "moved smiling", "given male", "asked male"]
    assert list(signals.of(0)) == [*names, "given young", "moved young"]


@pytest.mark.parametrize("guidance", [Guidance.none(), PAPER_GUIDANCE], ids=repr)
def test_a_plain_answer_has_the_error_of_asking_for_nothing(world, guidance: Guidance) -> None:
    images, attributes = mixture_faces(world, 4)
    how: dict[str, Any] = {"sampling": "fixed-point:3 uniform 6", "guidance": guidance}
    pair = world.counterfactual(images, attributes, {"male": "flip"}, **how)
    signals = measure_trust(world, images, pair)
    same = world.counterfactual(images, attributes, {"male": attributes["male"]}, **how)
    error = (same.images - images).abs().mean(dim=(1, 2, 3))
    torch.testing.assert_close(signals.values["composition"], error)
    residual = pair.abduction.trajectory.residual
    torch.testing.assert_close(signals.values["residual"], residual, check_dtype=False)
    steps = 6 * (3 if guidance.factored else 1)
    assert signals.rows == 2 * len(LEVELS) + steps


def test_readings_are_log_odds_and_distances() -> None:
    """The judge knows nothing; what it says is held against what was asked."""
    pipeline = tiny_pipeline()
    images = torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1
    given = {"smiling": [0, 1, 1], "age": [20.0, 40.0, 60.0], "hair": ["dark", "grey", "red"]}
    pair = pipeline.counterfactual(images, given, {"age": 90}, sampling=2)
    values = measure_trust(pipeline, images, pair).values
    before, after = (pipeline.judge.read(x).scores for x in (images, pair.images))
    assert values["asked age"].tolist() == pytest.approx(np.abs(after["age"] - 90))
    assert values["given age"].tolist() == pytest.approx(np.abs(before["age"] - given["age"]))
    hair = after["hair"][np.arange(3), pair.attributes["hair"]]
    assert values["asked hair"].tolist() == pytest.approx(np.log((1 - hair) / hair))
    odds = [np.log(scores["smiling"] / (1 - scores["smiling"])) for scores in (before, after)]
    assert values["moved smiling"].tolist() == pytest.approx(np.abs(odds[1] - odds[0]), abs=1e-5)
    pipeline.judge = None
    signals = measure_trust(pipeline, images, pair)
    assert signals.not_reached == []
    assert set(signals.values) == {"change", *(f"loss {level}" for level in LEVELS)}


def test_a_further_value_exceeds_the_limit_with_the_probability_that_is_stated() -> None:
    """All ranks of a further value among the others are equally likely."""
    for n, share in product((2, 50, 99, 100, 257), (0.01, 0.05, 0.5)):
        limit = upper_limit(torch.arange(1.0, n + 1), share)
        exceeding = (n + 1 - limit) / (n + 1)
        assert exceeding <= max(share, 1 / (n + 1)) + 1e-9
        assert exceeding > share - 1 / (n + 1) or n < 1 / share


def test_answers_that_are_doubted_are_worse(world) -> None:
    """Good answers, and some that were made bad: too strong, of noise, of wrong attributes.

    And where nothing is asked, few are doubted.
    """
    images, attributes = mixture_faces(world, 600, seed=11)
    how = {"sampling": SAMPLING, "guidance": GUIDANCE}
    same = world.counterfactual(images, attributes, {"male": attributes["male"]}, **how)
    assert 0 < np.mean(doubted(world, images, same)) < 0.05
    images, attributes = mixture_faces(world, 120, seed=3)
    flags: list[bool] = []
    errors: list[float] = []
    shares: dict[str, float] = {}
    do = {"male": 1 - attributes["male"]}

    def ask(name: str, x: Tensor, given: Any, **how: Any) -> None:
        how = {"guidance": GUIDANCE} | how
        pair = world.counterfactual(x, given, do, sampling=SAMPLING, **how)
        found = doubted(world, x, pair)
        shares[name] = float(np.mean(found))
        flags.extend(found)
        error = pair.images - truth(world, x, attributes, attributes | do)
        errors.extend(error.abs().mean(dim=(1, 2, 3)).tolist())

    ask("good", images, attributes)
    ask("too strong", images, attributes, guidance=Guidance.cfg(8.0))
    ask("wrong attributes", images, {name: 1 - column for name, column in attributes.items()})
    noise = torch.rand(images.shape, generator=torch.Generator().manual_seed(1)).double() * 2 - 1
    ask("noise", noise, attributes)
    assert shares.pop("good") < 0.1
    assert min(shares.values()) > 0.8
    mean = [np.mean(np.array(errors)[np.array(flags) == side]) for side in (True, False)]
    assert mean[0] > 2 * mean[1]


def test_thresholds_say_what_they_hold_for(world) -> None:
    thresholds = world.thresholds
    assert (thresholds.images, thresholds.references) == (256, 400)
    assert thresholds.sampling == SAMPLING
    assert thresholds.guidance == ("none;anchor=true",)  # which contrast is, whatever its weight
    assert set(thresholds.limits) == {
        *(f"loss {level}" for level in LEVELS),
        *(f"{kind} {n}" for n in world.space.names for kind in ("given", "asked", "moved")),
        *(f"change {name}" for name in world.space.names),
        "correction",
    }
    anchored, sampling = Guidance.parse("contrast:2;anchor=true"), as_sampling(SAMPLING)
    both = thresholds.limits_for(["male", "young"], anchored, sampling)
    assert both.items() >= thresholds.limits.items()
    assert both["change"] == both["change male"] + both["change young"]
    for other in ((anchored, as_sampling(9)), (Guidance.cfg(2.0), sampling)):
        assert set(thresholds.limits_for(["male"], *other)) == {*both} - {"correction"}
    partial = thresholds.model_copy(update={"limits": {"change male": 1.0}})
    assert "change" not in partial.limits_for(["male", "young"], anchored, sampling)


def test_a_guidance_whose_answers_are_all_off_the_manifold_has_only_the_worst_named(world) -> None:
    strong: dict[str, Any] = {"guidance": Guidance.cfg(6.0), "sampling": "ddim uniform 2"}
    images, attributes = mixture_faces(world, 120, seed=7)
    usual, own = (
        trust_thresholds(world, images, attributes, **how)
        for how in ({"guidance": GUIDANCE, "sampling": SAMPLING}, strong)
    )
    fresh, table = mixture_faces(world, 120, seed=8)
    pair = world.counterfactual(fresh, table, {"male": "flip"}, **strong)
    values = measure_trust(world, fresh, pair).values

    def share(limits: dict[str, float]) -> float:
        names = [name for name in limits if name.startswith("loss")]
        above = torch.stack([values[name] > limits[name] for name in names])
        return above.any(dim=0).double().mean().item()

    assert share(usual.limits) > 0.9
    assert 0 < share(own.limits) < 0.3


@pytest.mark.parametrize(("count", "unsure"), [(60, 0.0), (200, 0.6)])
def test_readings_of_real_images_bound_what_answers_may_read(world, count, unsure) -> None:
    """1 % of 200 images, shared by three attributes, is no image: the largest reading counts."""
    images, attributes = mixture_faces(world, count, seed=9)
    share = torch.linspace(0, unsure, count, dtype=torch.float64).view(-1, 1, 1, 1)
    images = images + share * (images.flip(0) - images)
    how: dict[str, Any] = {"guidance": Guidance.cfg(6.0), "sampling": "ddim uniform 2"}
    limits = trust_thresholds(world, images, attributes, count=30, **how).limits
    for name, own in attributes.items():
        read = world.judge.read(images).scores[name]
        right = np.where(own == 1, read, 1 - read).clip(1e-3, 1 - 1e-3)
        odds = np.log((1 - right) / right)
        apart = [np.abs(odds[own == value] - odds[own == value].mean()).max() for value in (0, 1)]
        most = pytest.approx(max(0.0, odds.max()))
        assert limits[f"given {name}"] == limits[f"asked {name}"] == most
        assert limits[f"moved {name}"] <= max(apart) + 1e-9  # however far these answers move


def test_the_way_back_is_that_of_the_guidance_in_every_turn(world) -> None:
    """Two images and three attributes: one of these has no turn."""
    images, attributes = mixture_faces(world, 2)
    how: dict[str, Any] = {"sampling": "fixed-point:2 uniform 4", "guidance": PAPER_GUIDANCE}
    shares: list[float] = []
    found = trust_thresholds(world, images, attributes, on_progress=shares.append, **how)
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.25, 1.0)
    assert found.guidance == ("fcfg:affected=3.0,invariant=1.2",)
    errors = []
    for i, name in enumerate(("smiling", "male")):
        own = {column: values[i : i + 1] for column, values in attributes.items()}
        do = {name: own[name]}
        pair = world.counterfactual(images[i : i + 1], own, do, **how)
        errors.append((pair.images - images[i : i + 1]).abs().mean().item())
    assert found.limits["composition"] == pytest.approx(max(errors))
    residual = world.abduct(images, attributes, sampling=how["sampling"]).trajectory.residual
    assert found.limits["residual"] == pytest.approx(residual.max().item())
    with refused("images", "an integer from 2"):
        trust_thresholds(world, images[:1], {k: c[:1] for k, c in attributes.items()})


@pytest.mark.filterwarnings("ignore:counterfactual. NaN or infinity:UserWarning")
def test_other_kinds_of_attributes_and_no_judge() -> None:
    """And a model whose numbers overflow has no thresholds."""
    pipeline = tiny_pipeline()
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.uniform(-1, 1, (30, 3, 8, 8)).astype(np.float32))
    table = {"smiling": rng.integers(0, 2, 30), "age": rng.uniform(0, 100, 30)}
    table["hair"] = rng.choice(["dark", "grey", "red"], 30)
    limits = trust_thresholds(pipeline, images, table, sampling=2, count=9).limits
    read = pipeline.judge.read(images).scores["age"] - table["age"]
    assert limits["asked age"] == pytest.approx(np.abs(read).max())
    assert 0 < limits["moved age"] <= np.abs(read - read.mean()).max()
    assert limits["given hair"] == limits["asked hair"]
    pipeline.judge = None
    rest = trust_thresholds(pipeline, images, table, sampling=2, count=9).limits
    kinds = ("loss", "change", "correction")
    assert rest == {name: limits[name] for name in limits if name.split()[0] in kinds}
    pipeline.denoiser.network.head[-1].bias.data += float("inf")
    with refused("thresholds of trust", "NaN or infinity for 'loss 0.1'"):
        trust_thresholds(pipeline, images, table, sampling=2)


def test_reasons_are_said_once_and_in_words() -> None:
    limits = {"loss 0.1": -4.0, "loss 0.6": -5.0, "asked hair": 3.0, "moved male": 2.0}
    limits |= {"given male": 3.0, "residual": 0.1, "correction": 0.1}
    factual, counterfactual = {"male": 1, "hair": "red"}, {"male": 1, "hair": "grey"}
    ordinary = {name: limit - 1 for name, limit in limits.items()}
    assert reasons(ordinary, limits, factual, counterfactual) == []
    above = {name: limit + 1 for name, limit in limits.items()}
    errs = "the prediction errs more than on validation images"
    assert reasons(above, limits, factual, counterfactual) == [
        *("off the manifold", "the judge does not read hair=grey", "male changes as well"),
        *("the judge does not read male=1 in the picture", "the inversion does not settle", errs),
    ]
    assert reasons({"correction": None}, limits, {}, {}) == [errs]
    unknown = {"loss 9.0": 9.0}  # measured, without a limit
    assert reasons(unknown, limits, {}, {}) == []


def test_a_picture_that_is_not_reproduced() -> None:
    for composition, change, limits, doubt in (
        (0.09, 0.0, {}, False),  # hardly visible
        (0.14, 0.3, {}, False),  # less than half of the change
        (0.16, 0.3, {}, True),
        (0.06, 0.3, {"composition": 0.055}, True),  # more than on validation images
        (0.16, 0.3, {"composition": 0.5}, True),  # where nothing is reproduced: no excuse
    ):
        found = reasons({"composition": composition, "change": change}, limits, {}, {})
        assert found == ["the picture itself is not reproduced"] * doubt


def reading(name: str, scores: object) -> Reading:
    return Reading({}, {name: np.array(scores, float)}, {}, np.zeros((4, 1), np.float32))


def missed(name: str, was: object, asked: object, before: object, after: object) -> list[dict]:
    """What is missed in images with such values and readings."""
    model = tiny_pipeline(judge=False)
    action = Action({column: np.array(asked) for column in model.space.names}, (name,), 0)
    shown = reading(name, before), reading(name, after)
    return not_reached(model, {name: np.array(was)}, action, *shown)


def test_a_value_is_reached_from_a_half_on_a_level_if_likeliest_and_a_number_half_way() -> None:
    found = missed("smiling", [0, 1, 0, 1], [1, 0, 1, 0], [0.0] * 4, [0.03, 0.55, 0.5, 0.5])
    wanted = [{"smiling": "reads 3 %, asked yes"}, {"smiling": "reads 55 %, asked no"}, {}, {}]
    assert found == wanted
    after = [[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.4, 0.4, 0.2], [0.1, 0.2, 0.7]]
    found = missed("hair", [1, 1, 1, 1], [0, 0, 0, 0], [[0.0, 1.0, 0.0]] * 4, after)
    wanted = [{}, {"hair": "reads grey, asked dark"}, {}, {"hair": "reads red, asked dark"}]
    assert found == wanted
    asked, before = [60.0] * 4, [30.0] * 4
    found = missed("age", [30.0] * 4, asked, before, [46.0, 44.0, 30.0, 20.0])
    assert found == [{}, *({"age": f"reads {read}, asked 60"} for read in (44, 30, 20))]
    # A judge that errs by 20 on the picture may err as much on the answer.
    found = missed("age", [50.0] * 4, asked, before, [41.0, 39.0, 79.0, 91.0])
    assert found == [{}, {"age": "reads 39, asked 60"}, {}, {}]
    # Where nothing is asked to change, nothing can be missed.
    assert missed("age", asked, asked, before, [29.0] * 4) == [{}] * 4


def test_a_model_may_have_words_of_its_own(tmp_path: Path) -> None:
    fcfg.save(tiny_pipeline(), tmp_path)
    (tmp_path / WORDS).write_text(json.dumps({"smiling": ["grave", "merry"]}))
    model, one = fcfg.load(tmp_path), reading("smiling", [0.2, 0.9, 0.0, 0.0])
    table = {name: np.array([1, 0, 0, 0]) for name in model.space.names}
    first, second, *_ = not_reached(model, table, Action(table, ("smiling",), 0), one, one)
    assert first == {"smiling": "reads 20 % merry, asked merry"}
    assert second == {"smiling": "reads 90 % merry, asked grave"}
    space = fcfg.AttributeSpace([fcfg.Binary("smiling", ["F", "M"]), fcfg.Binary("sex")])
    assert read_words(None, space) == {"smiling": ["F", "M"]}
    assert read_words(tmp_path, space) == model.words
    # Only what was intervened on can be missed, and only by a judge.
    assert not_reached(model, table, Action(table, (), 0), one, one) == [{}] * 4
    assert not_reached(model, table, Action(table, ("smiling",), 0), None, None) == [{}] * 4


def test_a_judge_tells_what_was_done_from_what_was_not() -> None:
    model, faces = fcfg.load("portraits"), portraits.sample(256, portraits.EVALUATION_SEED)
    before = model.judge.read(faces.images)
    done, left = 0, 0
    for name in model.space.names:
        action = model.act(faces.attributes, {name: "flip"})
        truth = portraits.counterfactual(faces, dict(action.attributes)).images
        own = faces.attributes, action, before
        done += sum(map(bool, not_reached(model, *own, model.judge.read(truth))))
        left += sum(map(bool, not_reached(model, *own, before)))
    assert (round(done / 7.68), round(left / 7.68)) == (13, 89)  # percent; docs/generate.md


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with thresholds for two steps, in a folder."""
    pipeline = tiny_pipeline()
    images = torch.rand(9, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1
    table = {"smiling": [0, 1, 0] * 3, "age": [20.0, 50.0, 80.0] * 3, "hair": ["dark"] * 9}
    pipeline.thresholds = trust_thresholds(pipeline, images, table, sampling=2)
    fcfg.save(pipeline, folder := tmp_path_factory.mktemp("stored"))
    return folder


@pytest.fixture
def model(stored: Path) -> CounterfactualPipeline:
    """One's own."""
    return fcfg.load(stored)


def doubting(pipeline: CounterfactualPipeline, **limits: float) -> CounterfactualPipeline:
    """Replace limits: by default nothing is doubted."""
    own = {name: high for name, (_, high) in signal_ranges(pipeline.space).items()}
    own |= {name.replace("_", " "): limit for name, limit in limits.items()}
    pipeline.thresholds = pipeline.thresholds.model_copy(update={"limits": own})
    return pipeline


def asked(pipeline: CounterfactualPipeline, files: list[Path], out: Path, **how: Any) -> Any:
    return ask(pipeline, files, out, **{"sampling": 2, "reverse": False} | how)


def test_records_hold_signals_and_reasons_and_a_resumed_run_doubts_by_what_is_known_now(
    model, tmp_path: Path
) -> None:
    files = draw(tmp_path, ["anna.png", "ben.png"])
    (first,) = asked(doubting(model), files[:1], tmp_path / "out")
    assert first.reasons == ()
    results = asked(doubting(model, asked_age=-1.0, change_age=-1.0), files, tmp_path / "out")
    assert results[0].signals == first.signals
    expected = ("more changes than on validation images",)  # asked_age is said as not reached
    assert [result.reasons for result in results] == [expected] * 2
    assert [list(result.not_reached) for result in results] == [["age"]] * 2
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    for entry, result in zip(record["images"], results, strict=True):
        assert entry["signals"] == result.signals
        assert entry["signals"]["change"] == pytest.approx(result.change, rel=1e-4)
        assert entry["reasons"] == list(expected)
        assert entry["network_rows"]["trust"] == 2 * len(LEVELS)
    (alone,) = asked(model, files[1:], tmp_path / "alone")
    assert alone.signals == pytest.approx(results[1].signals, rel=1e-3)


def test_the_command_says_in_one_line_what_not_to_trust(
    model, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    digest = Thresholds.digest(model.denoiser, dulled(model).judge)
    model.thresholds = model.thresholds.model_copy(update={"model": digest})
    names = ["anna.png", "ben.png", "carl.png", "dora.png", "emil.png", "fay.png"]
    draw(tmp_path / "faces", names)
    words = ["generate", "tiny", "faces", "--attributes", GIVEN, "--do", "age=90", "--no-reverse"]

    def said(pipeline: CounterfactualPipeline, *more: str) -> str:
        fcfg.save(pipeline, "tiny")
        assert main([*words, "--sampling", "2", *more]) == 0
        return capsys.readouterr().out

    missed = ", ".join(f"{name} (age reads 50, asked 90)" for name in names[:5])
    out = said(doubting(model))
    assert f"\nNot reached by 6 of 6: {missed} and 1 more\n" in out
    assert "trust" not in out
    doubts = ", ".join(f"{n} (more changes than on validation images)" for n in names[:5])
    out = said(doubting(model, change_age=0.0))  # the same answers, doubted now
    assert f"\nDo not trust 6 of 6: {doubts} and 1 more\n" in out
    assert out.index("Not reached") < out.index("Do not trust")
    out = said(model, "--sampling", "3", "--out", "three")
    assert "The errors of the prediction are not checked: their thresholds are of other" in out
    assert "Do not trust 6 of 6" in out
    model.thresholds = None
    assert "fcfg calibrate" in said(model, "--out", "none")
    assert "trust" not in said(model, "--out", "off", "--no-trust")
    words[words.index("age=90")] = "age=50"
    assert "Not reached" not in said(model, "--out", "no")


def dulled(pipeline: CounterfactualPipeline) -> CounterfactualPipeline:
    """Let the judge of a model always read a smile of 10 %, and an age of 50."""
    with torch.no_grad():
        pipeline.judge.network.head.weight.zero_()
        pipeline.judge.network.head.bias.zero_()[0] = -2.1972
    return pipeline


MISSED = {"smiling": "reads 10 %, asked yes"}


@pytest.mark.parametrize("trust", [True, False])
def test_what_is_missed_is_recorded_kept_and_not_said_twice(tmp_path: Path, trust: bool) -> None:
    dull, files = dulled(tiny_pipeline()), draw(tmp_path, ["anna.png", "ben.png"])
    how = {"attributes": GIVEN, "do": {"smiling": 1}, "sampling": 2, "trust": trust}
    for part in (files[:1], files):
        results = generate(dull, part, out=tmp_path / "out", **how)
        assert [result.not_reached for result in results] == [MISSED] * len(part)
        assert [bool(result.signals) for result in results] == [trust] * len(part)
        assert ["trust" in result.network_rows for result in results] == [trust] * len(part)
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert [entry["not_reached"] for entry in record["images"]] == [MISSED] * 2
    for missed, count in (({}, trust), (MISSED, 0)):
        result = replace(results[0], not_reached=missed).doubted({"asked smiling": 1})
        assert len(result.reasons) == count
    dull.judge = None
    (result,) = generate(dull, files[:1], out=tmp_path / "other", **how)
    assert (result.not_reached, result.missed) == ({}, "")


def test_the_studio_tells_its_page() -> None:
    dull = dulled(tiny_pipeline())
    with client_of(studio_of(dull)) as client:
        image = upload(client)
        events = ask_studio(client, image, trust=True, sampling="ddim uniform 3")
        (answer,), (trust,), (done,) = (of(events, kind) for kind in ("answer", "trust", "done"))
        assert answer["not_reached"] == done["record"]["not_reached"] == MISSED
        assert (trust["trusted"], trust["reasons"]) == (False, [])
        (answer,) = of(ask_studio(client, image, do={"smiling": 0}), "answer")
        assert answer["not_reached"] == {}
    dull.judge = None
    with client_of(studio_of(dull)) as client:
        (answer,) = of(ask_studio(client, upload(client)), "answer")
    assert (answer["not_reached"], answer["judged"]) == ({}, {})


def test_the_shipped_model_doubts_bad_answers_and_not_the_truth() -> None:
    """Few drawings and steps."""
    pipeline = fcfg.load("portraits")
    faces, do = portraits.sample(6, seed=portraits.EVALUATION_SEED + 1), {"young": "flip"}
    right = portraits.counterfactual(faces, do).images
    there = pipeline.abduct(faces.images, faces.attributes, sampling="ddim uniform 2")
    action = pipeline.act(faces.attributes, do, keys=there.keys)
    good = pipeline.predict(there, action)
    good = replace(good, trajectory=replace(good.trajectory, x=right))
    bad = pipeline.predict(there, action, Guidance.cfg(8.0))
    assert sum(doubted(pipeline, faces.images, good)) <= 1
    assert sum(doubted(pipeline, faces.images, bad)) == 6
