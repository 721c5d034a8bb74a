"""``fcfg diagnose``: do groups of attributes add up, and which of them belong together?"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fcfg
import worlds
from browser import Reader, browsing, chromium
from evaluations import tiny_model
from fcfg import CounterfactualPipeline, NoiseSchedule
from fcfg.cli import main
from fcfg.diagnosis import Association, Diagnosis, diagnose, diagnosis_page
from fcfg.diagnosis.diagnosis import measure_associations
from fcfg.diagnosis.pushes import measure_gaps
from fcfg.metrics import Bootstrap, Estimate, mean
from fcfg.reports.rule_styles import TINTS
from place import DEVICE
from refusal import refused, refused_line
from worlds import independent_pipeline, mixture, mixture_faces, mixture_pipeline, pipeline_of

NAMES = ("smiling", "male", "young")
PIXELS = torch.eye(16, dtype=torch.float64).view(16, *worlds.SHAPE)  # orthogonal directions
FACES = np.random.default_rng(0).uniform(-1, 1, (12, *worlds.SHAPE))
ONES = {name: np.ones(12, dtype=int) for name in NAMES}


class Interacting(nn.Module):
    """Pushes of length 1 and, where attributes are visible together, pushes of their own."""

    def __init__(self, strengths: dict[tuple[int, ...], float]) -> None:
        super().__init__()
        self.strengths = strengths

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        visible = c.unflatten(1, (3, -1))[..., 0]
        pushes = {(0,): 1.0, (1,): 1.0, (2,): 1.0, **self.strengths}
        terms = [
            strength * visible[:, members].prod(dim=1)[:, None, None, None] * pixel
            for (members, strength), pixel in zip(pushes.items(), PIXELS, strict=False)
        ]
        return 0.1 * x + sum(terms)


def interacting(**strengths: float) -> CounterfactualPipeline:
    """Attributes that interact: ``_01=0.5`` for smiling and male together."""
    known = {tuple(map(int, name[1:])): strength for name, strength in strengths.items()}
    return pipeline_of(Interacting(known), NoiseSchedule(), 3)


def heard(found: Diagnosis) -> Diagnosis:
    """The same gaps, of a network that its attributes help; those of this file denoise nothing."""
    return replace(found, gain=Estimate(1.0, np.ones(2), found.images))


def every_gap(found: Diagnosis) -> list[Estimate]:
    gaps = [found.by_attribute, found.suggested]
    gaps += [*found.by_intervention.values(), *found.pairs.values()]
    return [estimate for gap in gaps for estimate in (gap.overall, *gap.over_time)]


@pytest.mark.parametrize("world", ["additive", "independent"])
def test_groups_that_add_up_have_no_gap_and_stay_apart(world: str) -> None:
    if world == "independent":  # exact scores of attributes that are independent given any image
        pipeline = independent_pipeline()
        found = diagnose(pipeline, *mixture_faces(pipeline, 20))
    else:
        pipeline = pipeline_of(worlds.AdditiveNetwork(PIXELS[:3]), NoiseSchedule(), 3)
        found = heard(diagnose(pipeline, FACES, ONES))
    assert max(gap.high for gap in every_gap(found)) < 1e-9
    assert found.suggestion == fcfg.Partition({name: [name] for name in NAMES})
    assert found.verdict[:2] == [
        "One group per attribute is justified: their sum misses 0 % [0, 0] of the push of all "
        "attributes together.",
        "The groups affected and invariant are justified under every intervention: their sum "
        f"misses at most 0 % [0, 0], under {found.verdict[1].rpartition(' ')[2]}",
    ]


def test_attributes_that_interact_are_joined_and_no_others() -> None:
    found = heard(diagnose(interacting(_02=1.0), FACES, ONES))
    gaps = {pair: gap.overall.value for pair, gap in found.pairs.items()}
    assert gaps.pop(("smiling", "young")) == pytest.approx(1 / 3**0.5)  # 1 of 1² + 1² + 1²
    assert max(gaps.values()) < 1e-9
    assert found.by_attribute.overall.value == pytest.approx(1 / 4**0.5)
    by_do = {do: gap.overall.value for do, gap in found.by_intervention.items()}
    assert by_do == pytest.approx({"smiling": 0.5, "male": 0.0, "young": 0.5}, abs=1e-9)
    groups = {"smiling-young": ["smiling", "young"], "male": ["male"]}
    assert found.suggestion == fcfg.Partition(groups)
    assert found.suggested.overall.value < 1e-9
    assert found.verdict[0] == "These should share a group: smiling and young."
    assert "under do(smiling) (50 % [50, 50]) and do(young) (50 % [50, 50])" in found.verdict[2]
    found = heard(diagnose(interacting(_012=1.0), FACES, ONES))
    assert all(gap.overall.value < 1e-9 for gap in found.pairs.values())
    assert found.by_attribute.overall.value == pytest.approx(0.5)
    assert found.suggestion.groups == {"smiling-male-young": NAMES}
    assert "All attributes should share one group, as in CFG" in found.verdict[0]
    pipeline = interacting(_01=0.2, _02=0.28, _12=0.2)  # of pairs of length √2: all below 0.2
    found = diagnose(pipeline, FACES, ONES)
    assert all(gap.overall.value < found.threshold for gap in found.pairs.values())
    assert found.by_attribute.overall.value > found.threshold > found.suggested.overall.value
    assert set(found.suggestion) == {"smiling-young", "male"}


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.6, 0.7, 1.0])
def test_the_gap_of_a_suggestion_is_at_most_the_threshold(threshold: float) -> None:
    pipeline = mixture_pipeline()
    found = diagnose(pipeline, *mixture_faces(pipeline, 6), times=4, threshold=threshold)
    assert found.suggested.overall.value <= threshold + 1e-9
    found.suggestion.check_covers(NAMES)


def test_a_gap_is_what_the_formula_says() -> None:
    pipeline, images, table = mixture(5)
    denoiser, table = pipeline.denoiser, pipeline.space.parse(table)
    found = diagnose(pipeline, images, table, times=4)
    time, seen = found.times[2], list[Tensor]()
    handle = denoiser.network.register_forward_hook(lambda _, given, __: seen.append(given[0]))
    (pair,) = measure_gaps(denoiser, images, table, [(("smiling",), ("male",))], [time])
    handle.remove()
    x_t, t = seen[0][:5], torch.full((5,), time)

    def eps(*keep: bool) -> Tensor:
        keep_these = torch.tensor([keep]).to(DEVICE)
        masked = denoiser.embedder.masked(denoiser.condition(table), keep_these)
        return denoiser(x_t.to(DEVICE), t.to(DEVICE), masked)

    null, a, b = eps(False, False, False), eps(True, False, False), eps(False, True, False)
    joint = eps(True, True, False) - null
    expected = pytest.approx(((joint - (a - null) - (b - null)).norm() / joint.norm()).item())
    assert pair.overall.value == pair.over_time[0].value == expected
    of_unit = denoiser.schedule.noise(t[0]) * joint.norm() / 5**0.5  # of log-SNR, in a mean image
    assert pair.push == pytest.approx([of_unit.item()])
    assert found.pairs["smiling", "male"].over_time[2].value == expected
    # Images are noised as in training.
    drawn = (x_t.cpu() - denoiser.schedule.signal(t[0]) * images) / denoiser.schedule.noise(t[0])
    assert drawn.mean() == pytest.approx(0, abs=0.3)
    assert drawn.std() == pytest.approx(1, abs=0.2)


def test_times_count_by_their_push_and_exact_predictions_gain_all() -> None:
    pipeline = mixture_pipeline()
    found = diagnose(pipeline, *mixture_faces(pipeline, 8), times=5)
    for gap in (found.by_attribute, *found.pairs.values()):
        push, over_time = np.array(gap.push), np.array([e.value for e in gap.over_time])
        expected = np.sqrt((push**2 * over_time**2).sum() / (push**2).sum())
        assert gap.overall.value == pytest.approx(expected)
        assert gap.missed == pytest.approx(np.sqrt((push**2 * over_time**2).sum()))
    pipeline = independent_pipeline()
    found = diagnose(pipeline, *mixture_faces(pipeline, 200), noised=200, times=3)
    assert found.gain.low < 1 < found.gain.high
    assert found.gain.high - found.gain.low < 0.5
    assert found.uses_attributes


def test_nothing_is_said_about_groups_if_the_attributes_do_not_help() -> None:
    pipeline = independent_pipeline()
    images, table = mixture_faces(pipeline, 40)
    opposite = {name: 1 - column for name, column in table.items()}
    for found in (
        diagnose(pipeline, images, opposite, times=4),
        diagnose(pipeline, images, opposite, noised=4, times=4),
        diagnose(interacting(_02=1.0), FACES, ONES, times=4),
    ):
        assert found.gain.value <= 0
        assert not found.uses_attributes
        assert found.verdict[0].startswith("The model does not seem to use its attributes")
        assert not any("justified" in line or "share" in line for line in found.verdict)
        page = diagnosis_page(found, "unused", {})
        assert found.verdict[0] in page
        assert not any(word in page for word in ("Suggested", "<svg", "belong in one group"))


def test_a_gain_that_may_be_zero_counts_as_none() -> None:
    found = heard(diagnose(interacting(), FACES, ONES, times=2))
    for low, used in ((-0.1, False), (0.0, False), (0.1, True)):
        gain = Estimate(0.5, np.array([low, low, 1.0, 1.0]), 12)
        assert replace(found, gain=gain).uses_attributes == used


def test_neither_the_batch_size_nor_the_order_of_the_images_matters() -> None:
    pipeline, images, table = mixture(7)

    def values(images: Tensor, table: dict[str, Any], **more: int) -> list[float]:
        found = diagnose(pipeline, images, table, times=3, **more)
        return [found.gain.value, *(gap.value for gap in every_gap(found))]

    first = values(images, table)
    for size in (1, 3, 20):
        assert values(images, table, batch_size=size) == pytest.approx(first, rel=1e-9)
    back = {name: column[::-1] for name, column in table.items()}
    assert values(images.flip(0), back) == pytest.approx(first, rel=1e-9)
    assert values(images, table) == first
    assert values(images, table, seed=1) != pytest.approx(first, rel=1e-3)


def test_gaps_are_measured_on_evenly_chosen_images_and_progress_ends_below_one() -> None:
    pipeline, images, table = mixture(9)
    told: list[float] = []
    some = diagnose(pipeline, images, table, noised=3, times=2, on_progress=told.append)
    rows = [0, 3, 6]
    few = {name: column[rows] for name, column in table.items()}
    same = diagnose(pipeline, images[rows], few, times=2)
    assert (some.images, same.images) == (3, 3)
    assert (some.correlated, same.correlated) == (9, 3)
    assert [g.value for g in every_gap(some)] == [g.value for g in every_gap(same)]
    assert told == sorted(told)
    assert 0.7 < told[-1] <= 1


def test_correlations_are_pearsons_of_labels_and_of_scores() -> None:
    pipeline = tiny_model("portraits-causal")
    world = fcfg.datasets.portraits.sample(60, 3, 8, "portraits-causal")
    space, judge = pipeline.space, pipeline.judge
    assert isinstance(judge, fcfg.AttributeJudge)
    table, grey = space.parse(world.attributes), "hair: grey"
    found = measure_associations(space, table, world.images, judge)
    scores = judge.read(world.images).scores["hair"][:, 3]
    one = found["age", grey]
    assert one.reading is not None
    for estimate, other in ((one.data, table["hair"] == 3), (one.reading, scores)):
        expected = np.corrcoef(table["age"], other.astype(float))[0, 1]
        assert estimate.value == pytest.approx(expected)
    assert one.data.low < one.data.value < one.data.high
    assert not any("hair" in a and "hair" in b for a, b in found)
    assert ("sex", "sex") not in found
    without = measure_associations(space, table, world.images, None)
    assert without.keys() == found.keys()
    assert without["age", grey].reading is None
    table["sex"][:] = 1
    constant = measure_associations(space, table, world.images, judge)
    assert not any("sex" in pair for pair in constant)


def test_the_verdict_names_what_is_correlated_and_what_the_judge_adds() -> None:
    few = heard(diagnose(interacting(_02=1.0), FACES, ONES, times=2))
    assert few.verdict[-1].startswith("12 images are too few to say which attributes are corr")
    plain = replace(few, correlated=30)
    assert plain.verdict[-1] == "No attributes are correlated."

    def fixed(value: float) -> Estimate:
        return mean(np.full(12, value), Bootstrap(12))

    known = {
        ("male", "young"): Association(fixed(-0.3), fixed(-0.6)),
        ("smiling", "young"): Association(fixed(0.1), fixed(0.0)),
        ("young", "male"): Association(fixed(-0.3), None),
    }
    told = replace(plain, associations=known, trained_on_parts=False)
    assert told.verdict[-2:] == [
        "Correlated in the data: young with male (−0.30).",
        "The judge takes one for a sign of another: young with male (−0.60 instead of −0.30).",
    ]
    assert any("p_group" in line for line in told.verdict)
    pair = replace(plain.pairs["male", "young"], overall=Estimate(0.1, np.array([0.0, 0.5]), 12))
    unsure = replace(plain, pairs={("male", "young"): pair})
    assert any(line.startswith("Too close to 20 % to be sure: male") for line in unsure.verdict)
    causes = replace(plain, by_intervention={})  # every intervention affects everything
    assert not any("affected" in line for line in causes.verdict)


def test_what_cannot_be_diagnosed_is_refused() -> None:
    pipeline, short = interacting(), {name: [1, 1, 1] for name in NAMES}
    constant = pipeline_of(worlds.AdditiveNetwork(0 * PIXELS[:3]), NoiseSchedule(), 3)
    refused("model").by(diagnose, mixture_pipeline(count=1), FACES, {"smiling": [1] * 12})
    refused("attributes").by(diagnose, pipeline, FACES, short)
    refused("of 'male', 'smiling', 'young'").by(diagnose, constant, FACES, ONES)
    options = {"threshold": 1.5, "noised": 0, "times": 1, "seed": -1, "batch_size": 0}
    for name, value in options.items():
        refused(name).by(diagnose, pipeline, FACES, ONES, **{name: value})


def test_the_page_needs_no_other_file_and_no_two_lines_look_alike() -> None:
    found = heard(diagnose(interacting(_02=1.0), FACES, ONES))
    page = diagnosis_page(found, "<faces>", {"command": "a & b", "commit": None, "data": {"n": 1}})
    assert "<faces>" not in page
    assert not any(word in page for word in ("http", "<script", "url("))
    assert page.count("<svg") == 2
    cells = "<b>58 %</b><small>[58, 58]</small>"
    group = "fcfg.Partition({&#39;smiling-young&#39;: [&#39;smiling&#39;, &#39;young&#39;]"
    for said in ("&lt;faces&gt;", "a &amp; b", "suggested groups: 0 % [0, 0]", cells, group):
        assert said in page
    shown = re.findall(r" (\d+)%,transparent\)\"><\w+>([^<]+)", page)
    strengths = {text: int(strength) for strength, text in shown}
    assert (strengths["58 %"], strengths["0 %"], max(strengths.values())) == (60, 0, 60)
    found = heard(diagnose(interacting(_02=1.0), FACES, ONES))
    many = {f"x{number}": found.by_attribute for number in range(len(TINTS))}
    page = diagnosis_page(replace(found, by_intervention=many), "faces", {})
    looks = re.findall(
        r'<line x1="48"[^>]*x2="70" y2="[^"]*"([^>]*)>', page.partition("</svg>")[0]
    )
    assert len(looks) == len(set(looks)) > len(TINTS)


@browsing
def test_the_page_fits_the_screen(tmp_path: Path) -> None:
    pipeline = tiny_model("portraits-causal")
    world = fcfg.datasets.portraits.sample(2, 3, 8, "portraits-causal")
    found = heard(diagnose(pipeline, world.images, world.attributes, times=30))
    file = tmp_path / "index.html"
    file.write_text(diagnosis_page(found, "tiny", {}), "utf-8")
    drawn = "[...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect().width)"
    with chromium() as program:
        browser = Reader(program)
        for width in (390, 1280):
            browser.look(width, 844, "light")
            browser.open(file)
            assert browser.run("document.documentElement.scrollWidth") == width
            assert all(300 < shown <= min(width, 620) for shown in browser.run(drawn))


@pytest.fixture
def model(listening_folder: Path) -> str:
    return str(listening_folder)


def test_the_command_says_first_that_attributes_are_not_used(model: str, tmp_path, capsys) -> None:
    assert main(["diagnose", model, "--images", "16", "--out", str(tmp_path)]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert not any("gap" in line or "Suggested" in line for line in others)
    numbers = json.loads((tmp_path / "diagnosis.json").read_text("utf-8"))
    assert (numbers["uses_attributes"], numbers["verdict"][0]) == (False, first)


def test_the_command_writes_a_page_and_numbers(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["diagnose", "portraits", "--images", "3"]) == 0  # two are too few to tell
    said = capsys.readouterr().out
    folder = Path("runs/diagnose/portraits")
    numbers = json.loads((folder / "diagnosis.json").read_text("utf-8"))
    known = {"images": 3, "uses_attributes": True, "trained_on_parts": False}
    assert known.items() <= numbers.items()
    assert numbers["gain"]["low"] > 0
    assert len(numbers["times"]) == len(numbers["by_attribute"]["over_time"]) == 10
    pairs = [[[a], [b]] for a, b in combinations(NAMES, 2)]
    assert [pair["groups"] for pair in numbers["pairs"]] == pairs
    assert {name for group in numbers["suggestion"].values() for name in group} == set(NAMES)
    assert numbers["data"]["seed"] == 1_000_000
    for line in (*numbers["verdict"], "smiling and male", f"Page: {folder / 'index.html'}"):
        assert line in said


def test_the_command_replaces_only_its_own_files(model: str, tmp_path, capsys) -> None:
    words = ["diagnose", model, "--images", "3", "--noised", "3", "--out", str(tmp_path)]
    assert main(words) == 0
    first = (tmp_path / "diagnosis.json").read_bytes()
    assert main(words) == 0  # the same numbers
    for other in (["--images", "2"], ["--noised", "2"], ["--threshold", "0.3"], ["--seed", "1"]):
        capsys.readouterr()
        assert main([*words, *other]) == 2
        assert "'index.html', 'diagnosis.json'; choose another folder" in capsys.readouterr().err
        assert (tmp_path / "diagnosis.json").read_bytes() == first
    assert main([*words, "--noised", "2", "--overwrite"]) == 0
    assert json.loads((tmp_path / "diagnosis.json").read_text("utf-8"))["images"] == 2


def test_wrong_input_is_one_line(model: str, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").mkdir()
    Path("taken/index.html").write_text("mine", encoding="utf-8")
    refused_line(["diagnose", "nowhere"], "nowhere", capsys)
    wrong = ("images 0", "noised 0", "threshold 2", "seed -1", "data .", "device gpu", "out taken")
    for name, value in map(str.split, wrong):
        refused_line(["diagnose", model, f"--{name}", value], name, capsys)
    assert Path("taken/index.html").read_text(encoding="utf-8") == "mine"
