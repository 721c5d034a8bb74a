"""The hierarchical VAE as a model that answers what-ifs, and its settings; see test_laws.py."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from fcfg.rivals.hvae import HVAE, HVAEConfig, HVAECounterfactual, HVAEModel, HVAESetting
from fcfg.sampling import StepRecord
from refusal import refused
from tiny_rivals import SICK, VAE, pictures, sick_hvae, sick_table

VALUES = sick_table(5)


def ask(
    model: HVAEModel, do: dict[str, object], setting: str = "temperature:0.1", **options: object
) -> HVAECounterfactual:
    """An answer for five pictures, or for some of them."""
    rows = options.pop("rows", slice(None))
    x = pictures(5, model.channels)[rows]
    values = {name: column[rows] for name, column in VALUES.items()}
    plan = {"setting": HVAESetting.parse(setting)}
    return model.counterfactual(x, values, do, plan=plan, **options)


@pytest.mark.parametrize(("setting", "channels"), [("none", 1), ("temperature:1", 3)])
def test_the_counterfactual_of_the_factual_values_is_the_image(setting, channels) -> None:
    model, x = sick_hvae(channels), pictures(5, channels)
    same = {name: VALUES[name] for name in ("age", "site")}
    answer = ask(model, same, setting)
    assert (answer.images - x).abs().max() < 1e-6
    assert all(np.array_equal(answer.attributes[name], VALUES[name]) for name in VALUES)
    other = ask(model, {"site": "b"}, setting)
    assert (other.images - x)[VALUES["site"] != 1].abs().max() > 0.01
    assert other.prediction.abs().max() > 1
    assert torch.equal(other.images, other.prediction.clamp(-1, 1))
    model.network.double()
    assert (ask(model, same, setting).images - x.double()).abs().max() < 1e-13


def test_without_the_residual_the_answer_is_what_the_model_predicts() -> None:
    model, x = sick_hvae(), pictures(5)
    answer = ask(model, {"site": "b"}, "temperature:0;residual=0")
    tables = VALUES, answer.attributes
    there, then = (torch.from_numpy(SICK.encode(table)).float() for table in tables)
    inference = model.network.infer(x, there)
    predicted = model.network.decode(inference.latents, then).image
    assert torch.allclose(answer.images, predicted, atol=1e-6)
    half = ask(model, {"site": VALUES["site"]}, "temperature:0;residual=0.5")
    assert torch.allclose(half.images, (x + inference.pixels.image) / 2, atol=1e-6)


def test_the_answer_follows_from_image_key_and_seed() -> None:
    model, do = sick_hvae(), {"site": "b", "sick": "flip"}

    def images(rows: list[int], setting: str = "temperature:1", **options: object) -> Tensor:
        return ask(model, do, setting, rows=rows, **options).images

    whole = images([0, 1, 2, 3, 4])
    assert torch.allclose(images([3, 1]), whole[[3, 1]], atol=1e-5)
    named = images([0, 1], keys=["a", "b"])
    assert torch.allclose(images([1, 0], keys=["b", "a"]), named[[1, 0]], atol=1e-5)
    for other in (images([0, 1], keys=["c", "d"]), images([0, 1], keys=["a", "b"], seed=1)):
        assert (other - named).abs().amax(dim=(1, 2, 3)).min() > 1e-3
    assert torch.equal(*(images([0], "none", keys=[key]) for key in "ab"))  # draws nothing


def test_the_rows_that_are_counted_are_evaluated() -> None:
    model, evaluated, records = sick_hvae(), list[int](), list[StepRecord]()
    model.network.head.register_forward_hook(lambda _, x, __: evaluated.append(len(x[0])))
    answer = ask(model, {"site": "b"}, batch_size=2, on_step=records.append)
    assert sum(answer.spent) == sum(evaluated) == 10
    assert max(evaluated) == 2
    assert answer.evaluations == model.plan(["site"], sampling="paper").rows == 2
    assert [round(record.share, 6) for record in records] == [0.4, 0.8, 1.0]
    assert repr(model).startswith("HVAEModel(0.0 M parameters, CausalGraph(")


def test_what_does_not_fit_is_refused() -> None:
    model, large = sick_hvae(), pictures(5, size=16)
    four = HVAE(HVAEConfig(**{**VAE.model_dump(), "parents": 4}))
    for subject, fragment, call in (
        ("model, network", "got 4", lambda: HVAEModel(four, model.scm)),
        ("model, network", "rivals.hvae.HVAE", lambda: HVAEModel(nn.Identity(), model.scm)),
        ("images", "8 by 8 pixels", lambda: model.abduct(large, VALUES)),
        ("images", "got 16 by 16", lambda: model.abduct(large, VALUES, any_size=True)),
        ("anchor", "no path to anchor", lambda: model.plan(["site"], anchor=True)),
    ):
        refused(subject, fragment).by(call)


@given(st.floats(0, 1), st.floats(0, 1))
def test_the_text_form_of_a_setting_is_read_back(temperature: float, residual: float) -> None:
    setting = HVAESetting(temperature, residual)
    assert HVAESetting.parse(repr(setting)) == setting


def test_a_setting_has_one_canonical_form_and_a_bad_one_is_refused_in_one_line() -> None:
    for text, canonical in {
        " none ": "none",
        "temperature:0": "none",
        "temperature: 1": "temperature:1.0",
        "temperature:.1;residual=1": "temperature:0.1",
        "temperature:0 ; residual = 0.5": "temperature:0.0;residual=0.5",
    }.items():
        assert repr(HVAESetting.parse(text)) == canonical
    for text, subject, fragment in (
        ("cfg:3", "setting 'cfg:3'", "'temperature:' and a number"),
        ("temperature", "setting 'temperature'", "a number"),
        ("temperature:hot", "setting 'temperature:hot'", "got 'hot'"),
        ("temperature:1.5", "setting, temperature", "a number from 0 to 1"),
        ("temperature:nan", "setting, temperature", "a number from 0 to 1"),
        ("temperature:1;residual=-1", "setting, residual", "a number from 0 to 1"),
        ("temperature:1;start=0", "setting", "no option but residual, got 'start'"),
        ("none;residual=0.5", "setting", "got 'none'"),
        (3, "setting", "a string"),
    ):
        refused(subject, fragment).by(HVAESetting.parse, text)
