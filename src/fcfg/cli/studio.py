"""``fcfg studio``: a page in the browser on which one asks what-ifs."""

from __future__ import annotations

from pathlib import Path

from fcfg.cli.computing import Computing, computing_by
from fcfg.cli.options import Given, options_of, with_options
from fcfg.support.errors import optional


@with_options
def studio(
    model: str = "portraits-128",
    /,
    *,
    place: Given = options_of("studio.server.Place", "host port token"),
    computing: Computing = computing_by("device precision"),
    compare: list[str] | None = None,
    open_: bool = True,
    export: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Open a page on which you ask what-ifs about pictures.

    Choose a picture, change an attribute, and see the counterfactual beside it. Nothing leaves
    this machine, and nothing is written to it. Ctrl-C ends the server.

    Examples:
      fcfg studio
      fcfg studio runs/faces --compare runs/faces-long
      fcfg studio portraits-causal --port 0 --no-open
      fcfg studio portraits-128 --export gallery

    Options:
        compare: Another model of the same attributes. Repeatable.
        open_: Open the page in the browser.
        export: Write a page with answers computed beforehand, which needs no server, and end.
    """
    for package in ("starlette", "uvicorn"):
        optional(package, "studio", "app")
    import webbrowser

    from fcfg.model import load
    from fcfg.studio.app import Studio
    from fcfg.studio.export import export_gallery
    from fcfg.studio.models import as_studio_models, choose_execution
    from fcfg.studio.server import Place, server_of
    from fcfg.support.progress import share_bar

    computing.check()
    target, precision = computing.target, computing.precision
    if export is not None:
        own = model, load(model).to(target).prepare(precision)
        (chosen,) = as_studio_models([own], public=True)  # a page for strangers
        with share_bar() as on_progress:
            page = export_gallery(chosen, export, overwrite, on_progress)
        print(f"Look at {page}")
        return
    where = Place(**place)
    with where.open() as opened:
        rule = where.rule()
        loaded = [(name, load(name).to(target)) for name in (model, *(compare or []))]
        models = as_studio_models(loaded, public=rule.token is not None)
        threads = choose_execution(models[0].model, precision)
        for other in models[1:]:
            other.model.prepare(models[0].model.precision or precision)
        address = where.address(opened, rule)

        def ready() -> None:
            by = f"{target}, {threads} threads" if target == "cpu" else target
            print(f"Studio of {', '.join(m.name for m in models)} on {by}: {address}")
            print("Ctrl-C ends it.", flush=True)
            if open_:
                webbrowser.open(address)

        server_of(Studio(models, rule, ready)).run(sockets=[opened])
