"""The hierarchical VAE as a model that answers what-ifs, and its settings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fcfg.rivals.hvae import HVAE, HVAEConfig, HVAEModel, HVAESetting
from fcfg.sampling import StepRecord
from refusal import refused
from tiny_hvae import CONFIG, SPACE, pictures, table, tiny_hvae

SETTINGS = ["none", "temperature:0.1", "temperature:1.0"]


# Laws of counterfactuals -------------------------------------------------------------------------


@pytest.mark.parametrize("text", SETTINGS)
@pytest.mark.parametrize("channels", [1, 3])
def test_the_counterfactual_of_the_factual_values_is_the_image(text: str, channels: int) -> None:
    answers, x, values = tiny_hvae(channels), pictures(5, channels), table(5)
    same = {name: values[name] for name in ("age", "site")}
    answer = answers.counterfactual(x, values, same, plan={"setting": HVAESetting.parse(text)})
    assert (answer.images - x).abs().max() < 1e-6
    assert all(np.array_equal(answer.attributes[name], values[name]) for name in values)
    other = answers.counterfactual(
        x, values, {"site": "b"}, plan={"setting": HVAESetting.parse(text)}
    )
    assert (other.images - x)[values["site"] != 1].abs().max() > 0.01


def test_without_the_residual_the_answer_is_what_the_model_predicts() -> None:
    answers, x, values = tiny_hvae(), pictures(5), table(5)
    setting = HVAESetting(temperature=0, residual=0)
    answer = answers.counterfactual(x, values, {"site": "b"}, plan={"setting": setting})
    encode = SPACE.encode
    there, then = (torch.from_numpy(encode(t)).float() for t in (values, answer.attributes))
    latents = answers.network.infer(x, there).latents
    assert torch.allclose(answer.images, answers.network.decode(latents, then).image, atol=1e-6)
    half = HVAESetting(temperature=0, residual=0.5)
    factual = answers.counterfactual(
        x, values, {"site": values["site"]}, plan={"setting": half}
    ).images
    explained = answers.network.infer(x, there).pixels.image
    assert torch.allclose(factual, (x + explained) / 2, atol=1e-6)


def test_the_answer_follows_from_image_key_and_seed() -> None:
    answers, x, values = tiny_hvae(), pictures(5), table(5)
    setting, do = HVAESetting(temperature=1), {"site": "b", "sick": "flip"}

    def ask(rows: list[int], **options: object) -> Tensor:
        part = {name: column[rows] for name, column in values.items()}
        return answers.counterfactual(
            x[rows], part, do, plan={"setting": setting}, **options
        ).images

    whole = ask([0, 1, 2, 3, 4])
    assert torch.allclose(ask([3, 1]), whole[[3, 1]], atol=1e-5)
    named = ask([0, 1], keys=["a", "b"])
    assert torch.allclose(ask([1, 0], keys=["b", "a"]), named[[1, 0]], atol=1e-5)
    for other in (ask([0, 1], keys=["c", "d"]), ask([0, 1], keys=["a", "b"], seed=1)):
        assert (other - named).abs().amax(dim=(1, 2, 3)).min() > 1e-3


def test_without_temperature_nothing_is_drawn() -> None:
    answers, x, values = tiny_hvae(), pictures(5), table(5)
    cold = HVAESetting.parse("none")
    first, second = (
        answers.counterfactual(x, values, {"site": "b"}, plan={"setting": cold}, seed=seed)
        for seed in (0, 1)
    )
    assert torch.equal(first.images, second.images)


def test_answers_are_clamped_and_predictions_are_not() -> None:
    answers, x, values = tiny_hvae(), pictures(5), table(5)
    pair = answers.counterfactual(x, values, {"site": "b"})
    assert pair.prediction.abs().max() > 1
    assert torch.equal(pair.images, pair.prediction.clamp(-1, 1))


def test_the_rows_that_are_counted_are_evaluated() -> None:
    answers, x, values = tiny_hvae(), pictures(5), table(5)
    evaluated: list[int] = []
    answers.network.head.register_forward_hook(
        lambda _, inputs, __: evaluated.append(len(inputs[0]))
    )
    records: list[StepRecord] = []
    answer = answers.counterfactual(x, values, {"site": "b"}, batch_size=2, on_step=records.append)
    assert sum(answer.spent) == sum(evaluated) == 10
    assert max(evaluated) == 2
    rows = answers.plan(["site"], sampling="paper").rows
    assert answer.evaluations == rows == 2
    assert [round(record.share, 6) for record in records] == [0.4, 0.8, 1.0]


def test_double_precision_is_kept() -> None:
    answers, x, values = tiny_hvae(), pictures(5), table(5)
    answers.network.double()
    same = {"site": values["site"]}
    answer = answers.counterfactual(x, values, same, plan={"setting": HVAESetting(temperature=1)})
    assert (answer.images - x.double()).abs().max() < 1e-13


def test_a_model_describes_itself() -> None:
    answers = tiny_hvae()
    assert repr(answers).startswith("HVAEModel(0.0 M parameters, CausalGraph(")
    assert answers.parse_setting("temperature:0.5") == HVAESetting(temperature=0.5)


# Refusals ----------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused() -> None:
    answers, x, values = tiny_hvae(), pictures(5), table(5)
    abduction, action = answers.abduct(x, values), answers.act(values, {"site": "b"})
    four = HVAE(HVAEConfig(**{**CONFIG.model_dump(), "parents": 4}))
    large, predict = pictures(5, size=16), answers.predict
    calls: list[tuple[str, str, Callable[[], object]]] = [
        ("model, network", "got 4", lambda: HVAEModel(four, answers.scm)),
        (
            *("model, network", "a fcfg.rivals.hvae.HVAE"),
            lambda: HVAEModel(torch.nn.Identity(), answers.scm),  # type: ignore[arg-type]
        ),
        ("images", "8 by 8 pixels", lambda: answers.abduct(large, values)),
        ("images", "got 16 by 16", lambda: answers.abduct(large, values, any_size=True)),
        ("keys", "5 integers or strings", lambda: answers.abduct(x, values, keys=["a"])),
        ("batch_size", "from 1", lambda: predict(abduction, action, batch_size=0)),
        ("setting", "HVAESetting", lambda: predict(abduction, action, "none")),
        ("action", "the result of model.act", lambda: predict(abduction, values)),
    ]
    others = {**values, "age": values["age"][::-1]}
    for other in (others, {name: column[:3] for name, column in values.items()}):
        wrong = answers.act(other, {"site": "b"})
        calls.append(("action", "for the 5 images", lambda wrong=wrong: predict(abduction, wrong)))
    for subject, fragment, call in calls:
        with refused(subject, fragment):
            call()


# Settings ----------------------------------------------------------------------------------------


@given(st.floats(0, 1), st.floats(0, 1))
def test_the_text_form_of_a_setting_is_read_back(temperature: float, residual: float) -> None:
    setting = HVAESetting(temperature, residual)
    assert HVAESetting.parse(repr(setting)) == setting


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("none", "none"),
        (" none ", "none"),
        ("temperature:0", "none"),
        ("temperature: 1", "temperature:1.0"),
        ("temperature:.1;residual=1", "temperature:0.1"),
        ("temperature:0 ; residual = 0.5", "temperature:0.0;residual=0.5"),
    ],
)
def test_a_setting_has_one_canonical_form(text: str, canonical: str) -> None:
    assert repr(HVAESetting.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "subject", "fragment"),
    [
        ("cfg:3", "setting 'cfg:3'", "'temperature:' and a number"),
        ("temperature", "setting 'temperature'", "a number"),
        ("temperature:hot", "setting 'temperature:hot'", "got 'hot'"),
        ("temperature:1.5", "setting, temperature", "a number from 0 to 1"),
        ("temperature:nan", "setting, temperature", "a number from 0 to 1"),
        ("temperature:1;residual=-1", "setting, residual", "a number from 0 to 1"),
        ("temperature:1;residual=all", "setting", "got 'all'"),
        ("temperature:1;start=0", "setting", "no option but residual, got 'start'"),
        ("temperature:1;residual", "setting", "name=value"),
        ("none;residual=0.5", "setting", "got 'none'"),
        (3, "setting", "a string"),
    ],
)
def test_a_bad_setting_is_refused_in_one_line(text, subject: str, fragment: str) -> None:
    with refused(subject, fragment):
        HVAESetting.parse(text)


def test_true_is_no_temperature() -> None:
    with refused("setting, temperature", "a number from 0 to 1"):
        HVAESetting(temperature=True)
