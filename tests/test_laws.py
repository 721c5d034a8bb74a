"""Laws of every model: what generate, evaluate, report and the studio rely on, and no more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import fcfg
from evaluations import SIZE
from fcfg.cli import main
from fcfg.evaluation.result_files import read_results
from fcfg.model import AnyModel, Factual
from laws import FACES, KINDS, exact, few_steps
from refusal import refused
from studios import ask, client_of, of, studio_of, upload

FLIP = {"smiling": "flip"}


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> AnyModel:
    return KINDS[request.param]()


@pytest.fixture(scope="module")
def folder(model: AnyModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(model.kind) / "model"
    model.save(path)
    return path


def answer(model: AnyModel, do: Any = FLIP, *, n: int = 5, **options: Any) -> Any:
    options = {"plan": few_steps(model)} | options
    table = {name: column[:n] for name, column in FACES.attributes.items()}
    return model.counterfactual(FACES.images[:n], table, do, **options)


def test_nothing_asked_changes_nothing(model: AnyModel) -> None:
    pair = answer(model, {}, plan=exact(model))
    torch.testing.assert_close(pair.images, FACES.images, atol=1e-5, rtol=0)
    changed = answer(model, plan=exact(model))
    assert (changed.images - pair.images).abs().max() > 1e-5


def test_reverse_asks_for_the_factual_attributes_by_the_same_plan(model: AnyModel) -> None:
    pair = answer(model)
    back = model.reverse(pair)
    assert back.plan is pair.plan
    assert back.attributes == pair.abduction.attributes
    do = {"smiling": pair.abduction.attributes["smiling"]}
    keys = pair.abduction.keys
    again = model.counterfactual(pair.images, pair.attributes, do, plan=pair.plan, keys=keys)
    assert torch.equal(back.images, again.images)


def test_no_image_depends_on_the_others_and_the_same_seed_gives_the_same(model: AnyModel) -> None:
    whole, again = answer(model), answer(model)
    assert torch.equal(whole.images, again.images)
    assert list(whole.spent) == list(again.spent)
    for other in (answer(model, n=2), answer(model, batch_size=3)):
        few = len(other.images)
        torch.testing.assert_close(other.images, whole.images[:few], atol=2e-4, rtol=0)


def test_parts_are_the_whole_and_an_abduction_serves_every_question(model: AnyModel) -> None:
    plan = model.plan(["smiling"], **few_steps(model))
    abduction = model.abduct(FACES.images, FACES.attributes, plan=plan.shared())
    action = model.act(FACES.attributes, FLIP, keys=abduction.keys)
    pair = model.predict(abduction, action, plan)
    assert torch.equal(pair.images, answer(model).images)
    further = model.predict(pair.abduction, action, plan)  # with what was measured for the first
    assert torch.equal(further.images, pair.images)
    asked = model.predict(pair.abduction, action, plan.setting)
    assert torch.equal(asked.images, pair.images)
    assert repr(model.parse_setting(repr(plan.setting))) == repr(plan.setting)
    assert json.dumps(plan.to_json())


def test_an_abduction_that_is_kept_gives_the_same_answer_and_others_are_made_again(model) -> None:
    anchor = False if model.traits.steps else None
    plan = model.plan(["smiling"], **few_steps(model), anchor=anchor)
    pair = answer(model, plan=plan)
    there = pair.abduction
    factual = Factual(there.images, there.attributes, there.keys)
    again = model.restore(factual, plan, there.inferred)
    assert (again is None) == (plan.kept_as == "")
    if again is not None:
        assert torch.equal(model.predict(again, pair.action, plan).images, pair.images)


def test_a_folder_holds_the_model_and_is_written_in_one_way(model, folder, tmp_path) -> None:
    wanted = answer(model).images
    for load in (fcfg.load, type(model).load, fcfg.CounterfactualModel.load):
        again = load(folder)
        assert type(again) is type(model)
        assert (again.kind, again.folder, again.graph) == (model.kind, folder, model.graph)
        assert again.provenance == model.provenance
        assert not again.image_model.training
        assert torch.equal(answer(again).images, wanted)
    again.save(tmp_path / "again")
    again.folder = tmp_path / "again"
    fcfg.save(model, tmp_path / "half", "float16")
    one, two = ({p.name: p.read_bytes() for p in f.iterdir()} for f in (folder, again.folder))
    assert one == two
    assert (answer(fcfg.load(tmp_path / "half")).images - wanted).abs().mean() < 0.01
    next(again.image_model.parameters()).data += 0.5
    assert not torch.equal(answer(again).images, wanted)


def test_what_a_model_cannot_answer_is_refused(model: AnyModel) -> None:
    table = dict(FACES.attributes)
    refused("intervention", "'smilng'", "smiling").by(answer, model, {"smilng": 1})
    with refused("attributes", "5 values"):
        model.counterfactual(FACES.images, {name: [0] for name in table}, FLIP)
    refused("images", "3").by(model.counterfactual, FACES.images[:, :1], table, FLIP)
    with refused("guidance" if model.traits.steps else "setting", "parse"):
        model.plan(["smiling"], 3.5)
    refused("pair", "the result of model.counterfactual").by(model.reverse, FACES.images)
    action = model.act(table, FLIP)
    refused("abduction").by(model.predict, FACES.images, action)
    refused("nothing").by(model.parse_setting, "nothing:1")
    with refused(
        "counterfactual, keyword", "'plan'", "'any_size'", "got 'batchsize'", "batch_size"
    ):
        answer(model, batchsize=4)
    refused("abduct, keyword", "resize").by(model.abduct, FACES.images, table, resizing=True)
    refused("predict, keyword", "on_step").by(model.predict, None, None, plam=1)
    refused("reverse, keyword", "'keys'", "progress").by(model.reverse, None, key=[1])
    refused("prepare, keyword", "compile").by(model.prepare, compiled=True)


def sampled(model: AnyModel) -> list[str]:
    return ["--sampling", "ddim uniform 2"] if model.traits.steps else []


def test_generate_makes_pictures(model: AnyModel, folder: Path, tmp_path, capsys) -> None:
    Image.new("RGB", (SIZE, SIZE), (200, 120, 40)).save(tmp_path / "face.png")
    words = ["generate", str(folder), str(tmp_path / "face.png"), "--do", "smiling=flip"]
    words += ["--reverse", "--out", str(tmp_path / "out"), *sampled(model)]
    assert main(words) == 0
    record = json.loads((tmp_path / "out/record.json").read_text())
    assert record["finished"] == 1
    assert ("solver" in record) == model.traits.steps
    (result,) = record["images"]
    assert bool(result["signals"]) == model.traits.trust
    assert main(words) == 0
    assert "finished already" in capsys.readouterr().out
    assert main([*words, "--guidance", "no:1", "--overwrite"]) == 2


def test_evaluate_asks_the_model_for_its_settings_and_report_shows_them(
    model: AnyModel, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    words = ["evaluate", str(folder), "baselines", "--images", "3", "--no-report"]
    assert main([*words, "--device", "cpu", "--out", out, *sampled(model)]) == 0
    result = read_results(Path(out))
    assert result.header["model"]["kind"] == model.kind
    assert not result.missing
    asked_of = {guidance for do, guidance in result.header["questions"] if do == "male"}
    assert repr(model.plan(["male"]).setting) in asked_of
    for text in (model.traits.compared or {}).get("guidance", ()):
        assert repr(model.parse_setting(text)) in asked_of
    assert main(["report", out, "--out", str(tmp_path / "page")]) == 0
    assert (tmp_path / "page/report.html").exists()
    capsys.readouterr()
    assert main(["evaluate", "--list", str(folder)]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert {"baselines", "default"} <= listed
    assert ("core" in listed) == model.traits.groups
    if not model.traits.groups:
        assert main(["evaluate", str(folder), "core"]) == 2
        assert "evaluate 'baselines'" in capsys.readouterr().err


def test_calibrate_and_diagnose_are_about_guidance(model, folder, tmp_path, capsys) -> None:
    out = ["--out", str(tmp_path / "out")]
    few = ["--images", "24", "--weights", "1,2", "--sampling", "ddim uniform 2", "--device", "cpu"]
    words = ["calibrate", str(folder), *few, *out, "--cache", str(tmp_path / "cache")]
    if model.traits.trust:
        assert main(words) == 0
        assert (tmp_path / "out/calibration.json").exists()
        assert (tmp_path / "out/trust.json").exists()
        return
    for command in (words, ["diagnose", str(folder), *out]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert f"since fcfg {command[0]} is about guidance" in said
        assert said.count("\n") == 1
    for option in (["--sampling", "paper"], ["--anchor"]):
        assert main(["evaluate", str(folder), "baselines", "--show", *option]) == 2
        assert f"expected none with a model of kind {model.kind}" in capsys.readouterr().err


def test_the_studio_answers(model: AnyModel) -> None:
    factual = {"smiling": 0, "male": 1, "young": 1}
    with client_of(studio_of(model)) as client:
        (about,) = client.get("/api/model").json()["models"]
        asks = {"attributes": factual, "do": {"smiling": 1}, "reverse": True, "trust": True}
        how = {"sampling": "ddim uniform 3"} if model.traits.steps else {}
        events = ask(client, upload(client), **asks, **how)
    assert about["kind"] == model.kind
    assert len(of(events, "answer")) == len(of(events, "reversal")) == len(of(events, "done")) == 1
    assert bool(of(events, "trust")) == model.traits.trust


def test_the_package_does_without_its_rivals(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["fcfg.rivals"] = None
import fcfg, pytest
from fcfg.cli import main
from fcfg.model import parse_setting
from fcfg.storage.kinds import find_kind
from fcfg.training import read_config
model = fcfg.load("portraits")
faces = fcfg.datasets.portraits.sample(1, seed=7)
pair = model.counterfactual(faces.images, faces.attributes, {"male": "flip"}, sampling=2)
model.save(sys.argv[1])
again = fcfg.load(sys.argv[1])
assert (again.reverse(pair).images == model.reverse(pair).images).all()
assert read_config("portraits").model.kind == "diffusion"
for ask in (lambda: find_kind("hvae", "x"), lambda: parse_setting("temperature:1")):
    with pytest.raises(fcfg.InputError):
        ask()
assert main(["evaluate", "--list", sys.argv[1]]) == 0
print("done")
"""
    command = [sys.executable, "-c", code, str(tmp_path / "model")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout.endswith("done\n"), ran.stderr
