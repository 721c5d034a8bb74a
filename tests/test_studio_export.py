"""The gallery that ``fcfg studio --export`` writes: whole, small, the same every time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

import fcfg
from fcfg.causal.attributes import Binary, Categorical, Continuous
from fcfg.causal.scm import StructuralCausalModel
from fcfg.cli import main
from fcfg.datasets import portraits
from fcfg.hvae import HVAE, HVAEConfig, HVAEModel
from fcfg.studio import export
from fcfg.studio.export import export_gallery, guidances, other_values, questions
from fcfg.studio.models import StudioModel, as_studio_models
from fcfg.studio.pictures import StudioPicture, find_samples
from fcfg.studio.questions import Question
from refusal import refused
from visits import listening_model


def vae() -> StudioModel:
    """A model of another kind, without drawings of its own."""
    config = HVAEConfig(
        size=8,
        parents=3,
        encoder="8b1d2,4b1d4,1b1",
        decoder="1b1,4b1,8b1",
        widths=(8, 8, 16),
        latent=3,
    )
    scm = StructuralCausalModel(portraits.space("portraits"), portraits.graph("portraits"))
    (model,) = as_studio_models([("vae", HVAEModel(HVAE(config), scm))])
    return model


@pytest.mark.parametrize("name", ["portraits", "portraits-causal"])
def test_every_picture_is_asked_about_at_the_default_and_its_rivals(name: str) -> None:
    (model,) = as_studio_models([(name, fcfg.load(name))])
    pictures = find_samples(model)[:2]
    asked = [each for picture in pictures for each in questions(model, picture)]
    assert len(list(questions(model, pictures[0]))) < 2 * export.MOST_ANSWERS
    assert {each.image for each in asked} == {"s0", "s1"}
    for attribute in model.model.space:
        own = [each for each in asked if attribute.name in each.do]
        usual = model.model.plan([attribute.name]).setting
        rules = {each.guidance for each in own}
        assert {repr(usual), "fcfg:affected=3.0,invariant=1.2", "cfg:3.0"} < rules
        values = {(each.image, *each.do.items()) for each in own}
        assert len(own) == len(values) * len(rules)  # every value under every guidance
        for each in own:
            assert each.do[attribute.name] != each.attributes[attribute.name]


def test_every_other_value_of_an_attribute_is_asked_for() -> None:
    assert other_values(Binary("smiling"), 1) == [0]
    assert other_values(Categorical("hair", ("dark", "fair", "red")), "fair") == ["dark", "red"]
    assert other_values(Continuous("age", 20, 80), 33.0) == [30, 50, 70]


def test_a_model_of_another_kind_is_asked_at_its_own_setting() -> None:
    assert guidances(vae(), "smiling") == ["temperature:0.1"]


def test_a_model_without_drawings_has_no_gallery(tmp_path: Path) -> None:
    with refused("model vae", "a model of a drawn world"):
        export_gallery(vae(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def few(model: StudioModel, picture: StudioPicture) -> Iterator[Question]:
    """The first two questions about the first picture."""
    return islice(questions(model, picture), 2 if picture.id == "s0" else 0)


def test_the_command_writes_a_gallery_that_is_the_same_every_time(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    fcfg.save(listening_model(), tmp_path / "tiny")
    monkeypatch.setattr(export, "questions", few)
    page = tmp_path / "out" / export.PAGE
    command = ["studio", str(tmp_path / "tiny"), "--export", str(page.parent)]
    assert main(command) == 0
    assert capsys.readouterr().out == f"Look at {page}\n"
    text = page.read_text("utf-8")
    assert str(tmp_path) not in text
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    found = re.search(r'id="table">(.*?)</script>', text)
    assert found is not None
    table = json.loads(found[1])
    kinds = ["answer", "truth", "trust", "reversal", "done"]
    for entry in table["answers"]:
        assert list(dict.fromkeys(event["type"] for event in entry["events"])) == kinds
    check_answer(table["answers"][0], tmp_path / "tiny")
    page.write_text("mine")
    assert main(command) == 2
    assert export.PAGE in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0
    assert page.read_text("utf-8") == text


def check_answer(entry: dict, folder: Path) -> None:
    """Compare an answer of the gallery with that of the model."""
    (model,) = as_studio_models([("tiny", fcfg.load(str(folder)))])
    (picture, *_) = find_samples(model)
    pair = model.model.counterfactual(
        picture.image,
        {name: [value] for name, value in picture.attributes.items()},
        entry["do"],
        guidance=fcfg.Guidance.parse(entry["guidance"]),
    )
    change = (pair.images - picture.image).abs().mean().item()
    assert entry["events"][0]["change"] == pytest.approx(change, rel=1e-4)
