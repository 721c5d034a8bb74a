"""``fcfg models``: the models that can be asked here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from fcfg.cli.tables import show_rows
from fcfg.support.errors import InputError


def models(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="Where your own models are; runs.")
    ] = None,
) -> None:
    """List the models that can be asked without a network: shipped, fetched from a hub, and yours.

    Other commands take the name in the first column.

    Examples:
      fcfg models
      fcfg models trained
    """
    from fcfg.storage import shipped
    from fcfg.storage.hub import cached

    if folder is not None and not folder.is_dir():
        expected, do = "a folder with models", "check the path"
        raise InputError("folder", expected=expected, got=f"'{folder}'", do=do)
    folders = sorted((folder or Path("runs")).glob("*/config.json"))
    own = {str(path.parent): path.parent for path in folders}
    homes = {"shipped": shipped(), "from the hub": cached(), "yours": own}
    rows = [row for home, found in homes.items() for row in _rows(home, found.items())]
    show_rows(("model", "where", "kind", "attributes", "size (MB)"), rows)


def _rows(home: str, found: Iterable[tuple[str, Path]]) -> Iterable[tuple[str, ...]]:
    from fcfg.storage import read_outline

    for name, folder in found:
        try:
            model, graph = read_outline(folder)
        except InputError:  # of another package
            continue
        size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        yield name, home, model.kind, ", ".join(graph.nodes), f"{size / 1e6:.1f}"
