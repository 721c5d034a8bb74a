"""``fcfg data``: looks at data before anything is trained on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from fcfg.errors import InputError

if TYPE_CHECKING:  # both are heavy, and --help needs neither
    from fcfg.attributes import AttributeSpace
    from fcfg.datasets.check import Report
    from fcfg.datasets.folder import FolderData

data = typer.Typer(no_args_is_help=True)

_STYLE = {"error": "bold red", "warning": "yellow", "info": "cyan"}


@data.callback()
def _group() -> None:
    """Look at data before training on it."""


@data.command("check")
def check(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with metadata.csv and images.")
    ],
    config: Annotated[
        Path | None, typer.Option(help="Training configuration: its data and attributes.")
    ] = None,
    group: Annotated[str | None, typer.Option(help="Column with the patient or person.")] = None,
    split: Annotated[
        str | None, typer.Option(help="Column that holds train, val or test.")
    ] = None,
    init: Annotated[
        Path | None, typer.Option(help="Write a first training configuration to this file.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where sheet.png and correlations.png go. [DIR/.fcfg-check]"),
    ] = None,
) -> None:
    """List everything that is wrong with a folder of images, at once.

    Exits with 0 if training could begin, with 1 if it could not, with 2 if there was nothing to
    look at. A sheet of some images and a picture of the correlations show the rest.

    Example:
        fcfg data check faces/ --group person --init faces.yaml
    """
    from fcfg.datasets.check import check_folder

    if init is not None and init.exists():
        raise InputError(
            "--init",
            expected="a file that does not exist yet",
            got=f"'{init}'",
            do="choose another name, or remove it",
        )
    options, space = _options(config, group, split)
    console = Console(highlight=False, soft_wrap=True)
    with Console(stderr=True).status("reading images") as status:
        report = check_folder(
            folder,
            options,
            space,
            lambda what, done, total: status.update(f"{what}: {done} of {total}"),
        )
    _print(report, console)
    _write_pictures(report, folder / ".fcfg-check" if out is None else out, console)
    if init is not None and report.space is not None:
        init.write_text(starting_config(report, options), encoding="utf-8")
        console.print(escape(f"Wrote {init}: read it, correct it, then: fcfg train {init}"))
    raise typer.Exit(0 if report.ok else 1)


def _options(
    config: Path | None, group: str | None, split: str | None
) -> tuple[FolderData, AttributeSpace | None]:
    from pydantic import BaseModel, ValidationError

    from fcfg.attributes import AttributeSpace
    from fcfg.config_files import read_yaml
    from fcfg.datasets.folder import FolderData
    from fcfg.refusals import refusal

    class Sections(BaseModel):
        data: FolderData = FolderData()
        attributes: dict[str, dict[str, Any]] | None = None

    written: dict[str, Any] = {}
    if config is not None:
        expected, advice = "a training configuration", "write one with --init"
        written = read_yaml(config, str(config), expected=expected, do=advice)
    try:
        sections = Sections.model_validate(written)
    except ValidationError as error:
        raise refusal(error, Sections, str(config)) from error
    attributes, options = sections.attributes, sections.data
    space = None if attributes is None else AttributeSpace.from_config(attributes)
    said = {name: value for name, value in (("group", group), ("split", split)) if value}
    return options.model_copy(update=said), space


def _print(report: Report, console: Console) -> None:
    for finding in report.findings:
        names = escape(", ".join(finding.names))
        more = f" and {finding.count - len(finding.names)} more"
        rest = more if finding.count > len(finding.names) > 0 else ""
        line = f"[{_STYLE[finding.severity]}]{finding.severity:<8}[/]{escape(finding.what)}"
        count = f" [dim]({finding.count})[/]" if finding.names else ""
        console.print(f"{line}{count}: {names}{rest}" if names else line)
    kinds = {} if report.space is None else report.space.to_config()
    for name, kind in kinds.items():
        details = ", ".join(f"{key} {value}" for key, value in kind.items() if key != "kind")
        console.print(f"attribute {escape(name)}: {kind['kind']} {escape(details)}".rstrip())
    sizes = ", ".join(f"{split} {count}" for split, count in report.splits.items())
    console.print(f"{report.images} images{': ' if sizes else ''}{sizes}")
    verdict = "[green]Training could begin.[/]" if report.ok else "[red]Not ready for training.[/]"
    console.print(verdict)


def _write_pictures(report: Report, out: Path, console: Console) -> None:
    import torch

    from fcfg.cli.heatmap import heatmap
    from fcfg.sheet import sheet

    out.mkdir(parents=True, exist_ok=True)
    if report.sample:
        rows = {
            split: torch.from_numpy(images).float() / 127.5 - 1
            for split, images in report.sample.items()
        }
        sheet(rows).save(out / "sheet.png")
        console.print(f"Wrote {escape(str(out / 'sheet.png'))}")
    if report.labels:
        heatmap(report.labels, report.correlations).save(out / "correlations.png")
        console.print(f"Wrote {escape(str(out / 'correlations.png'))}")


def starting_config(report: Report, options: FolderData) -> str:
    """A first training configuration, with comments on what to correct.

    Args:
        report: What was found.
        options: How the folder was read.
    """
    space = report.space
    assert space is not None
    guess = report.grey and "channels" not in options.model_fields_set
    size = options.size
    if report.side is not None and "size" not in options.model_fields_set:  # never enlarge
        size = max([8, *(side for side in (16, 32, 64) if side <= report.side)])
    said = options.model_dump(mode="json", exclude_defaults=True) | {
        "format": "folder",
        "path": str(report.path.resolve()),
        "size": size,
        "channels": 1 if guess else options.channels,
    }
    order = ("format", "path", "size", "channels", "split", "group")
    keys = dict.fromkeys([key for key in (*order, *sorted(said)) if key in said])
    notes = {"size": "  # height and width", "channels": "  # 3: colour, 1: grey"}
    lines = [
        "# A start, made by fcfg data check --init from what the folder holds.",
        "data:",
        *(f"  {key}: {_yaml(said[key])}{notes.get(key, '')}" for key in keys),
        "",
        "# Kinds were guessed from the values. Remove what the model should not know of, add",
        "# levels that may occur later, and give continuous attributes the range they can have.",
        "attributes:",
        *(f"  {_yaml(name)}: {_yaml(kind)}" for name, kind in space.to_config().items()),
        "",
        "# Which attributes cause which: for every attribute the list of its causes. Nothing",
        "# causes anything yet. If age causes glasses, write   glasses: [age]",
        "graph:",
        *(f"  {_yaml(name)}: []" for name in space.names),
        "",
        "# Small and short enough for a first look on a CPU. Good pictures want a GPU, a network",
        "# of base 64 with multipliers [1, 2, 4, 8], and tens of thousands of steps.",
        "network: {base: 16, multipliers: [1, 2, 2]}",
        "diffusion: {batch: 16, steps: 1000, learning_rate: 1.0e-3, ema: 0.99}",
        "judge: {width: 8, batch: 32, steps: 300}",
    ]
    return "\n".join(lines) + "\n"


def _yaml(value: object) -> str:
    import yaml

    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return text.removesuffix("...\n").strip()
