"""The training configuration: read from YAML and ``--set``, validated, frozen.

:func:`read_config` turns a preset or a file into a :class:`TrainingConfig`. Defaults are those of
the paper (App. D) wherever it states one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from fcfg.causal.attributes import AttributeSpace
from fcfg.causal.graph import CausalGraph, check_graph
from fcfg.datasets.registry import DataConfig
from fcfg.support.config_files import (
    looks_like_a_file,
    parse_yaml,
    parse_yaml_value,
    read_yaml,
    validate,
)
from fcfg.support.errors import InputError, check_among, check_is, nearest, together
from fcfg.support.hashing import LARGEST_SEED
from fcfg.support.names import check_folder_name
from fcfg.training.kinds import (
    Inputs,
    JudgeTraining,
    ModelTraining,
    Part,
    preset_files,
    read_model,
)
from fcfg.training.sections import Promise, Run, ScmTraining, Section


class TrainingConfig(Section):
    """The whole configuration of ``fcfg train``."""

    name: str  #: also the default folder in runs/
    promise: Promise | None = None
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    data: DataConfig
    attributes: dict[str, dict[str, Any]]  #: name to kind, as in AttributeSpace.from_config
    graph: dict[str, tuple[str, ...]]  #: name to parents
    model: SerializeAsAny[ModelTraining]
    judge: JudgeTraining = JudgeTraining(width=24)
    scm: ScmTraining = ScmTraining()
    run: Run = Run()

    _check_name = field_validator("name")(check_folder_name)

    @field_validator("model", mode="before")
    @classmethod
    def _of_its_kind(cls, model: object) -> object:
        return read_model(model) if isinstance(model, Mapping) else model

    @field_validator("graph", mode="before")
    @classmethod
    def _empty_means_no_parents(cls, graph: object) -> object:
        """Read ``age:`` with nothing after it as no parents."""
        if not isinstance(graph, Mapping):
            return graph
        return {node: () if parents is None else parents for node, parents in graph.items()}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Derive the objects of the run; each of them checks the values it is made of."""
        together(
            lambda: check_graph(self.space, self.causal_graph),
            lambda: self.model.shape(self.inputs),
            lambda: self.judge.shape(self.inputs),
        )
        return self

    @cached_property
    def space(self) -> AttributeSpace:
        """The attributes."""
        return AttributeSpace.from_config(self.attributes)

    @cached_property
    def causal_graph(self) -> CausalGraph:
        """The graph over the attributes."""
        return CausalGraph(self.graph)

    @property
    def inputs(self) -> Inputs:
        """The attributes and images that networks are made for."""
        dimensions: int = getattr(self.data, "dimensions", 2)
        shape = self.data.channels, self.data.size
        return Inputs(self.space, *shape, self.seed, dimensions=dimensions)

    @property
    def networks(self) -> dict[str, Part]:
        """The networks that are trained, by name and in order; the judge comes first."""
        parts = Part("judge", "judge", self.judge, self.judge), *self.model.parts
        return {part.name: part for part in parts}

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts of the training, in order."""
        return "scm", *self.networks

    def identity(self) -> dict[str, Any]:
        """Return what must stay the same when a run is resumed."""
        may_change: dict[str, Any] = dict.fromkeys(("name", "promise", "run"), True)
        may_change["data"] = {"path", "cache"}
        for part in self.networks.values():
            section = may_change
            for key in part.key.split("."):
                section = section.setdefault(key, {})
            section |= dict.fromkeys(part.settings.may_change, True)
        return self.model_dump(mode="json", exclude=may_change)


def presets() -> tuple[str, ...]:
    """Return the names of the configurations in the package."""
    return tuple(preset_files())


def read_config(
    source: str, overrides: Sequence[str] = (), *, data: Path | None = None
) -> TrainingConfig:
    """Read a configuration.

    >>> read_config("portraits", ["model.batch=64"]).model.batch
    64

    Args:
        source: Name of a preset, or path of a YAML file. Relative paths in a file start at its
            folder.
        overrides: Changes of the form ``a.b=c``, with values in YAML.
        data: Folder of the data, instead of ``data.path``.
    """
    values, base = read_values(source)
    values.setdefault("name", Path(source).stem)
    together(*(partial(_override, values, override) for override in overrides))
    section = values.get("data")
    if isinstance(section, dict):
        for key in ("path", "cache"):
            if isinstance(section.get(key), str):
                section[key] = str(base / os.path.expanduser(section[key]))
    config = validate(TrainingConfig, values, f"configuration {source}")
    return config if data is None else config.model_copy(update={"data": config.data.at(data)})


def read_values(source: str) -> tuple[dict[str, Any], Path]:
    """Return the unchecked values of a preset or a file, and where its relative paths start."""
    advice = "correct it; see the presets, or `fcfg data check DIR --init my.yaml`"
    subject, path = f"configuration '{source}'", Path(source)
    known = preset_files()
    if source in known:
        text = known[source].read_text("utf-8")
        return _extended(parse_yaml(text, subject, do=advice), subject), Path.cwd()
    expected = "a preset or a YAML file"
    if not looks_like_a_file(source):
        do = nearest(source, tuple(known))
        raise InputError(subject, expected=expected, got="neither", do=do)
    values = read_yaml(path, subject, expected=expected, do=advice)
    return _extended(values, subject), path.absolute().parent


def _extended(values: dict[str, Any], subject: str) -> dict[str, Any]:
    """Add the values of the preset that a configuration extends."""
    if "extends" not in values:
        return values
    base = values.pop("extends")
    check_among(f"{subject}, extends", base, presets())
    return _merged(read_values(base)[0], values)


def _merged(base: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace values in sections, unless a section is of another kind."""
    merged = dict(base)
    for key, value in values.items():
        before = base.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            is_same = value.get("kind", before.get("kind")) == before.get("kind")
            merged[key] = _merged(before, value) if is_same else value
        else:
            merged[key] = value
    return merged


def _override(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    *sections, name = key.strip().split(".")
    if not equals or not all((*sections, name)):
        raise InputError(
            "--set", expected="key.key=value", got=repr(override), do="write model.batch=64"
        )
    section: Any = values
    for parent in sections:
        section = section.setdefault(parent, {})
        check_is(f"--set {key}", section, dict, f"'{parent}' to hold keys", do="shorten the key")
    section[name] = parse_yaml_value(text, f"--set {key}", do="quote it")
    rival = {"steps": "epochs", "epochs": "steps"}.get(name)
    if sections == ["model"] and rival:  # one of the two replaces the other
        section.pop(rival, None)
