"""Weights are chosen so that counterfactuals read like real images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import fcfg
from evaluations import SIZE, calibration_of, folder_model, tiny_model
from fcfg import AttributeJudge, Calibration, Guidance, Judge, JudgeConfig, NoiseSchedule
from fcfg.calibration import choose_images
from fcfg.calibration.run import RAISING
from fcfg.cli import main
from fcfg.cli.calibrate import print_calibration
from fcfg.datasets.portraits.data import VALIDATION_SEED
from fcfg.pipeline.calibration import Direction
from fcfg.pipeline.counterfactual import CounterfactualPipeline
from fcfg.pipeline.plans import DEFAULT_GUIDANCE
from fcfg.sampling import PRESETS
from refusal import refused, refused_line, typed
from worlds import SHAPE, MixtureNetwork, pipeline_of

SPREAD = 0.1
REAL = torch.tensor([0.3, 0.2], dtype=torch.float64)  # half the distance of the two values
RIGHT = {"smiling": 1.5, "male": 2.0}  # how much too small the network thinks that distance is

CONTRAST = Guidance.parse("contrast:1;anchor=true")


class HalvesJudge(Judge):
    """Reads the mean of the upper half of an image as smiling, that of the lower as male."""

    def __init__(self) -> None:
        super().__init__(JudgeConfig(channels=1, outputs=2, width=4))
        self.head = torch.nn.Linear(2, 2, bias=False).double()
        self.head.weight.data = 20 * torch.eye(2, dtype=torch.float64)
        self.double()

    def features(self, images: Tensor) -> Tensor:
        return images.unflatten(2, (2, -1)).mean(dim=(1, 3, 4))


def halves(size: Tensor) -> Tensor:
    """Means of the images with each combination of two values, one in each half."""
    signs = torch.tensor([[-1, -1], [-1, 1], [1, -1], [1, 1]], dtype=torch.float64)
    return (signs * size)[:, None, :, None].repeat_interleave(2, 2).expand(4, *SHAPE)


def shrunk() -> CounterfactualPipeline:
    """A world of two Gaussian halves, with a network that underestimates what attributes do.

    Contrast of weight w moves an image by w times the network's distance of the values, so that
    the right weight is the ratio of the real distance and the network's.
    """
    schedule = NoiseSchedule()
    ratios = torch.tensor(list(RIGHT.values()), dtype=torch.float64)
    prior = torch.full((4,), 0.25, dtype=torch.float64)
    network = MixtureNetwork(halves(REAL / ratios), prior, SPREAD, schedule)
    pipeline = pipeline_of(network, schedule, 2)
    pipeline.judge = AttributeJudge(HalvesJudge(), pipeline.space)
    return pipeline


def real_images(n: int, seed: int = 0) -> tuple[Tensor, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    values = np.stack([np.arange(n) % 2, np.arange(n) // 2 % 2], axis=1)
    noise = SPREAD * torch.from_numpy(rng.standard_normal((n, *SHAPE)))
    images = halves(REAL)[values @ [2, 1]] + noise
    return images, {"smiling": values[:, 0], "male": values[:, 1]}


def chosen(pipeline: CounterfactualPipeline, **options: Any) -> Calibration:
    images, attributes = real_images(options.pop("images", 80))
    values = {"sampling": "dpm-2m karras 12", "count": 40, "guidance": CONTRAST} | options
    return fcfg.calibrate(pipeline, images, attributes, **values)


@pytest.fixture(scope="module")
def found() -> Calibration:
    return chosen(shrunk())


def test_calibrated_weights_are_the_default_of_the_pipeline(found) -> None:
    pipeline = shrunk()
    before = pipeline.plan(["smiling"]).setting
    assert chosen(pipeline) == pipeline.calibration == found
    assert pipeline.plan(["smiling"]).setting == found.guidance(["smiling"]) != before


def test_the_weight_is_the_one_that_makes_up_for_what_the_network_underestimates(found) -> None:
    assert found.guidance(["smiling"]).name == "contrast"
    for name, right in RIGHT.items():
        own = found.attributes[name]
        assert own.low <= right <= own.high
        assert own.weight == pytest.approx(right, abs=0.1)
        assert own.high - own.low < 0.3
        assert own.off_target < 0.01  # the other half stays as it is
        assert not own.directions_differ
        assert list(own.directions) == ["to 0", "to 1"]
        for side in own.directions.values():
            assert side.images == 20
            assert side.low <= right <= side.high
            assert side.read == pytest.approx(side.real, abs=0.4)
        assert [weight for weight, _, _ in own.curve] == [0.5, 1.0, 1.5, 2.0, 3.0]
        assert own.truth == {}


def test_every_rule_with_a_weight_for_the_target_finds_the_same_and_more_images_say_more(
    found,
) -> None:
    """Without anchor as well; contrast over groups is contrast here, where they do not mix."""
    for text in ("fcontrast:affected=2,invariant=1;anchor=true", "fcontrast:smiling=1,male=1"):
        other = chosen(shrunk(), guidance=Guidance.parse(text))
        for name, own in found.attributes.items():
            assert other.attributes[name].weight == pytest.approx(own.weight, abs=0.1)
    assert other.rule == "fcontrast:smiling=1.0,male=1.0"
    smiling, male = (other.attributes[name].weight for name in RIGHT)
    assert dict(other.guidance(["male", "smiling"]).weights) == {"smiling": smiling, "male": male}
    assert dict(other.guidance(["male"]).weights) == {"smiling": 1.0, "male": male}
    more = chosen(shrunk(), images=300, count=150)
    for name, own in found.attributes.items():
        assert more.attributes[name].high - more.attributes[name].low < own.high - own.low
        assert more.attributes[name].weight == pytest.approx(RIGHT[name], abs=0.05)


def test_the_truth_chooses_the_weight_too_where_it_is_known() -> None:
    images, attributes = real_images(80)
    values = np.stack(list(attributes.values()), axis=1)

    def truth(do: dict[str, np.ndarray]) -> Tensor:
        set_to = np.stack([do.get(name, attributes[name][:40]) for name in attributes], axis=1)
        means = halves(REAL)
        return images[:40] - means[values[:40] @ [2, 1]] + means[set_to @ [2, 1]]

    weights = (1.0, 1.25, 1.5, 1.75, 2.0, 2.25)
    found = chosen(shrunk(), truth=lambda do: truth(do).clamp(-1, 1), weights=weights)
    for name, right in RIGHT.items():
        assert list(found.attributes[name].truth) == ["reading", "mae", "change"]
        for weight in found.attributes[name].truth.values():
            assert weight == pytest.approx(right, abs=0.1)


@pytest.mark.parametrize("weights", [(0.5, 1.0), (3.5, 5.0)])
def test_the_search_goes_on_beyond_its_ends(weights: tuple[float, ...], tmp_path: Path) -> None:
    pipeline, shares = shrunk(), list[float]()
    options = {"weights": weights, "cache": tmp_path}
    found = chosen(pipeline, **options, on_progress=shares.append)
    assert found.doubts == []
    for name, right in RIGHT.items():
        own = found.attributes[name]
        measured = [weight for weight, *_ in own.curve]
        assert set(weights) < set(measured)
        assert measured == sorted(measured)
        assert min(measured) < right < max(measured)
        assert own.weight == pytest.approx(right, abs=0.3)  # between few weights
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    before = pipeline.denoiser.network.rows
    assert chosen(pipeline, **options) == found
    assert pipeline.denoiser.network.rows == before  # nothing beyond is measured twice


def test_a_pipeline_keeps_its_default_where_a_calibration_is_in_doubt() -> None:
    small, last = {"weights": (0.005, 0.01)}, {"weights": (0.5, 1.0)}
    last["guidance"] = Guidance.parse("cfg++:0;raw=true")  # which has no larger ones
    few, best = {"images": 20, "count": 14}, r"do\(male\): the best weight may lie beyond"
    for asked, doubt, measured in (
        (small, f"{best} 0\\.0338, the last one measured", (0.005, 0.01, 0.015, 0.0225, 0.03375)),
        (last, f"{best} 1, ", (0.5, 1.0)),
        (few, "fewer than 8 images in each direction", (0.5, 1.0, 1.5, 2.0, 3.0)),
    ):
        pipeline, options = shrunk(), {"sampling": "ddim uniform 2"} | asked
        before = pipeline.calibration = calibration_of(pipeline, smiling=1.25, male=1.25)
        with pytest.warns(UserWarning, match=doubt):
            found = chosen(pipeline, **options)
        assert pipeline.calibration is before
        for own in found.attributes.values():
            assert tuple(weight for weight, *_ in own.curve) == measured
        assert chosen(pipeline, **options, accept=True) == pipeline.calibration == found


def test_batches_do_not_matter_and_a_resumed_calibration_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, options = shrunk(), {"sampling": "dpm-2m karras 4", "count": 24}
    network = pipeline.denoiser.network
    whole, spent = chosen(pipeline, **options), network.rows

    def stop(share: float) -> None:
        if share > 0.4:
            raise KeyboardInterrupt

    monkeypatch.setattr("fcfg.calibration.material._BLOCK", 10)
    options["cache"] = tmp_path
    with pytest.raises(KeyboardInterrupt):
        chosen(pipeline, **options, on_progress=stop)
    begun = list(tmp_path.rglob("*.safetensors"))
    assert 0 < len(begun) < 30
    begun[0].write_bytes(begun[0].read_bytes()[:-9])  # a disk that was full
    earlier = load_file(begun[1])
    del earlier["rows"]
    save_file(earlier, begun[1])  # of an earlier version
    shares: list[float] = []
    again = chosen(pipeline, **options, batch_size=7, on_progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert network.rows < 2.6 * spent
    for name, own in whole.attributes.items():
        other = again.attributes[name]
        assert (own.weight, own.low, own.high) == (other.weight, other.low, other.high)
        np.testing.assert_allclose(own.curve, other.curve, atol=1e-9)
    before = network.rows
    assert chosen(pipeline, **options) == again
    assert network.rows == before  # nothing was left to measure
    chosen(pipeline, **options, weights=(1.0, 1.5, 2.5))
    assert 0 < network.rows - before < spent / 2  # only the new weight


def test_no_network_is_asked_for_what_is_wrong() -> None:
    pipeline, moving = shrunk(), Guidance.cfg(lambda share: 1 + share)
    for subject, name, *values in (
        ("weights", "weights", (1.0,), (2.0, 1.0), (-1.0, 1.0)),
        ("guidance none", "guidance", Guidance.none()),
        ("guidance fcfg:a=1.0,b=1.0", "guidance", Guidance.fcfg(a=1, b=1)),
        *(("guidance 'cfg:<", "guidance", moving), ("guidance", "guidance", "cfg:1")),
        *(("sampling", "sampling", "paper"), ("count", "count", 9)),
    ):
        for value in values:
            refused(subject).by(chosen, pipeline, images=8, **{"count": 8} | {name: value})
    pipeline.judge = None
    refused("model").by(chosen, pipeline, images=8, count=8)
    assert pipeline.denoiser.network.rows == 0


def test_attributes_that_do_not_vary_are_left_out_and_overflow_is_refused() -> None:
    pipeline = shrunk()
    images, attributes = real_images(8)
    attributes["male"] = np.zeros(8, dtype=np.int64)
    found = fcfg.calibrate(pipeline, images, attributes, sampling="ddim uniform 2", accept=True)
    assert list(found.attributes) == ["smiling"]
    assert found.attributes["smiling"].directions == {}  # of four images, which are too few
    assert found.guidance(["male"]) == found.guidance(["smiling"])
    attributes["smiling"] = attributes["male"]
    refused("images", "each of two values").by(fcfg.calibrate, pipeline, images, attributes)
    pipeline.denoiser.network.means = pipeline.denoiser.network.means * torch.nan
    refused("model", "finite numbers").by(chosen, pipeline)


def test_a_saved_model_uses_its_calibration(tmp_path: Path) -> None:
    pipeline = tiny_model(saved=True)
    assert pipeline.plan(["smiling"]).setting == DEFAULT_GUIDANCE
    pipeline.calibration = calibration_of(pipeline, smiling=1.25, male=2.0)
    fcfg.save(pipeline, tmp_path)
    again = fcfg.load(tmp_path)
    assert Calibration.read(tmp_path / "calibration.json") == again.calibration
    chosen = {"smiling": 1.25, "male": 2.0, "smiling male": 1.625, "young": 1.625, "": 1.625}
    for targets, weight in chosen.items():
        setting = again.plan(targets.split()).setting
        assert repr(setting) == f"contrast:{weight};anchor=true"
    assert repr(again.plan(["male"], anchor=False).setting) == "contrast:2.0"
    assert again.plan(["male"], Guidance.cfg(3.0)).setting == Guidance.cfg(3.0)
    assert again.plan(["male"], sampling="paper").setting.name == "fcfg"
    assert str(again.plan(["male"]).sampling) == "ddim uniform 2"
    assert again.plan(["male"], anchor=False).sampling == PRESETS["default"]
    drawn = fcfg.datasets.portraits.sample(2, size=SIZE)
    pair = again.counterfactual(drawn.images, drawn.attributes, {"male": 1})
    assert len(pair.abduction.times) == 3
    assert pair.guidance == Guidance.contrast(2.0).replace(anchor=True)


def test_drawings_are_those_of_validation_and_balanced() -> None:
    pipeline = tiny_model()
    chosen = choose_images(pipeline, 20)
    assert chosen.count == 16
    assert chosen.data["balanced"] == ["smiling", "male", "young"]
    first = np.stack([chosen.attributes[n][:16] for n in pipeline.space.names], axis=1)
    assert sorted(map(tuple, first)) == [t for t in np.ndindex(2, 2, 2) for _ in range(2)]
    known = fcfg.datasets.portraits.sample(2000, VALIDATION_SEED, SIZE)
    distances = (known.images[:, None] - chosen.images[None, :4]).abs().amax(dim=(2, 3, 4))
    assert (distances.amin(dim=0) < 0.01).all()  # rounded to bytes
    same = chosen.truth({"male": chosen.attributes["male"][:16]})
    assert (same - chosen.images[:16]).abs().max() < 0.01
    more = choose_images(pipeline, 160)
    names = {image.numpy().tobytes() for image in more.images[: more.count]}
    assert names > {image.numpy().tobytes() for image in chosen.images[:16]}
    other = choose_images(pipeline, 20, seed=1)
    assert not torch.equal(other.images[:16], chosen.images[:16])
    refused("images", "from 2").by(choose_images, pipeline, 1)


def test_images_of_a_folder_are_those_of_validation(tmp_path: Path) -> None:
    pipeline = folder_model(tmp_path / "faces", 40)
    table = tmp_path / "faces" / "metadata.csv"
    table.write_text(table.read_text().replace(",test,", ",val,"))
    assert choose_images(pipeline, 20).data["balanced"] == ["smiling", "male", "young"]
    chosen = choose_images(pipeline, 40)
    assert (chosen.count, len(chosen.images)) == (40, 41)  # a combination is too rare for these
    assert chosen.data == {"format": "folder", "split": "val", "of": 41, "balanced": []}
    assert chosen.truth is None
    with refused("data 'folder' of the model", "--data DIR"):
        choose_images(pipeline, 40, data=tmp_path / "nowhere")


def test_all_kinds_of_attributes_are_calibrated() -> None:
    pipeline = tiny_model("portraits-causal")
    drawn = choose_images(pipeline, 40)
    how = {"sampling": "ddim uniform 2", "weights": (1.0, 2.0), "accept": True}
    about = {"count": drawn.count, "truth": drawn.truth, "data": drawn.data}
    found = fcfg.calibrate(pipeline, drawn.images, drawn.attributes, **how, **about)
    assert list(found.attributes) == list(pipeline.space.names)
    assert len(found.attributes["age"].directions) == 2
    levels = [f"to {level}" for level in ("dark", "fair", "red", "grey")]
    assert set(found.attributes["hair"].directions) <= set(levels)
    assert all(own.truth for own in found.attributes.values())


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    fcfg.save(tiny_model(saved=True), "tiny")
    return "tiny"


WORDS = ["--sampling", "ddim uniform 2", "--images", "16", "--device", "cpu", "--weights", "1,2"]


def test_a_calibrated_model_uses_its_weights(model: str, capsys) -> None:
    assert main(["calibrate", model, *WORDS, "--accept"]) == 0
    out = capsys.readouterr().out
    rule = "contrast:1.7;anchor=true;drawn_noise=true"
    assert out.startswith(f"16 images, {rule}, ddim uniform 2, on cpu\n")
    assert all(f"do({name})" in out for name in ("smiling", "male", "young"))
    assert "to 1" in out
    assert "do(male): the truth would choose " in out
    assert "the best weight may lie beyond " in out  # the model is not trained
    assert out.endswith("and thresholds of trust beside it; the model uses it from now on.\n")
    found = fcfg.load(model).calibration
    assert (found.images, found.rule) == (16, rule.replace("1.7", "1.0"))
    assert main(["calibrate", model, *WORDS, "--out", "elsewhere"]) == 0
    assert capsys.readouterr().out.endswith("beside it; the model is as before.\n")
    assert Calibration.read("elsewhere") == found


def test_the_command_keeps_the_default_where_a_calibration_is_in_doubt(model: str, capsys) -> None:
    before = fcfg.load(model)
    before.calibration = calibration_of(before, smiling=1.25, male=2.0)
    fcfg.save(before, model)
    words = ["calibrate", model, *WORDS, "--images", "8"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "fewer than 8 images in each direction.\n" in out
    kept = " and ".join(f"contrast:{weight};anchor=true" for weight in (1.25, 2.0, 1.625))
    assert f"The model keeps its default, {kept}, with thresholds of trust.\n" in out
    assert out.endswith("add --accept; what is measured is in runs/calibrations.\n")
    after = fcfg.load(model)
    assert after.calibration == before.calibration
    method = before.plan(["smiling"])
    assert after.thresholds.knows_way_back(method.setting, method.sampling)


def test_a_calibration_of_others_is_kept(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["calibrate", model, *WORDS, "--out", "out"]
    assert main(words) == 0
    assert main(words) == 0  # replaces its own
    other = tiny_model(saved=True)
    next(other.denoiser.parameters()).data += 1
    fcfg.save(other, "other")
    before = {path: path.read_bytes() for path in Path("out").iterdir()}
    capsys.readouterr()
    different = "weights 1,3", "images 8", "seed 1", "guidance cfg:1", "sampling 3"
    different = [["--at-least-real"], *(f"--{option}".split() for option in different)]
    for refused_words in (["calibrate", "other", *words[2:]], *([*words, *o] for o in different)):
        assert main(refused_words) == 2
        line = capsys.readouterr().err
        assert "got 'calibration.json', 'trust.json'; choose another folder, or replace" in line
        assert {path: path.read_bytes() for path in Path("out").iterdir()} == before
    assert main([*words, "--at-least-real", "--seed", "1", "--overwrite"]) == 0
    found = Calibration.read("out")
    assert (found.seed, found.at_least_real) == (1, True)


def test_the_table_has_no_empty_column_and_remarks_follow_it(capsys) -> None:
    values = {"images": 9, "real": (2.5, 1.0), "read": (2.0, 1.0)}
    zero = Direction(weight=1.0, low=0.8, high=1.2, **values)
    one = Direction(weight=2.0, low=1.5, high=2.5, **values)
    found = calibration_of(tiny_model(), smiling=1.25, male=1.5)
    apart = {"directions": {"to 0": zero, "to 1": one}}
    smiling, male = found.attributes["smiling"].model_copy(update=apart), found.attributes["male"]
    said: list[str] = []
    for attributes in ({"male": male}, {"smiling": smiling, "male": male}, {"smiling": smiling}):
        print_calibration(found.model_copy(update={"attributes": attributes}))
        said.append(capsys.readouterr().out)
    assert [text.count("judge on") for text in said] == [0, 2, 2]
    assert ["do(male): fewer than 8 images" in text for text in said] == [True, True, False]
    assert ["do(smiling): its directions differ" in text for text in said] == [False, True, True]
    assert "to 1 2 1.5–2.5 2.50 ± 1.00 2.00 ± 1.00" in " ".join(said[2].split())


def test_an_interrupted_command_says_how_to_resume_and_leaves_a_shipped_model_as_it_is(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fcfg.storage.places._OWN", Path.cwd())
    with monkeypatch.context() as patch:
        patch.setattr("fcfg.calibration.measurements.Measurement._measured", stop)
        assert main(["calibrate", model, *WORDS]) == 130
    assert "runs/calibrations, run the same command to resume" in capsys.readouterr().err
    assert main(["calibrate", model, *WORDS]) == 0
    assert "runs/calibrate/tiny/calibration.json, and thresholds" in capsys.readouterr().out
    assert fcfg.load(model).calibration is None


@pytest.mark.usefixtures("model")
def test_what_is_wrong_is_one_line(capsys) -> None:
    refused_line(["calibrate", "no-such-model"], "no-such-model", capsys)
    wrong = "guidance cgf:1", "weights 1,a", "batch-size no", "images 1", "data .", "sampling papr"
    for words in (*wrong, "out tiny/config.json"):
        name, value = words.split()
        refused_line(["calibrate", "tiny", "--out", "new", f"--{name}", value], name, capsys)
    assert not Path("new").exists()
    said = " ".join(typed(capsys, "calibrate --help").out.split())
    assert f"with at least {RAISING} images" in said
