"""Answers of the studio: those of the library, computed once, and stopped when unwanted."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

import fcfg
from fcfg.answers import Memory
from fcfg.cli import main
from fcfg.datasets import portraits
from fcfg.generation import sample_pictures
from fcfg.model.thresholds import Thresholds
from fcfg.studio.answers import Answers
from fcfg.studio.app import Studio
from fcfg.studio.engine import Job
from fcfg.studio.models import as_studio_models, choose_execution, seconds_of_work
from fcfg.studio.pictures import find_samples, read_upload
from fcfg.studio.questions import Question, prepare_question
from fcfg.support.images import images_to_bytes
from laws import shift
from refusal import refused
from studios import FACTUAL, ask, client_of, of, picture_in, pixels_of, png, studio_of, upload
from tiny import tiny_pipeline


@pytest.fixture(scope="module")
def drawn() -> Iterator[TestClient]:
    """The shipped model; few steps keep the tests short."""
    models = as_studio_models([("portraits", fcfg.load("portraits").prepare())])
    with client_of(Studio(models)) as client:
        yield client


def test_events_come_in_order_and_progress_only_grows(client: TestClient) -> None:
    events = ask(client, upload(client), trust=True, reverse=True, guidance="cfg:2")
    kinds = [event["type"] for event in events if event["type"] != "progress"]
    assert kinds[:4] == ["started", "answer", "trust", "reversal"]
    assert kinds[-1] == "done"
    shares = [event["share"] for event in of(events, "progress")]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] == 1
    phases = list(dict.fromkeys(event["phase"] for event in of(events, "progress")))
    assert phases == ["abduction", "prediction", "trust", "reversal"]


def test_previews_lead_from_the_picture_to_the_answer(drawn: TestClient, monkeypatch) -> None:
    monkeypatch.setattr("fcfg.studio.answers._BETWEEN", 0.0)  # all of them, on a fast machine, too
    factual = drawn.get("/api/samples").json()["samples"][0]["attributes"]
    body = {"attributes": factual, "do": {"young": "flip"}, "truth": True}
    events = ask(drawn, "s0", **body, sampling="dpm-2m uniform 6")
    shown = [picture_in(e["image"]) for e in of(events, "progress") if "image" in e]
    (answer,), (truth,) = of(events, "answer"), of(events, "truth")
    start, end = pixels_of(drawn.get("/api/images/s0.png").content), picture_in(answer["image"])
    distances = [np.abs(image - end).mean() for image in (start, *shown)]
    assert len(shown) >= 3
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.5 * distances[0]
    # The truth is the drawing of the same person, and nearer to the answer than the picture is.
    face = portraits.sample(12, portraits.EVALUATION_SEED)
    target = portraits.counterfactual(face, {"young": 1 - factual["young"]}).images[:1]
    wanted = np.asarray(fcfg.to_pictures(target)[0]).astype(int)
    assert np.array_equal(picture_in(truth["image"]), wanted)
    errors = [np.abs(image - wanted).mean() / 127.5 for image in (end, start)]
    assert truth["error"] == pytest.approx(errors[0], abs=0.005)
    assert truth["error"] < errors[1]


def rows_of(model: Any) -> list[int]:
    """Network rows that a model evaluates from now on, one entry per call."""
    rows: list[int] = []
    model.denoiser.network.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[2])))
    return rows


def test_abduction_and_factual_branch_are_computed_once_for_all_questions_of_a_picture() -> None:
    model = tiny_pipeline()
    rows, spent = rows_of(model), list[int]()
    with client_of(studio_of(model)) as client:
        image, how = upload(client), {"sampling": "dpm-2m uniform 6"}

        def cost(guidance: str, **question: Any) -> int:
            before = sum(rows)
            (answer,) = of(ask(client, image, guidance=guidance, **how, **question), "answer")
            spent.append(answer["evaluations"])
            return sum(rows) - before

        assert cost("contrast:1.0;anchor=true") == spent[0]  # everything
        # 6 steps of 2 rows: the weight, the target and other guidance need no new abduction.
        assert cost("contrast:2.0;anchor=true") == 12
        assert cost("contrast:2.0;anchor=true", do={"age": "+5"}) == 12
        assert cost("cfg:2") == 12
        # Drawn noise serves such questions only: 6 steps of 3 rows, then 2 with the factual ones.
        assert cost("contrast:2.0;anchor=true;drawn_noise=true") == 18
        assert cost("contrast:1.5;anchor=true;drawn_noise=true") == 12
        assert cost("contrast:1.5;anchor=true") == 12
        # The same question again needs no network at all, and has the same answer.
        before = ask(client, image, **how, guidance="cfg:2")
        assert cost("cfg:2") == 0
        assert ask(client, image, **how, guidance="cfg:2") == before
        # Other factual attributes, and other pictures, have abductions of their own.
        assert cost("cfg:2", attributes={**FACTUAL, "age": 41.0}) > 12
        image = upload(client, seed=1)
        assert cost("cfg:2") > 12


def test_caches_of_answers_are_bounded() -> None:
    answers = Answers(Memory(24_000), Memory(20_000))
    with client_of(studio_of(tiny_pipeline(), answers=answers)) as client:
        for seed in range(6):
            ask(client, upload(client, seed), sampling="ddim uniform 3")
    for memory, most in ((answers.abductions, 24_000), (answers.finished, 20_000)):
        assert 0 < memory.size <= most
        assert len(memory) < 6


def test_an_unwanted_answer_ends_at_the_next_step() -> None:
    model = tiny_pipeline()
    rows, events, answers = rows_of(model), list[Any](), Answers()
    (asked,) = as_studio_models([("m", model)])
    how = {"guidance": "cfg:2", "sampling": "ddim uniform 50"}
    question = Question(image="x", attributes=FACTUAL, do={"smiling": 1}, **how)

    def emit(event: Any) -> None:
        events.append(event)
        if event and event.get("share", 0) > 0.2:
            job.stopped.set()

    prepared = prepare_question(question, asked, read_upload(png(), asked))
    job = Job("a", lambda job: answers.answer(prepared, job), emit)
    job.run()
    assert events[-2:] == [{"type": "cancelled"}, None]
    assert of(events[:-1], "answer") == []
    assert sum(rows) < 0.3 * 50 * (prepared.plan.rows + 1)
    assert len(answers.finished) == 0


def taken_along(event: dict[str, Any], out: Path) -> list[np.ndarray]:
    """The answers of the Python and of the command that the page shows, in this folder."""
    exec(event["python"], {})
    assert main([*shlex.split(event["command"])[1:], "--out", str(out)]) == 0
    files = Path("counterfactual.png"), out / "picture-counterfactual.png"
    return [pixels_of(file.read_bytes()) for file in files]


def test_the_record_and_the_trust_are_those_of_generate(drawn, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("picture.png").write_bytes(drawn.get("/api/images/s3.png").content)
    factual = drawn.get("/api/samples").json()["samples"][3]["attributes"]
    body = {"attributes": factual, "do": {"smiling": "flip"}, "trust": True, "reverse": True}
    events = ask(drawn, "s3", **body, sampling="dpm-2m uniform 4")
    (done,), (trust, *_), (answer,) = (of(events, kind) for kind in ("done", "trust", "answer"))
    for taken in taken_along(done, tmp_path / "out"):
        assert np.abs(taken - picture_in(answer["image"])).max() <= 1
    record = json.loads(Path("out/record.json").read_bytes())
    (entry,), own = record["images"], done["record"]
    for name in ("do", "guidance", "groups", "solver", "grid", "steps", "seed", "precision"):
        assert own[name] == record[name], name
    for name in ("factual", "counterfactual", "network_rows", "reasons", "key"):
        assert own[name] == entry[name], name
    assert answer["change"] == own["change"] == pytest.approx(entry["change"], rel=1e-4)
    assert answer["evaluations"] == entry["network_rows"]["counterfactual"]
    assert trust["signals"] == pytest.approx(entry["signals"], abs=1e-3)
    assert trust["trusted"] is (not entry["reasons"])


@pytest.mark.parametrize("kind", ["tiny", "shift"])
def test_an_upload_is_answered_as_by_the_python_and_the_command(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fcfg.save({"tiny": tiny_pipeline, "shift": shift}[kind](), kind)
    asked = {"do": {"age": 60, "hair": "red"}, "guidance": "fcfg:affected=2,invariant=1"}
    if kind == "shift":
        asked = {"do": {"male": 0}, "attributes": {"smiling": 0, "male": 1, "young": 1}}
    with client_of(Studio(as_studio_models([(kind, fcfg.load(kind).prepare())]))) as client:
        (about,) = client.get("/api/model").json()["models"]
        image = upload(client, seed=5)
        events = ask(client, image, **asked, trust=True, reverse=True, truth=True)
        Path("picture.png").write_bytes(client.get(f"/api/images/{image}.png").content)
    for taken in taken_along(events[-1], tmp_path / "out"):
        assert np.abs(taken - picture_in(of(events, "answer")[0]["image"])).max() <= 1
    if kind == "shift":
        assert (about["kind"], about["rules"], about["trust"]) == ("shift", [], False)
        assert about["defaults"]["male"]["sampling"] is None
        kinds = [event["type"] for event in events if event["type"] != "progress"]
        assert kinds == ["started", "answer", "reversal", "done"]
        assert "--sampling" not in events[-1]["command"]


def test_doubts_follow_the_thresholds_and_the_way_back(client: TestClient) -> None:
    sampling, guidance = "dpm-2m karras 12", ("none;anchor=true",)
    how = {"share": 0.01, "images": 2, "references": 2, "limits": {"loss 0.1": -1e9}}
    (trust,) = of(ask(client, upload(client), trust=True), "trust")
    assert "gross errors" in trust["unchecked"]  # without thresholds
    model = tiny_pipeline()
    model.thresholds = Thresholds(model="", sampling=sampling, guidance=guidance, **how)
    with client_of(studio_of(model)) as doubter:
        known = {"guidance": "contrast:1;anchor=true", "sampling": sampling}
        (trust,) = of(ask(doubter, upload(doubter), trust=True, **known), "trust")
        assert trust["unchecked"] is None
        (trust,) = of(ask(doubter, upload(doubter), trust=True), "trust")
        assert "errors of the prediction are not checked" in trust["unchecked"]
        assert trust["trusted"] is False
        assert "off the manifold" in trust["reasons"]
        # A way back that errs more than the answer changes is a doubt that comes later.
        asked = {"trust": True, "reverse": True, "guidance": "cfg:40"}
        events = ask(doubter, upload(doubter, 1), **asked, sampling="ddim uniform 2")
        first, last = of(events, "trust")
        assert set(first["reasons"]) < set(last["reasons"])
        assert of(events, "done")[0]["record"]["reasons"] == last["reasons"]


def test_the_page_learns_all_about_the_model(client: TestClient, drawn: TestClient) -> None:
    body = {"image": upload(client), "attributes": FACTUAL, "do": {"age": 90}}
    told, model = client.post("/api/act", json=body).json(), tiny_pipeline()
    assert (told["affected"], told["invariant"]) == (["age", "hair"], ["smiling"])
    wanted = model.plan(["age"])
    assert told["default"]["guidance"] == repr(wanted.setting)
    assert told["default"]["sampling"] == str(wanted.sampling)
    (about,) = client.get("/api/model").json()["models"]
    assert about["parameters"] == model.parameters
    assert about["graph"] == {"smiling": [], "age": [], "hair": ["age"]}
    kinds = {entry["name"]: entry["kind"] for entry in about["attributes"]}
    assert kinds == {"smiling": "binary", "age": "continuous", "hair": "categorical"}
    assert "no medical use" in about["notice"]
    for rule in about["rules"]:  # each is a rule that a question can name
        weights = "affected=1,invariant=1" if rule.startswith("f") else "0.5"
        model.parse_setting(rule if rule == "none" else f"{rule}:{weights}")
    assert (about["truth"], client.get("/api/samples").json()["samples"]) == (False, [])


def test_drawings_are_those_of_the_seed_that_nobody_was_trained_on(drawn: TestClient) -> None:
    (about,) = drawn.get("/api/model").json()["models"]
    assert about["truth"] is True
    samples = drawn.get("/api/samples").json()["samples"]
    faces = portraits.sample(len(samples), portraits.EVALUATION_SEED)
    for row, sample in enumerate(samples):
        assert sample["attributes"]["male"] == faces.attributes["male"][row]
        pixels = torch.from_numpy(pixels_of(drawn.get(sample["image"]).content)).permute(2, 0, 1)
        assert torch.equal(pixels, images_to_bytes(faces.images[row]).int())
        for reading in sample["readings"].values():
            assert reading["sure"] == (float(reading["text"]) >= 0.8) or reading["text"] == "0.80"


def test_a_model_of_real_images_brings_its_pictures_and_its_words() -> None:
    (model,) = as_studio_models([("radiographs", fcfg.load("radiographs"))])
    about = model.describe()
    words = {entry["name"]: entry.get("words") for entry in about["attributes"]}
    assert words["sex"] == ["female", "male"]
    assert words["effusion"] is None  # no and yes
    assert about["truth"] is False
    pictures, shipped = find_samples(model), sample_pictures(model.model)
    assert shipped is not None
    assert {str(each.picture.path) for each in pictures} == {f"picture {n}" for n in range(12)}
    first = pictures[0]  # which the judge reads rightly
    readings = {name: reading["value"] for name, reading in first.readings.items()}
    assert {**readings, "age": 0} == {**first.attributes, "age": 0}
    assert abs(readings["age"] - first.attributes["age"]) <= 10
    for picture in pictures:
        row = int(picture.id[1:])
        assert torch.equal(picture.image[0], shipped.images[row])
        assert picture.attributes["sex"] == shipped.attributes["sex"][row]
        assert picture.readings["view"]["value"] in (0, 1)


@pytest.mark.parametrize("name", ["portraits", "portraits-causal", "digits", "radiographs"])
def test_the_answer_that_comes_with_a_model_is_its_own(name: str) -> None:
    (model,) = as_studio_models([(name, fcfg.load(name))])
    (picture, *_), opening = find_samples(model), model.opening
    assert opening is not None, "run python studies/opening_answers.py"
    asked = {"attributes": picture.attributes, "do": opening.asked["do"]}
    about = {"image": opening.asked["image"], **asked}
    question = prepare_question(Question(**about), model, picture)
    assert question.opening == opening.image, "run python studies/opening_answers.py"
    with client_of(Studio((model,))) as client:
        first, *events = ask(client, picture.id, **asked)
    assert first == {"type": "opening", "image": opening.image}
    (answer,) = of(events, "answer")
    assert not any("image" in event for event in of(events, "progress"))  # which are coarser
    assert np.abs(picture_in(answer["image"]) - picture_in(opening.image)).max() <= 1  # of 255
    assert prepare_question(Question(**about, seed=1), model, picture).opening is None
    assert list(model.phrases.root) == list(model.model.space.names)


def test_what_comes_beside_a_model_is_refused_before_the_studio_starts(tmp_path: Path) -> None:
    """But an answer of other weights is only not shown."""
    model = tiny_pipeline()
    model.folder = tmp_path
    opening = {"weights": "0", "asked": {}, "image": "data:image/png;base64,AA=="}
    (tmp_path / "opening.json").write_text(json.dumps(opening))
    assert as_studio_models([("tiny", model)])[0].opening is None
    for file, content, complaint in (
        ("words.json", {"smile": ["no", "yes"]}, "'smiling'?"),
        ("words.json", {"sex": ["female"]}, "'sex.1'"),
        ("words.json", ["sex"], "a mapping"),
        ("phrases.json", {"smiling": 3}, "smiling"),
        ("phrases.json", {"smile": ["no", "yes"]}, "smile"),
        ("phrases.json", {"age": ["young", "old"]}, "age"),
    ):
        (tmp_path / "words.json").unlink(missing_ok=True)
        (tmp_path / file).write_text(json.dumps(content))
        refused(file, complaint).by(as_studio_models, [("tiny", model)])


def test_models_are_compared_on_the_same_picture_of_the_same_data() -> None:
    second = tiny_pipeline()
    for parameter in second.denoiser.network.parameters():
        parameter.data *= 1.1
    with client_of(studio_of(tiny_pipeline(), second)) as client:
        names = [model["name"] for model in client.get("/api/model").json()["models"]]
        assert names == ["model0", "model1"]
        image = upload(client)
        pictures = [of(ask(client, image, model=name), "answer")[0]["image"] for name in names]
        default = of(ask(client, image), "answer")[0]["image"]
    assert pictures[0] == default != pictures[1]
    for first, other in ((tiny_pipeline(), shift()), (tiny_pipeline(3), tiny_pipeline(1))):
        models = [("a", first), ("b", other)]
        refused("model b").by(as_studio_models, models)
    models = as_studio_models([("a/x", tiny_pipeline()), ("b/x", tiny_pipeline())], public=True)
    assert [model.name for model in models] == ["x", "x-2"]
    assert [model.source for model in models] == ["x", "x"]  # no paths for strangers


def test_threads_and_precision_are_the_fastest_that_were_tried(monkeypatch) -> None:
    model, threads = tiny_pipeline(), torch.get_num_threads()
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(4))
    gain = {"float32": 1.0}

    def work(model: Any) -> float:
        return abs(torch.get_num_threads() - 2.5) / gain[model.execution.on("cpu").precision]

    monkeypatch.setattr("fcfg.studio.models.seconds_of_work", work)
    try:
        for gain["bf16"], budget, wanted in (
            (2.0, 9.0, (2, "bf16")),
            (1.2, 9.0, (2, "float32")),
            (2.0, 0.0, (1, "float32")),  # no time left: the first of each
        ):
            monkeypatch.setattr("fcfg.studio.models._BUDGET", budget)
            assert (choose_execution(model), model.execution.on("cpu").precision) == wanted
        choose_execution(model, "float32")
        assert model.execution.precision == "float32"
    finally:
        torch.set_num_threads(threads)
    assert choose_execution(model.to("meta")) == torch.get_num_threads()

    rows = rows_of(model := tiny_pipeline())
    assert 0 < seconds_of_work(model) < 10
    assert len(rows) >= 4  # a whole question
    assert seconds_of_work(shift()) > 0
