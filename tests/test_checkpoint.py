from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fcfg
from fcfg import AttributeJudge, CounterfactualPipeline, Guidance, Judge, JudgeConfig, load, save
from fcfg.diffusion import AttributeEmbedder, Denoiser, NoiseSchedule
from fcfg.storage import FORMAT
from fcfg.storage.folder import digest
from kills import ended_after
from refusal import refused
from tiny import GRAPH, SPACE, tiny_pipeline
from worlds import mixture_pipeline


@pytest.fixture(scope="module")
def pipeline() -> CounterfactualPipeline:
    """A diffusion model with all that a folder keeps."""
    made = tiny_pipeline(1)
    parts = made.denoiser.network, made.denoiser.embedder, NoiseSchedule("cosine", 500)
    denoiser = Denoiser(*parts, channels=1, stride=2, parameterisation="velocity")
    factors = {"age": (50.0, 17.0)}
    config = JudgeConfig(channels=1, outputs=sum(SPACE.widths) + len(factors), width=4)
    judge = AttributeJudge(Judge(config), SPACE, factors).eval()
    return CounterfactualPipeline(denoiser, made.scm, judge=judge, provenance=made.provenance)


def answer(pipeline: CounterfactualPipeline) -> fcfg.Counterfactual:
    images = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(1)) * 2 - 1
    table = {"smiling": [0, 1, 0], "age": [51.2, 95.0, 14.4], "hair": [0, 1, 2]}
    how = {"guidance": Guidance.cfg(2.0), "sampling": 5}
    return pipeline.counterfactual(images, table, {"age": lambda age: 100 - age}, **how)


