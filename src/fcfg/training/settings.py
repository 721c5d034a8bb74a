"""From what users type to a :class:`fcfg.training.config.TrainingConfig`.

A preset's name or a YAML file, then ``--set a.b=c`` on top. Whatever is wrong comes back as one
line that names the key, and the nearest key that exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from fcfg.support.config_errors import refusal
from fcfg.support.config_files import looks_like_a_file, parse_yaml, parse_yaml_value, read_yaml
from fcfg.support.errors import InputError, nearest, short
from fcfg.training.config import TrainingConfig


def presets() -> tuple[str, ...]:
    """Names of the configurations that come with the package."""
    folder = resources.files("fcfg.training") / "presets"
    names = (entry.name for entry in folder.iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def read_config(
    source: str, overrides: Sequence[str] = (), *, data: Path | None = None
) -> TrainingConfig:
    """Read a configuration.

    >>> read_config("portraits", ["diffusion.batch=64"]).diffusion.batch
    64

    Args:
        source: Name of a preset, or a YAML file. Relative paths in a file start at its folder.
        overrides: Texts ``a.b=c``, whose values are YAML, too.
        data: Where the data lie, instead of ``data.path``.
    """
    values, base = _values(source)
    values.setdefault("name", Path(source).stem)
    for override in overrides:
        _set(values, override)
    _absolute(values, base)
    config = validated(values, f"configuration {source}")
    return config if data is None else config.with_data(data.absolute())


def validated(values: Mapping[str, Any], subject: str = "configuration") -> TrainingConfig:
    """Check a configuration, and refuse it in one line where it is not legal."""
    try:
        return TrainingConfig.model_validate(values)
    except ValidationError as error:
        raise refusal(error, TrainingConfig, subject) from None


def to_yaml(config: TrainingConfig) -> str:
    """A configuration as a file that :func:`read_config` reads back."""
    return yaml.safe_dump(config.model_dump(mode="json", exclude_none=True), sort_keys=False)


def _values(source: str) -> tuple[dict[str, Any], Path]:
    """What a preset or a file says, and where its relative paths start."""
    advice = "mend it; see the presets, or `fcfg data check DIR --init my.yaml`"
    subject, path = f"configuration '{source}'", Path(source)
    if source in presets():
        file = resources.files("fcfg.training") / "presets" / f"{source}.yaml"
        return parse_yaml(file.read_text("utf-8"), subject, do=advice), Path.cwd()
    expected = f"a preset ({', '.join(presets())}) or a YAML file"
    if not looks_like_a_file(source):
        do = nearest(source, presets())
        raise InputError(subject, expected=expected, got="neither", do=do)
    return read_yaml(path, subject, expected=expected, do=advice), path.absolute().parent


def _set(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path):
        raise InputError(
            "--set", expected="key.key=value", got=repr(override), do="write diffusion.batch=64"
        )
    section: Any = values
    for name in path[:-1]:
        section = section.setdefault(name, {})
        if not isinstance(section, dict):
            raise InputError(
                f"--set {key}",
                expected=f"'{name}' to hold keys",
                got=short(section),
                do="shorten it",
            )
    section[path[-1]] = parse_yaml_value(text, f"--set {key}", do="quote it")
    rival = {"steps": "epochs", "epochs": "steps"}.get(path[-1])
    if path[:-1] == ["diffusion"] and rival:  # one of the two replaces the other
        section.pop(rival, None)


def _absolute(values: dict[str, Any], base: Path) -> None:
    """Let paths in a file start at its folder, wherever the command is run."""
    data = values.get("data")
    if isinstance(data, dict):
        for key in ("path", "cache"):
            if isinstance(data.get(key), str):
                data[key] = str(base / Path(data[key]).expanduser())
