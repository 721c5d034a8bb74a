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
from fcfg.cli import main
from fcfg.reports.rule_styles import colours
from fcfg.studio import export
from fcfg.studio.app import STATIC
from fcfg.studio.export import guidances, other_values, questions, static_text
from fcfg.studio.models import StudioModel, as_studio_models
from fcfg.studio.pictures import StudioPicture, find_samples
from fcfg.studio.questions import Question
from laws import shift
from refusal import refused


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


def test_every_other_value_is_asked_for_and_a_model_of_another_kind_has_no_gallery(
    tmp_path,
) -> None:
    assert other_values(Binary("smiling"), 1) == [0]
    assert other_values(Categorical("hair", ("dark", "fair", "red")), "fair") == ["dark", "red"]
    assert other_values(Continuous("age", 20, 80), 33.0) == [30, 50, 70]
    model = shift()
    model.provenance = {}
    (own,) = as_studio_models([("own", model)])
    assert guidances(own, "male") == ["shift:1.0"]
    refused("model own").by(export.export_gallery, own, tmp_path, False, print)
    assert list(tmp_path.iterdir()) == []


def few(model: StudioModel, picture: StudioPicture) -> Iterator[Question]:
    """The first two questions about the first picture."""
    return islice(questions(model, picture), 2 if picture.id == "s0" else 0)


def test_the_command_writes_a_gallery_that_is_the_same_every_time(
    listening_folder: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(export, "questions", few)
    page = tmp_path / "out" / export.PAGE
    command = ["studio", str(listening_folder), "--export", str(page.parent)]
    assert main(command) == 0
    assert capsys.readouterr().out == f"Look at {page}\n"
    text = page.read_text("utf-8")
    assert str(listening_folder.parent) not in text
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    found = re.search(r'id="table">(.*?)</script>', text)
    table = json.loads(found[1])
    kinds = ["answer", "truth", "trust", "reversal", "done"]
    for entry in table["answers"]:
        assert list(dict.fromkeys(event["type"] for event in entry["events"])) == kinds
    check_answer(table["answers"][0], listening_folder)
    page.write_text("mine")
    assert main(command) == 2
    assert export.PAGE in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0
    assert page.read_text("utf-8") == text


def check_answer(entry: dict, folder: Path) -> None:
    """Compare an answer of the gallery with that of the model."""
    (model,) = as_studio_models([("tiny", fcfg.load(str(folder)))])
    (picture, *_) = find_samples(model)
    table = {name: [value] for name, value in picture.attributes.items()}
    how = {"guidance": fcfg.Guidance.parse(entry["guidance"])}
    pair = model.model.counterfactual(picture.image, table, entry["do"], **how)
    change = (pair.images - picture.image).abs().mean().item()
    assert entry["events"][0]["change"] == pytest.approx(change, rel=1e-4)


def test_the_page_is_light_and_asks_for_nothing_elsewhere() -> None:
    static = list(STATIC.iterdir())
    assert sum(len(path.read_bytes()) for path in static) < 300_000
    for path in static:
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        if path.name.endswith(".js"):  # each is loaded, and can stand inside the page
            assert f'<script src="/static/{path.name}"></script>' in static_text("index.html")
            assert not re.search(r"</script|<!--|^import |^export ", text, re.MULTILINE), path.name
        assert not re.search(r"https?://|//[a-z]+\.[a-z]|@import|eval\(|style=\"", text), path.name


@pytest.mark.parametrize("dark", [False, True])
def test_the_colours_are_those_of_reports(dark: bool) -> None:
    part = static_text("style.css").split("@media (prefers-color-scheme:dark)")[dark]
    own = dict(re.findall(r"(--\w+):(#\w{6})", part.partition("}")[0]))
    assert len(own) == 10
    del own["--on"]
    assert own.items() <= {name[4:-1]: colour for name, colour in colours(dark).items()}.items()
