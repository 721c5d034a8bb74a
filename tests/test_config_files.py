"""Configuration files: accepted and rejected input."""

from __future__ import annotations

import json
import os
from pathlib import Path

import yaml

from fcfg.support.config_files import parse_json, parse_yaml, parse_yaml_value, read_yaml
from fcfg.training import read_config
from refusal import refused, refused_line
from runs import tiny, tiny_file


def yaml_of(text: str) -> object:
    return parse_yaml_value(text, "mine.yaml", do="fix it")


def test_what_is_legal_is_what_pyyaml_reads() -> None:
    plain = "a: {b: [1, two, 3.0, null, true]}\nc: 2001-01-01"
    for text in ("", plain, "[{a: 1}, {a: 2}]", "[" * 40 + "]" * 40):
        assert yaml_of(text) == yaml.safe_load(text)


def test_what_is_not_legal_is_refused_with_its_place() -> None:
    for text, *fragments in (
        ("graph: {age: [], hair: [age], hair: []}", "'hair' twice, in line 1"),
        ("a: 1\nb: 2\n'a': 3", "'a' twice, in line 3"),
        ("1: one\ntrue: yes", "True twice, in line 2"),
        *((level * 100_000, "too many levels") for level in ("[", "{a: ")),
        ("a: &a [ha]\nb: *a", "the alias *a", "in line 2"),
        *((f"a: &a {alias}", "the alias *a") for alias in ("[*a]", "{b: 1}\nc: {<<: *a}")),
        ("a: [1,", "in line 1"),
        ("--- 1\n--- 2", "another document", "in line 2"),
        *(("a: 2001-99-99", "month"), ("!!timestamp now",), ("!!bool maybe", "maybe")),
        ("!!python/object/apply:os.getcwd []", "constructor", "in line 1"),
        *(("1" * 5000, "5000 digits"), ("a: \0", "special characters")),
    ):
        refused("mine.yaml", "expected YAML", *fragments, "fix it").by(yaml_of, text)


def test_what_is_no_mapping_is_refused_and_json_is_held_to_the_same() -> None:
    for text in ("- 1", "5", "", "{1: a}"):
        with refused("mine.yaml", "a mapping with strings as keys", "see the manual"):
            parse_yaml(text, "mine.yaml", do="see the manual")
    values = {"a": {"b": 1}, "b": 2}
    assert parse_json(json.dumps(values), "config.json", do="fix it") == values
    for text in ('{"a": {"b": 1, "c": 2, "b": 3}}', "[" * 100_000, "{", "[]"):
        refused("config.json", "fix it").by(parse_json, text, "config.json", do="fix it")


def test_only_regular_files_of_some_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "long").open("wb") as file:
        file.truncate(2**40)  # which takes no room
    (tmp_path / "bytes").write_bytes(b"\xff")
    for path, got in {
        Path("/dev/zero"): "a pipe or a device",
        tmp_path / "pipe": "a pipe or a device",
        tmp_path: "a folder",
        tmp_path / "long": "more than 4 MiB",
        tmp_path / "bytes": "no text in UTF-8",
        tmp_path / "missing": "No such file",
        tmp_path / ("x" * 5000): "too long",
        tmp_path / "a\0b": "null byte",
    }.items():
        advice = "restore it" if got == "no text in UTF-8" else "check the path"
        with refused("mine", "a YAML file", got, advice):
            read_yaml(path, "mine", expected="a YAML file", do="fix it")
    (tmp_path / "text").write_text("grün: 1")
    assert read_yaml(tmp_path / "text", "mine", expected="a text", do="") == {"grün": 1}


def test_keys_without_a_value_stay_so_in_what_is_written(tmp_path: Path) -> None:
    """Though they have one by default."""
    absent = {"model": {"ema": None}, "judge": {"steps": None, "epochs": 2}}
    assert read_config(str(tiny_file(tmp_path, **absent))) == tiny(**absent)


def test_trainings_and_the_copy_that_a_run_keeps_are_read_so(tmp_path: Path, capsys) -> None:
    """As are experiments and what a data check is told, in their own tests."""
    refused("/dev/zero").by(read_config, "/dev/zero")
    run = tmp_path / "run"
    (run / "training").mkdir(parents=True)
    for garbage in ("{", "- 1", "a: 1\na: 2"):
        (run / "training/config.yaml").write_text(garbage)
        words = ["train", str(tiny_file(tmp_path)), "--out", str(run)]
        refused_line(words, "config.yaml", capsys)
