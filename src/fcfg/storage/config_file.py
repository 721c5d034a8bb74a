"""Reading ``config.json`` of a folder, and the names of the models that come with the package."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fcfg.causal.graph import CausalGraph
from fcfg.storage.config import FORMAT, ModelConfig
from fcfg.storage.kinds import find_kind
from fcfg.storage.weight_files import ADVICE, refusal
from fcfg.support.config_files import parse_json, read_text
from fcfg.support.errors import InputError, check_is

CONFIG = "config.json"
_MODELS = Path(__file__).parents[1] / "pipeline" / "models"


def shipped() -> tuple[str, ...]:
    """Return the names of the models that come with the package."""
    return tuple(sorted(config.parent.name for config in _MODELS.glob(f"*/{CONFIG}")))


def read_outline(path: str | os.PathLike[str]) -> tuple[type[Any], CausalGraph]:
    """Return the class of a model and its causal graph, without reading its weights."""
    config, _ = read_config(model_folder(path))
    return find_kind(config.kind, f"checkpoint {path}").model, CausalGraph(config.graph)


def replaced_files(folder: Path) -> set[str]:
    """Return the names of the files, beside the config, that a new model in a folder replaces.

    A ``config.json`` that fcfg did not write is refused.
    """
    if not (folder / CONFIG).exists():
        return set()
    try:
        config, _ = read_config(folder)
    except InputError as error:
        raise error.about(f"checkpoint {folder}", "choose another folder") from error
    weights = {Path(name).name for name in config.files.values()}
    return weights | {record.file for record in config.records.values()}


def as_folder(path: str | os.PathLike[str]) -> Path:
    """Return the path of a folder; refuse what is no path."""
    check_is(
        "checkpoint",
        path,
        (str, os.PathLike),
        "the path of a folder",
        do="pass a string or a path",
    )
    return Path(path)


def model_folder(path: str | os.PathLike[str]) -> Path:
    """Return the folder of a model, or of one that comes with the package by its name."""
    folder = as_folder(path)
    return _MODELS / folder if str(path) in shipped() else folder


def read_config(folder: Path) -> tuple[ModelConfig[Any], dict[str, Any]]:
    """Return the config, and the same as plain values."""
    subject = f"checkpoint {folder}"
    names = f", or one of the shipped models ({', '.join(shipped())})" if shipped() else ""
    expected = f"a folder with a {CONFIG} that fcfg wrote{names}"
    if not os.path.exists(folder / CONFIG):  # unlike Path.exists, False for too long a name
        close = get_close_matches(str(folder), shipped(), n=1)
        found = "a file" if os.path.isfile(folder) else "no such folder"
        raise InputError(
            subject,
            expected=expected,
            got=f"no {CONFIG} in it" if os.path.isdir(folder) else found,
            do=f"did you mean '{close[0]}'?" if close else ADVICE,
        )
    text = read_text(folder / CONFIG, subject, expected=expected)
    values = parse_json(text, f"{subject}, {CONFIG}", do=ADVICE)
    if "format" not in values:
        raise refusal(folder, expected, "something else")
    version = values["format"]
    if not isinstance(version, int) or version > FORMAT:
        raise InputError(
            subject,
            expected=f"format version {FORMAT} or older",
            got=repr(version),
            do="upgrade fcfg to read it",
        )
    kind = find_kind(values.get("kind", "diffusion"), subject)
    try:
        return kind.config.model_validate_json(text), values
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(key) for key in first["loc"])
        raise refusal(folder, f"a valid {CONFIG}", f"'{where}': {first['msg']}") from error