def edit(folder: Path, **changes: object) -> None:
    """Change the config, as one who means it."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes | {"digest": None}))


@pytest.mark.promise("A model that is saved comes back bit by bit")
def test_a_pipeline_comes_back_bit_by_bit(pipeline, tmp_path: Path) -> None:
    save(pipeline, tmp_path)
    again = load(tmp_path)
    one, other = answer(pipeline), answer(again)
    assert torch.equal(one.trajectory.x, other.trajectory.x)
    for name in SPACE.names:
        assert np.array_equal(one.attributes[name], other.attributes[name])
    images = torch.zeros(2, 1, 8, 8)
    assert torch.equal(pipeline.judge(images), again.judge(images))
    assert (again.space, again.graph) == (SPACE, GRAPH)
    assert again.denoiser.schedule == NoiseSchedule("cosine", 500)
    assert again.denoiser.parameterisation == "velocity"


def test_float16_halves_the_network_and_costs_a_stated_error(pipeline, tmp_path: Path) -> None:
    sizes = []
    for storage in ("float32", "float16"):
        save(pipeline, tmp_path, storage=storage)
        sizes.append(next(tmp_path.glob("network-*")).stat().st_size)
    assert sizes[1] < 0.65 * sizes[0]  # names of tensors do not shrink
    again = load(tmp_path)
    error = (answer(again).trajectory.x - answer(pipeline).trajectory.x).abs().mean()
    assert 0 < error < 5e-3
    pairs = zip(pipeline.denoiser.parameters(), again.denoiser.parameters(), strict=True)
    for one, other in pairs:
        assert other.dtype == torch.float32
        assert torch.allclose(one, other, rtol=2**-10, atol=1e-7)
    hair = [answer(model).attributes["hair"] for model in (again, pipeline)]
    assert np.array_equal(*hair)  # the structural causal model is stored whole


def test_a_folder_holds_json_and_safetensors_and_what_is_none_of_ours(pipeline, tmp_path) -> None:
    save(pipeline, tmp_path)
    mine = tmp_path / "network-best.safetensors"
    mine.write_bytes(b"mine")
    save(pipeline, tmp_path, storage="float16")  # what it replaces is removed
    assert mine.read_bytes() == b"mine"
    mine.unlink()
    names = sorted(path.name for path in tmp_path.iterdir())
    parts = ["config.json", "embedder", "judge", "network", "scm"]
    assert [name.split("-")[0] for name in names] == parts
    assert all(name.endswith((".json", ".safetensors")) for name in names)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["format"] == 2
    assert config["fcfg"] == fcfg.__version__
    assert config["graph"] == {"smiling": [], "age": [], "hair": ["age"]}


@pytest.mark.parametrize("renames", range(5))
@pytest.mark.promise("A file is written whole or not at all")
def test_whenever_the_power_fails_the_folder_holds_a_whole_pipeline(
    pipeline, tmp_path: Path, renames: int
) -> None:
    """Every file is put in place by one rename; the process dies before one of them."""
    save(pipeline, tmp_path)
    before = answer(load(tmp_path)).trajectory.x
    with ended_after(renames):
        save(pipeline, tmp_path, storage="float16")
    assert torch.equal(before, answer(load(tmp_path)).trajectory.x)
    assert not list(tmp_path.glob(".*"))  # and no rubbish
    save(pipeline, tmp_path, storage="float16")
    assert not torch.equal(before, answer(load(tmp_path)).trajectory.x)


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.5]))

    def forward(self, x: Tensor, t: Tensor, c: Tensor) -> Tensor:
        return self.weight * x


def own_pipeline(pipeline: CounterfactualPipeline, network: nn.Module) -> CounterfactualPipeline:
    embedder = AttributeEmbedder(SPACE, width=8)
    denoiser = Denoiser(network, embedder, NoiseSchedule(), channels=1)
    return CounterfactualPipeline(denoiser, pipeline.scm)


def test_a_network_of_ones_own_is_stored_and_asked_for(pipeline, tmp_path: Path) -> None:
    own = own_pipeline(pipeline, Own())
    own.denoiser.network.weight.data += 0.1
    save(own, tmp_path)
    again = load(tmp_path, network=Own())
    assert torch.equal(answer(own).trajectory.x, answer(again).trajectory.x)
    assert again.judge is None
    refused(f"model {tmp_path}", "network= with a Own", "got none").by(load, tmp_path)
    save(pipeline, tmp_path)
    refused(f"model {tmp_path}", "no network=", "got Own").by(load, tmp_path, network=Own())
    tied, fresh = Own(), Own()
    tied.again, fresh.again = tied.weight, fresh.weight
    save(own_pipeline(pipeline, tied), tmp_path)
    assert torch.equal(load(tmp_path, network=fresh).denoiser.network.weight, tied.weight)


@pytest.mark.promise("Weights that were cut short or changed are refused")
def test_every_truncation_of_a_weight_file_is_refused(pipeline, tmp_path: Path) -> None:
    save(pipeline, tmp_path)
    for path in tmp_path.glob("*.safetensors"):
        whole = path.read_bytes()
        for keep in (0, 7, 100, len(whole) - 1):
            path.write_bytes(whole[:keep])
            refused(f"model {tmp_path}", path.name).by(load, tmp_path)
        path.write_bytes(whole)
    load(tmp_path)


def as_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_garbage(folder: Path) -> None:
    """Even where name and content agree."""
    data = b"\x08\0\0\0\0\0\0\0not json"
    name = f"embedder-{digest(data)}.safetensors"
    (folder / name).write_bytes(data)
    files = json.loads((folder / "config.json").read_text())["files"]
    edit(folder, files=files | {"embedder": name})


def outside(folder: Path) -> None:
    files = json.loads((folder / "config.json").read_text())["files"]
    (folder / files["scm"]).rename(folder.parent / files["scm"])
    edit(folder, files=files | {"scm": f"../{files['scm']}"})


def test_what_is_not_a_checkpoint_is_refused(pipeline, tmp_path: Path) -> None:
    save(pipeline, tmp_path / "whole")

    def wrong(spoil: Callable[[Path], object], *fragments: str, **changes: object) -> None:
        folder = copytree(tmp_path / "whole", tmp_path / "model")
        spoil(folder, **changes)
        refused(f"model {folder}", *fragments).by(load, folder)
        rmtree(folder)

    for text, fragment in {
        "{": "expected JSON",
        "[]": "a mapping",
        '{"format": 1, "format": 1}': "twice",
        "[" * 100_000: "recursion",
        '{"model_type": "bert"}': "something else",
    }.items():
        wrong(lambda f, text=text: (f / "config.json").write_text(text), fragment)
    wrong(lambda f: (f / "config.json").unlink(), "fcfg wrote", "no config.json in it")
    wrong(edit, f"format version {FORMAT}", "upgrade fcfg", format=FORMAT + 1)
    wrong(edit, "'1.0'", format="1.0")
    wrong(edit, "'format'", format=0)
    wrong(edit, "'schedule'", schedule="cosin")
    wrong(edit, "'colour'", "Extra inputs", colour="red")
    wrong(edit, "that makes sense", "condition width", embedding=16)
    wrong(edit, "'steps'", steps="500")
    wrong(edit, "makes sense", "100000", steps=10**12)
    wrong(edit, "makes sense", "the values of its UNet", stride=3)
    wrong(edit, "'network", network={"base": -8})
    wrong(edit, "'network", "4096", network={"size": 2**20})
    wrong(edit, "'judge", "16384", judge={"width": 2**20})
    wrong(edit, "makes sense", "verflow", embedding=10**30)
    wrong(edit, "makes sense", graph={"age": ["age"]})
    wrong(edit, "makes sense", "'hat'", attributes={"age": {"kind": "hat"}})
    wrong(edit, "makes sense", files={"scm": "a\0b"})
    wrong(edit, "the file missing", "No such file", files={})
    wrong(lambda f: os.truncate(next(f.glob("network-*")), 2**40), "fit its network", "larger")
    wrong(lambda f: as_a_pipe(next(f.glob("judge-*"))), "fit its judge", "a pipe")
    wrong(as_garbage, "fit its embedder")
    wrong(outside, "No such file")
    wrong(lambda f: next(f.glob("scm-*")).unlink(), "the file scm-", "No such file")


EDITS: dict[str, Any] = {"parameterisation": "noise", "schedule": "linear", "steps": 600}
EDITS["attributes"] = {name: SPACE.to_config()[name] for name in ("age", "smiling", "hair")}
EDITS["graph"] = {"smiling": [], "age": [], "hair": ["age", "smiling"]}
EDITS |= {"mechanisms": {}, "factors": {"age": [50.0, 18.0]}}
EDITS |= {"provenance": {"seed": 4}, "storage": "float16"}


def test_an_edited_config_is_noticed_unless_it_says_that_it_was(pipeline, tmp_path: Path) -> None:
    """Even the order of the attributes: it is that of their blocks in the condition."""
    save(pipeline, tmp_path)
    path = tmp_path / "config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values))  # laid out otherwise
    load(tmp_path)
    for key, value in EDITS.items():
        path.write_text(json.dumps(values | {key: value}))
        refused(f"model {tmp_path}", "an edited one", "remove 'digest'").by(load, tmp_path)
    path.write_text(json.dumps({k: v for k, v in values.items() if k != "digest"}))
    load(tmp_path)
    path.write_text(json.dumps(values | EDITS))
    save(pipeline, tmp_path)  # what is replaced may be anything of ours
    load(tmp_path)
    edit(tmp_path, graph=EDITS["graph"])  # said to be edited, and refused at the question
    refused("mechanism of 'hair'", "fitted on ['age']").by(answer, load(tmp_path))
    edit(tmp_path, graph=EDITS["graph"])  # said to be edited, and refused at the question
    refused("mechanism of 'hair'", "fitted on ['age']").by(answer, load(tmp_path))


def test_weights_that_would_be_lost_are_refused(pipeline, tmp_path: Path) -> None:
    large = copy.deepcopy(pipeline)
    large.denoiser.network.stem.bias.data[0] = 1e6
    with refused("weights 'stem.bias'", "fit into float16", "1e+06"):
        save(large, tmp_path, storage="float16")
    assert not list(tmp_path.iterdir())


@pytest.mark.promise("Files of others are neither read nor replaced")
def test_a_folder_that_is_none_of_ours_is_neither_read_nor_replaced(pipeline, tmp_path) -> None:
    file, config = tmp_path / "file", tmp_path / "config.json"
    file.write_bytes(b"weights")
    config.write_text('{"model_type": "bert"}')
    empty, new = tmp_path / "empty", tmp_path / "new"
    empty.mkdir()
    below = file / "below"
    other = CounterfactualPipeline(pipeline.denoiser, pipeline.scm, judge=nn.Linear(1, 1))
    for subject, fragment, call in (
        (f"model {file}", "a folder", lambda: load(file)),
        ("model portrait", "did you mean 'portraits'?", lambda: load("portrait")),
        (f"model {empty}", "no config.json in it", lambda: load(empty)),
        (f"model {tmp_path}", "something else", lambda: save(pipeline, tmp_path)),
        (f"model {file}", "can be written", lambda: save(pipeline, file)),
        (f"model {below}", "can be written", lambda: save(pipeline, below)),
        ("storage", "did you mean 'float16'?", lambda: save(pipeline, new, storage="bfloat16")),
        ("judge", "fcfg.AttributeJudge", lambda: save(other, new)),
        ("weights", "float32", lambda: save(mixture_pipeline(), new)),
    ):
        refused(subject, fragment).by(call)
    for value in (np.float32(1), torch.ones(2), float("nan"), {1, 2}):
        own = CounterfactualPipeline(pipeline.denoiser, pipeline.scm, provenance={"seed": value})
        refused("provenance", "finite numbers", ".item()").by(save, own, new)
    for path in (None, 3, b"model", ["model"]):
        for call in (lambda path=path: load(path), lambda path=path: save(pipeline, path)):
            refused("model", "the path of a folder", str(path)[:4]).by(call)
    assert json.loads(config.read_text()) == {"model_type": "bert"}
    assert not new.exists()
