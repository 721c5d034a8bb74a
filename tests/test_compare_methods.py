"""Of every method, the sampling and the variant that suit a model best are found and kept."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

import fcfg
from evaluations import tiny_model
from fcfg.calibration import METHODS, Tried, choose_images
from fcfg.calibration.methods import candidates
from fcfg.cli import main
from fcfg.guidance import Guidance
from fcfg.metrics import image_errors, image_mae
from fcfg.pipeline.methods import Methods
from fcfg.sampling import as_sampling
from refusal import refused, refused_line
from test_calibration import REAL, halves, real_images, shrunk

SAMPLINGS = ("ddim uniform 2", "dpm-2m karras 3")
WEIGHTS = (0.5, 1.5, 2.5)


def compared(pipeline: fcfg.CounterfactualPipeline, **options: Any) -> Methods:
    """Of a world whose network underestimates what attributes do."""
    images, attributes = real_images(options.pop("images", 40))
    values = {"methods": ["contrast plain"], "samplings": SAMPLINGS, "weights": WEIGHTS}
    return fcfg.compare_methods(pipeline, images, attributes, **values | options)


def truth(do: dict[str, np.ndarray]) -> Tensor:
    """The true counterfactuals in that world."""
    images, own = real_images(40)
    before, after = (halves(REAL)[2 * v["smiling"] + v["male"]] for v in (own, own | do))
    return (images - before + after).clamp(-1, 1)


def test_every_candidate_can_be_read_and_variants_change_their_options() -> None:
    every = candidates(METHODS)
    assert list(every) == list(METHODS)
    for name, own in every.items():
        assert len(set(own)) == len(own)
        for each in own:
            assert str(as_sampling(each.sampling)) == each.sampling
            changed = each.guidance != Guidance.parse(each.published)
            assert (each.method, changed) == (name, bool(each.variant))
    few = candidates(["SDEdit", "FlowEdit", "SDEdit"], ["ddim uniform 2"])
    assert {name: len(own) for name, own in few.items()} == {"SDEdit": 1, "FlowEdit": 5}


@pytest.mark.parametrize("known", [None, truth])
def test_the_best_is_that_of_separate_calibrations(known: Any) -> None:
    images, attributes = real_images(40)
    pipeline, tried = shrunk(), list[Tried]()
    found = compared(pipeline, truth=known, on_tried=tried.append)
    assert pipeline.methods == found
    assert found.criterion == ("distance" if known is None else "change")
    for each in tried:
        own, method, sampling = shrunk(), each.method, each.candidate.sampling
        how: dict[str, Any] = {"guidance": each.candidate.guidance, "sampling": sampling}
        how |= {"weights": WEIGHTS, "truth": known, "accept": True, "at_least_real": False}
        record = fcfg.calibrate(own, images, attributes, **how)
        assert record.rule == method.guidance
        for name, calibrated in record.attributes.items():
            estimate, target = method.weights[name], {name: 1 - attributes[name]}
            assert estimate.model_dump().items() <= calibrated.model_dump().items()
            rule, before = method.guidance_for(name), images.clamp(-1, 1)
            pair = own.counterfactual(images, attributes, target, guidance=rule, sampling=sampling)
            error = distance = image_mae(pair.images, before).mean()
            if known is not None:
                made = image_errors(pair.images, truth(target), before)
                error = made.missed.sum() / made.changed.sum()
            assert method.errors[name] == pytest.approx(error, abs=1e-6)
            assert method.distances[name] == pytest.approx(distance, abs=1e-6)
            assert method.rows == pair.evaluations
    assert len({(own.candidate.variant, own.candidate.sampling) for own in tried}) == 4
    best = min(tried, key=lambda each: np.mean(list(each.method.errors.values())))
    assert found.methods == {"contrast plain": best.method}
    assert best.method.published == "contrast:3.0"


def test_a_weight_at_the_end_loses_to_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers are nearer to the images, because they change too little."""
    monkeypatch.setattr("fcfg.calibration.material._ROUNDS", (1.0,))  # nothing beyond the end
    tried: list[Tried] = []
    options = {"samplings": ["ddim uniform 10"], "weights": (0.5, 1.0, 2.2)}
    found = compared(shrunk(), on_tried=tried.append, **options)
    whole, part = tried
    assert (whole.method.at_end, part.method.at_end) == ((), ("smiling", "male"))
    assert part.method.error < whole.method.error
    assert found.methods == {"contrast plain": whole.method}
    both = found.model_copy(update={"methods": {"a": part.method, "b": whole.method}})
    assert both.best == "b"


def test_a_part_of_the_images_chooses_what_all_of_them_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fcfg.calibration.search.FEWEST", 8)
    tried, shares = list[Tried](), list[float]()
    found = compared(shrunk(), on_tried=tried.append, on_progress=shares.append)
    assert [each.images for each in tried] == [10] * 4 + [40] * 3
    first = sorted(tried[:4], key=lambda each: each.method.rank)
    assert [each.candidate for each in tried[4:]] == [each.candidate for each in first[:3]]
    best = min(tried[4:], key=lambda each: each.method.rank)
    assert found.methods == {"contrast plain": best.method}
    assert found.images == 40
    assert shares == sorted(shares)
    assert (shares[0] < 0.1, shares[-1]) == (True, 1.0)
    few = compared(shrunk(), samplings=SAMPLINGS[:1], on_tried=tried.append)
    assert [each.images for each in tried[7:]] == [40, 40]  # nothing to leave out
    assert few.methods["contrast plain"].sampling == SAMPLINGS[0]


