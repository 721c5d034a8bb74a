"""The training configuration: presets, files, overrides, errors."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from fcfg.support.config_files import to_yaml, validate
from fcfg.training import TrainingConfig, presets, read_config, train
from fcfg.training.preflight import describe
from refusal import refused
from runs import NO_FOLDERS, tiny
from trees import usual

RIVALS = () if find_spec("fcfg.rivals") is None else ("hvae", "hvae-soft", "sadcg")


def test_there_is_a_preset_for_every_model_of_the_paper_and_of_ours() -> None:
    assert set(presets()) == {
        *("portraits", "portraits-causal", "celeba-hq", "celeba-64", "embed", "mimic-cxr"),
        *("radiographs", "digits", "portraits-128", "portraits-independence"),
        *("portraits-dropout-02", "portraits-dropout-groups"),
        *(f"{kind}-{data}" for kind in RIVALS for data in ("portraits", "celeba-64", "digits")),
    }


@pytest.mark.parametrize("name", presets())
def test_presets_are_legal_written_out_and_alike_for_one_data_set(name: str, tmp_path) -> None:
    config = read_config(name)
    (tmp_path / "copy.yaml").write_text(to_yaml(config))
    assert read_config(str(tmp_path / "copy.yaml")) == config
    space, graph = usual(config.data.format)
    assert set(config.space) == set(space)
    parents, usually = ({k: set(v) for k, v in g.items()} for g in (config.graph, graph.parents))
    assert parents == usually


# The table of App. D: batch, epochs, schedule, training images, parameters in millions.
TABLE = {
    "celeba-hq": (128, 6000, "linear", 24_000, "60.5"),
    "embed": (48, 5000, "cosine", 151_948, "29.0"),
    "mimic-cxr": (48, 5000, "linear", 62_336, "16.1"),
}


@pytest.mark.parametrize("name", TABLE)
def test_presets_have_every_value_of_the_papers_table(name: str) -> None:
    config = read_config(name)
    batch, epochs, schedule, images, parameters = TABLE[name]
    model = config.model
    wanted = {"batch": batch, "epochs": epochs, "learning_rate": 1e-4, "weight_decay": 1e-4}
    wanted |= {"ema": 0.9999, "p_null": 0.5, "p_group": 0.0, "decay": "constant", "warmup": 0}
    assert {key: getattr(model, key) for key in wanted} == wanted
    assert (model.schedule.kind, model.schedule.steps, model.clip) == (schedule, 1000, None)
    assert (model.network.embedding, config.judge.width) == (32, 64)
    described = describe(config)
    assert described.images == images
    assert described.steps == epochs * images // batch
    assert f"parameters: {parameters} M" in described.lines()[0]


def test_networks_and_memory_are_as_large_as_they_are_said_to_be() -> None:
    description = describe(read_config("celeba-64"))
    assert round(description.parameters / 1e6) == 22
    assert round(2 * description.parameters / 2**20) == 43
    config = read_config("portraits")  # quick on a CPU; forward is a third of a step
    assert describe(config).flops / config.model.batch / 3 < 1.1e9
    one, two = describe(tiny()), describe(tiny(model={"batch": 16}))
    split = describe(tiny(model={"batch": 16, "accumulate": 2}))
    assert two.activation_bytes == 2 * one.activation_bytes == 2 * split.activation_bytes > 0
    assert two.flops == 2 * one.flops == split.flops
    assert one.weights_bytes == 20 * (one.parameters + one.embedder_parameters)


def test_steps_in_epochs_follow_from_the_number_of_images(tmp_path: Path) -> None:
    drawn = tiny(model={"steps": None, "epochs": 3})
    assert describe(drawn).steps == drawn.model.length(48) == 18
    assert describe(drawn).lines()[1] == "steps: 18 on 48 images"
    folder = {"format": "folder", "size": 8}
    nowhere = TrainingConfig.model_validate({**drawn.model_dump(mode="json"), "data": folder})
    assert describe(nowhere).steps is None
    assert "unknown" in describe(nowhere).lines()[1]
    rows = [f"{i}.png,{i % 2},1,0" for i in range(20)]
    (tmp_path / "metadata.csv").write_text("\n".join(["file_name,smiling,male,young", *rows]))
    for i in range(20):
        (tmp_path / f"{i}.png").touch()  # labels are enough
    there, missing = (
        nowhere.model_copy(update={"data": nowhere.data.at(path)})
        for path in (tmp_path, tmp_path / "missing")
    )
    assert describe(there).images == 16
    refused("data", "a folder that exists").by(describe, missing)


def test_overrides_are_yaml_and_paths_start_at_the_folder_of_their_file(tmp_path: Path) -> None:
    config = read_config("portraits", ["model.epochs=2", "model.network.blocks=1", "seed=7"])
    assert (config.model.steps, config.model.epochs) == (None, 2)
    assert (config.model.network.blocks, config.seed) == (1, 7)
    graph = tiny(graph={"smiling": None, "male": None, "young": ["male"]}).graph
    assert graph == {"smiling": (), "male": (), "young": ("male",)}  # nothing: no parents
    data = {"format": "folder", "path": "images", "size": 8}
    file = tmp_path / "faces.yaml"
    values = tiny().model_dump(mode="json", exclude_none=True) | {"data": data}
    del values["name"]
    file.write_text(yaml.safe_dump(values))
    config = read_config(str(file))
    assert config.name == "faces"
    assert config.data.path == tmp_path / "images"
    elsewhere = read_config(str(file), data=Path("/elsewhere"))
    assert elsewhere.data.path == Path("/elsewhere")
    refused("--data", "none", "drawn").by(read_config, "portraits", data=Path("/elsewhere"))


#: Lines of an override, of what the refusal is about, and of what it says.
WRONG = """
model.learning_rat=1 | model, 'learning_rat' | 'learning_rate'
modle.batch=1 | 'modle' | did you mean 'model'?
model.kind=difusion | model, kind | did you mean 'diffusion'?
model.kind=2 | model, kind | a name | quote it
model=2 | 'model' | dictionary
data.cuont=5 | 'data.cuont' | did you mean 'count'?
promise.sorce=mine | 'promise.sorce' | did you mean 'source'?
model.steps=null | model | exactly one of 'steps' and 'epochs'
model={steps: 1, epochs: 3} | model | exactly one of 'steps' and 'epochs'
model.learning_rate=.nan | model, 'learning_rate' | finite
model.batch=0 | model, 'batch' | greater than 0 | int 0
model.batch=many | model, 'batch' | integer | 'many'
data.format=folders | 'data.format' | 'embed' | did you mean 'folder'?
data={path: faces} | 'data.format' | one of 'folder', | got none | add this key
data.format=null | 'data.format' | 'embed' | None
model.network.attention=[5] | model.network | not among the sizes
model.network.base=1 | model.network | base must be even, and 1 is not
model.network.base=33 | model.network | base must be even, and 33 is not
model.network.base=1000000 | model.network, 'base' | equal to | 1000000
model.network.head_channels=3 | model.network | head_channels 3 | 128 channels
model.network.multipliers=[] | model.network | multipliers
model.network.embedding=1000000 | model.network, 'condition' | 3000000
judge.width=1000000 | judge, 'width' | 1000000
model.schedule.steps=10 | schedule, steps | from 25 | 10
seed=99999999999999999999 | 'seed' | 9223372036854775807
model.steps=1000000000 | model, 'steps' | 999999999
model.batch=1000001 | model, 'batch' | 1000000
model.accumulate=3 | configuration | divisible
graph.age=[] | graph | 'smiling' | 'age'
graph.male=[female] | graph | female
attributes.male.kind=binery | attribute 'male' | did you mean 'binary'?
data.seed=1000000 | data, seed | for validation and evaluation
diffusion | --set | model.batch=64
model.batch.deep=1 | --set model.batch.deep | 'batch' to hold keys
name=[ | --set name | expected YAML | quote it
name={a: 1, a: 2} | --set name | 'a' twice
graph=5 | 'graph' | dictionary
graph.male=young | 'graph.male' | a list | 'young' | write [young]
attributes.a+b={kind: binary} | name | '+', which joins the targets | 'a+b'
attributes.young={kind: categorical, levels: [0, 1]} | 'young' | quote every level
"""


def test_whatever_is_wrong_is_refused_in_one_line_and_all_of_it_at_once() -> None:
    for line in WRONG.strip().splitlines():
        override, *said = line.split(" | ")
        refused(*said).by(read_config, "portraits", [override])
    for name in NO_FOLDERS:
        refused("name", "a plain folder name").by(read_config, "portraits", [f"name={name}"])
    sections = {"judge": {"width": 0}, "run": {"keep": "x"}, "modle": {}}
    refused("'modle'", "did you mean 'model'?", "'judge.width'", "'run.keep'").by(tiny, **sections)
    kinds = {"young": {"kind": "binry"}, "male": {"kind": "binary", "levels": ["a"]}}
    with refused("attribute 'male'", "did you mean 'binary'?", "attribute 'young'"):
        tiny(attributes=kinds)
    refused("'key0'", "Also: 4 more.").by(tiny, **{f"key{n}": 1 for n in range(9)})


def test_what_no_network_can_take_or_is_no_configuration_is_refused_before_anything_is_done(
    tmp_path,
) -> None:
    with refused("judge.batch", "8 × 8 pixels", "more than 1 value"):
        train(tiny(judge={"batch": 1}), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    refused("judge.batch", "8 × 8 pixels").by(describe, tiny(judge={"batch": 1}))
    with refused("network", "size 8 with 4 levels"):
        tiny(model={"network": {"base": 8, "multipliers": [1, 2, 2, 2], "blocks": 1}})
    with refused("epochs, steps", "to 999999999", "5400000000"):
        train(tiny(model={"steps": None, "epochs": 900_000_000}), tmp_path / "run")
    assert not (tmp_path / "run/training/state").exists()
    refused("configuration 'portrait'", "did you mean 'portraits'?").by(read_config, "portrait")
    refused("missing.yaml", "No such file").by(read_config, str(tmp_path / "missing.yaml"))
    for section in ("data", "model"):
        with refused(f"'{section}'", "add this key"):
            validate(TrainingConfig, tiny().model_dump(exclude={section}), "configuration")
