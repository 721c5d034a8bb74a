"""Where a model is: a folder of yours, one that comes with a package, or one on the hub."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from fcfg.storage.hub import PREFIX, HubName
from fcfg.support.errors import InputError, check_is

CONFIG = "config.json"
ADVICE = "check the path, or copy the folder again"
_OWN = Path(__file__).parents[1] / "pipeline" / "models"
_MORE = "fcfg_models"  #: a package without code, which is installed beside this one
_IN_MORE = ("digits", "portraits-causal", "radiographs")


def shipped() -> Mapping[str, Path]:
    """Return the folders of the models that come with installed packages, by name."""
    more = find_spec(_MORE)
    homes = [_OWN, *map(Path, (more and more.submodule_search_locations) or ())]
    found = [config.parent for home in homes for config in home.glob(f"*/{CONFIG}")]
    return {folder.name: folder for folder in sorted(found, key=lambda folder: folder.name)}


def as_folder(path: str | os.PathLike[str]) -> Path:
    """Return the path of a folder; refuse what is no path."""
    check_is("model", path, (str, os.PathLike), "the path of a folder")
    return Path(path)


def model_folder(path: str | os.PathLike[str]) -> Path:
    """Return the folder of a model, of one that comes with a package, or of one on the hub."""
    folder = as_folder(path)
    if str(path).startswith(PREFIX):
        fetched = HubName.of(str(path)).fetch()
        if not (fetched / CONFIG).exists():
            expected, got = "a model that fcfg wrote", f"one without {CONFIG}"
            raise InputError(f"model {path}", expected=expected, got=got, do="check its page")
        return fetched
    return shipped().get(str(path), folder)


def expected_folder() -> str:
    """Return what a path of a model should lead to, as messages say it."""
    names = f", or one of the shipped models ({', '.join(shipped())})" if shipped() else ""
    return f"a folder with a {CONFIG} that fcfg wrote{names}"


def check_exists(folder: Path) -> None:
    """Refuse a folder without a model, and say which name may have been meant."""
    if os.path.exists(folder / CONFIG):  # unlike Path.exists, False for too long a name
        return
    name, do = str(folder), ADVICE
    if name in _IN_MORE:
        do = "install the package that has it: pip install 'fcfg[models]'"
    elif close := get_close_matches(name, [*shipped(), *_IN_MORE], n=1):
        do = f"did you mean '{close[0]}'?"
    found = "a file" if os.path.isfile(folder) else "no such folder"
    got = f"no {CONFIG} in it" if os.path.isdir(folder) else found
    raise InputError(f"model {folder}", expected=expected_folder(), got=got, do=do)
