"""Models on a hub: sent, fetched once, checked, and nothing but what a model is made of."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import yaml

import fcfg
from fcfg.cli import main
from fcfg.storage.hub import HubName
from local_hub import Hub, local_hub
from refusal import refused
from tiny import tiny_pipeline


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub, and an empty cache of it."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", "hf_nobody")
    monkeypatch.chdir(tmp_path)
    with local_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        yield hub


def test_a_model_that_was_sent_comes_back_the_same(hub: Hub) -> None:
    model = tiny_pipeline()
    name = model.push_to_hub("hf://me/tiny")
    assert re.fullmatch(r"hf://me/tiny@[0-9a-f]{40}", name)
    for each in ("hf://me/tiny", name):
        back = fcfg.load(each)
        for one, other in zip(
            model.image_model.parameters(), back.image_model.parameters(), strict=True
        ):
            assert torch.equal(one, other)


def test_a_version_stays_when_a_newer_one_comes_and_branches_are_apart(hub: Hub) -> None:
    first = tiny_pipeline().push_to_hub("hf://me/tiny")
    newer = tiny_pipeline()
    with torch.no_grad():
        next(newer.image_model.parameters()).mul_(2)
    newer.push_to_hub("hf://me/tiny@trial")
    weights = {
        name: next(fcfg.load(name).image_model.parameters())
        for name in (first, "hf://me/tiny", "hf://me/tiny@trial")
    }
    assert torch.equal(weights[first], weights["hf://me/tiny"])
    assert not torch.equal(weights[first], weights["hf://me/tiny@trial"])
    newer.push_to_hub("hf://me/tiny")
    left = [name for name in hub.files("me/tiny", "main")[1] if name.endswith(".safetensors")]
    assert len(left) == len({re.sub("-.*", "", name) for name in left})  # none of the older


@pytest.mark.promise("From a hub, only JSON, safetensors, pages and pictures are fetched")
def test_only_what_a_model_is_made_of_is_fetched(hub: Hub) -> None:
    tiny_pipeline().push_to_hub("hf://me/tiny")
    files = dict(hub.files("me/tiny", "main")[1])
    hub.commit("me/tiny", "main", files | {"evil.pkl": b"x", "run.py": b"x", "model.bin": b"x"})
    fcfg.load("hf://me/tiny")
    asked = {line.rpartition("/")[2] for line in hub.asked if "/resolve/" in line}
    assert "config.json" in asked
    assert not asked & {"evil.pkl", "run.py", "model.bin"}


@pytest.mark.promise("Weights that were cut short or changed are refused")
def test_weights_that_were_changed_on_the_hub_are_refused(hub: Hub) -> None:
    tiny_pipeline().push_to_hub("hf://me/tiny")
    files = dict(hub.files("me/tiny", "main")[1])
    name = next(name for name in files if name.startswith("network"))
    hub.commit("me/tiny", "main", files | {name: files[name][:-4] + b"\0\0\0\1"})
    with refused("model", name):
        fcfg.load("hf://me/tiny")


def test_what_was_fetched_needs_no_network_and_what_was_not_says_so_in_one_line(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = tiny_pipeline().push_to_hub("hf://me/tiny")
    for each in (name, "hf://me/tiny"):
        fcfg.load(each)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # where nobody listens
    for each in (name, "hf://me/tiny"):
        assert fcfg.load(each).space == tiny_pipeline().space
    with refused("model hf://me/other", "no connection"):
        fcfg.load("hf://me/other")
    with refused("model hf://me/tiny", "no connection"):
        tiny_pipeline().push_to_hub("hf://me/tiny")
    capsys.readouterr()
    assert main(["generate", "hf://me/other", "x.png", "--do", "a=1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("text", ["hf://tiny", "hf://a/b/c", "hf://a/b@", "hf://../b c", "hf://"])
def test_a_name_that_is_none_is_refused_before_anything_is_asked(text: str, hub: Hub) -> None:
    with refused("model", "hf://OWNER/NAME@REVISION"):
        fcfg.load(text)
    with refused("model", "hf://OWNER/NAME@REVISION"):
        tiny_pipeline().push_to_hub(text)
    assert hub.asked == []


def test_what_the_hub_does_not_have_is_refused(hub: Hub) -> None:
    tiny_pipeline().push_to_hub("hf://me/tiny")
    with refused("model hf://me/nothing", "none that you may read"):
        fcfg.load("hf://me/nothing")
    with refused("model hf://me/tiny@v9", "no revision 'v9'"):
        fcfg.load("hf://me/tiny@v9")
    hub.closed.add("me/tiny")
    with refused("model hf://me/tiny", "a refusal: ", "403"):
        tiny_pipeline().push_to_hub("hf://me/tiny")
    hub.commit("you/words", "main", {"README.md": b"words"})
    with refused("model hf://you/words", "without config.json"):
        fcfg.load("hf://you/words")


NONSENSE = {
    "no text": lambda status, headers, data: (status, headers, b"\xff" + data),
    "no JSON": lambda status, headers, data: (status, headers, b"[" + data),
    "a list": lambda status, headers, data: (status, headers, b"[]"),
    "a name of a file that none has": lambda status, headers, data: (
        status,
        {name: value * 100 if name == "ETag" else value for name, value in headers.items()},
        data,
    ),
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_answers_of_a_hub_that_make_no_sense_are_refused(kind: str, hub: Hub) -> None:
    tiny_pipeline().push_to_hub("hf://me/tiny")
    hub.distort = NONSENSE[kind]
    with refused("model hf://me/tiny", "a model on the hub"):
        fcfg.load("hf://me/tiny")


def test_a_card_says_what_the_model_is_and_what_was_measured(hub: Hub, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text(
        "model,do,guidance,metric,attribute,value,low,high,n,unit,best,note\n"
        "tiny,do(a),cfg:2,drift,a,0.25,0.1,0.4,32,sd,,\n",
        "utf-8",
    )
    tiny_pipeline().push_to_hub("hf://me/tiny", results=table, license="mit")
    card = hub.files("me/tiny", "main")[1]["README.md"].decode()
    front = yaml.safe_load(card.split("---\n")[1])
    assert (front["library_name"], front["license"]) == ("fcfg", "mit")
    (result,) = front["model-index"][0]["results"]
    assert result["metrics"][0]["value"] == 0.25
    assert "| do(a) | cfg:2 | drift a | 0.25 (0.1 to 0.4) | 32 |" in card
    assert 'fcfg.load("hf://me/tiny")' in card
    again = fcfg.load("hf://me/tiny")
    again.push_to_hub("hf://me/copy")  # with the page that it came with, and a front of its own
    copy = hub.files("me/copy", "main")[1]["README.md"].decode()
    assert copy.count("library_name") == 1
    assert "# tiny" in copy


def test_models_are_listed_by_where_they_are(hub: Hub, tmp_path: Path, capsys) -> None:
    name = tiny_pipeline().push_to_hub("hf://me/tiny")
    assert main(["models"]) == 0
    assert "hf://" not in capsys.readouterr().out
    fcfg.load(name)
    fcfg.save(tiny_pipeline(), tmp_path / "runs" / "mine")
    (tmp_path / "runs" / "theirs").mkdir()
    (tmp_path / "runs" / "theirs" / "config.json").write_text("{}", "utf-8")
    assert main(["models"]) == 0
    said = capsys.readouterr().out
    lines = [line.split() for line in said.splitlines() if len(line.split()) > 1]
    found = {words[0]: words[1] for words in lines}
    assert found["portraits"] == "shipped"
    assert found[name] == "from"
    assert found[str(Path("runs/mine"))] == "yours"
    assert "theirs" not in said
    assert main(["models", "nowhere"]) == 2
    assert "expected a folder with models, got 'nowhere'" in capsys.readouterr().err


def test_an_error_of_the_disk_is_not_one_of_the_hub(hub: Hub, monkeypatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "cache")

    monkeypatch.setattr("huggingface_hub.HfApi.snapshot_download", full)
    with pytest.raises(OSError, match="No space left"):
        HubName("me/tiny").fetch()
    shutil.rmtree("cache", ignore_errors=True)