def test_an_interrupted_search_resumes_and_measures_nothing_twice(tmp_path: Path) -> None:
    pipeline = shrunk()
    network, options = pipeline.denoiser.network, {"cache": tmp_path, "truth": truth}
    whole, tried = compared(pipeline, truth=truth), list[Tried]()
    spent = network.rows

    def stop(share: float) -> None:
        if share > 0.6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compared(pipeline, **options, on_progress=stop, on_tried=tried.append)
    assert len(tried) == 2
    begun = network.rows - spent
    again = compared(pipeline, **options, batch_size=100)
    assert again == whole
    assert network.rows - spent - begun < spent - 0.9 * begun
    before = network.rows
    assert compared(pipeline, **options, on_tried=tried.append) == whole
    assert network.rows == before
    assert [each.candidate for each in tried[:2]] == [each.candidate for each in tried[2:4]]
    assert compared(pipeline, **options | {"truth": None}).criterion == "distance"
    assert compared(pipeline, **options, seed=1) != whole


def test_what_a_model_cannot_do_is_left_out_and_said() -> None:
    pipeline = shrunk()
    how = {"samplings": ["dpm-2m karras 3"], "methods": ["null-text", "contrast plain"]}
    with pytest.warns(UserWarning, match="not possible with this model: null-text under 'dpm-2m"):
        found = compared(pipeline, **how)
    assert list(found.methods) == ["contrast plain"]
    with pytest.warns(UserWarning, match="null-text"), refused("methods", "got 'null-text'"):
        compared(pipeline, **how | {"methods": ["null-text"]})
    before = pipeline.denoiser.network.rows
    refused("methods", "mean 'SDEdit'").by(compared, pipeline, methods=["SDedit"])
    refused("methods").by(compared, pipeline, methods=[])
    refused("weights").by(compared, pipeline, weights=[1.0])
    refused("sampling").by(compared, pipeline, samplings=["dmp-2m"])
    assert pipeline.denoiser.network.rows == before


def test_a_model_keeps_its_methods_and_an_edited_record_is_refused(tmp_path: Path) -> None:
    pipeline = tiny_model(saved=True)
    drawn = choose_images(pipeline, 16)
    about = {"count": drawn.count, "truth": drawn.truth, "data": drawn.data}
    how = {"samplings": ["ddim uniform 2"], "weights": (1.0, 2.0), "methods": ["SDEdit"]}
    found = fcfg.compare_methods(pipeline, drawn.images, drawn.attributes, **about, **how)
    assert pipeline.calibration is None
    fcfg.save(pipeline, tmp_path)
    assert fcfg.load(tmp_path).methods == found
    file = tmp_path / Methods.file
    file.write_text(file.read_text().replace("SDEdit", "FlowEdit"))
    refused("methods", "got an edited one").by(fcfg.load, tmp_path)


@pytest.mark.filterwarnings("default:not possible with this model")
def test_the_command_makes_the_best_method_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fcfg.save(tiny_model(saved=True), "tiny")
    words = ["calibrate", "tiny", "--images", "16", "--device", "cpu", "--weights", "1,2"]
    words += ["--methods", "null-text, contrast plain,SDEdit", "--sampling", "dpm-2m karras 3"]
    assert main([*words, "--accept"]) == 0
    out, said = capsys.readouterr()
    assert "fcfg: warning: not possible with this model: null-text under 'dpm-2m karras 3'" in said
    model = fcfg.load("tiny")
    assert set(model.methods.methods) == {"contrast plain", "SDEdit"}
    best = model.methods.methods[model.methods.best]
    assert (model.calibration.rule, model.calibration.sampling) == (best.guidance, best.sampling)
    for name, own in best.weights.items():
        assert model.calibration.attributes[name].weight == own.weight
        assert f"{own.weight:g}" in out
    assert out.startswith("16 images, 3 methods, on cpu\n")
    assert f"{model.methods.best} " in out.split("rows")[1].splitlines()[2]  # the first row
    assert "may lie beyond the last one measured.\n" in out  # the model is not trained
    lines = list(csv.DictReader(Path("tiny/methods.csv").read_text("utf-8").splitlines()))
    assert len(lines) == 3 * (2 + 1)
    assert {line["images"] for line in lines} == {"16"}
    line = next(
        line for line in lines if (line["method"], line["attribute"]) == ("SDEdit", "male")
    )
    own = model.methods.methods["SDEdit"]
    assert float(line["error"]) == pytest.approx(own.errors["male"], rel=1e-4)
    words[-3] = "contrast plain,SDEdit"
    assert main([*words, "--out", "elsewhere"]) == 0
    assert {"methods.json", "methods.csv"} < {path.name for path in Path("elsewhere").iterdir()}
    assert main([*words, "--out", "elsewhere", "--seed", "1"]) == 2
    for option, value in (("methods", "SDedit"), ("guidance", "cfg:1")):
        refused_line([*words, f"--{option}", value], option, capsys)
