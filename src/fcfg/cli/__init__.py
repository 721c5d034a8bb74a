"""The command line.

Every command is a module of this folder with a function, or an app of sub-commands, of the same
name. Only the requested command is imported, so help does not load torch. Wrong input prints one
line on standard error and exits with code 2.
"""

from __future__ import annotations

import errno
import inspect
import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.main import get_command

from fcfg.cli.streams import usable_streams
from fcfg.support.errors import InputError, check_among, one_line
from fcfg.version import __version__

# Summaries for the list of commands; the full help of each is in its module.
_COMMANDS = {
    "demo": "See in minutes what factored guidance does.",
    "train": "Train a model, or resume a training run.",
    "generate": "Make counterfactuals of images.",
    "calibrate": "Choose the weights of a model's guidance from validation images.",
    "evaluate": "Evaluate a model: a table of the paper, or an experiment of your own.",
    "diagnose": "Find out which attributes can have guidance weights of their own.",
    "studio": "Ask what-ifs on a page in the browser.",
    "report": "Make an HTML report of an evaluation.",
    "models": "List the models that can be asked.",
    "bench": "Measure the speed of this machine.",
    "data": "Check data before training.",
}
_GROUPS = ("data",)  # those with sub-commands
_ABOUT_FILES = (
    *(errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG),
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS),
)
_REFUSED, _INTERRUPTED, _PIPE_CLOSED = 2, 130, 141  # exit codes; the last two are those of a shell

# Threads that spin while waiting block a machine whose cores are busy: a step of a small network
# took 15 times as long. Without other load it makes no difference. Must be set before torch loads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# It prints what it repairs in the header of a volume, beside the one line that commands say.
logging.getLogger("nibabel.global").setLevel(logging.CRITICAL + 1)

# The usage errors of Click; newer releases of Typer contain a copy of Click.
_UsageError = cast(type[Exception], typer.BadParameter.__base__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    with usable_streams(), warnings.catch_warnings():
        warnings.showwarning = _show_warning
        return _exit_code(words, _command_name(words))


def _exit_code(words: list[str], name: str) -> int:
    """Run a command; turn expected errors into one line and an exit code."""
    try:
        code = _run(words)
        sys.stdout.flush()  # may raise BrokenPipeError, which is handled here
        return code
    except InputError as error:
        code, line = _REFUSED, f"{name}: {error}"
    except _UsageError as error:
        code, line = _REFUSED, _usage(cast(typer.BadParameter, error), name)
    except (KeyboardInterrupt, typer.Abort) as error:
        code, line = _INTERRUPTED, f"{name}: {str(error) or 'interrupted'}"
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except OSError as error:
        if error.errno not in _ABOUT_FILES:
            raise
        about, wanted = str(error.filename or "file"), "a file or folder that can be used"
        do = "check its path, its permissions and the free space on its disk"
        refusal = InputError(about, expected=wanted, got=error.strerror, do=do)
        code, line = _REFUSED, f"{name}: {refusal}"
    print(line, file=sys.stderr)
    return code


def _run(words: list[str]) -> int:
    command = get_command(_app(words[0] if not words[0].startswith("-") else None))
    if words in [[group] for group in _GROUPS]:
        words = [*words, "--help"]
    try:
        with command.make_context("fcfg", words) as context:
            command.invoke(context)
    except typer.Exit as stop:  # also raised by --help
        return stop.exit_code
    return 0


def _app(requested: str | None) -> typer.Typer:
    """Return the app, with only the requested command imported."""
    if requested is not None:
        check_among("command", requested, _COMMANDS)
        try:
            Path.cwd()
        except FileNotFoundError as error:  # torch would end the process
            wanted, got = "a folder that exists", "one that was removed"
            do = "change to another with 'cd'"
            raise InputError("working directory", expected=wanted, got=got, do=do) from error
    app = typer.Typer(
        name="fcfg",
        help="Counterfactual images with diffusion models and factored guidance.",
        epilog="'fcfg COMMAND --help' shows the options of a command, with examples.",
        add_completion=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    if requested is None:
        for name, summary in _COMMANDS.items():
            app.command(name, short_help=summary)(lambda: None)
        return app
    loaded = getattr(import_module(f"fcfg.cli.{requested}"), requested)
    if isinstance(loaded, typer.Typer):
        loaded.rich_markup_mode = None
        for info in loaded.registered_commands:
            info.help = info.help or _help(info.callback)
        app.add_typer(loaded, name=requested)
    else:
        app.command(requested, help=_help(loaded))(loaded)
    return app


def _show_version(requested: bool) -> None:
    if requested:
        print(f"fcfg {__version__}")
        raise typer.Exit


_VERSION = typer.Option(
    "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
)


# Without a docstring, which Typer would show as help.
def _options(version: Annotated[bool, _VERSION] = False) -> None: ...


def _help(function: Callable[..., Any] | None) -> str:
    r"""Return the docstring of a command, with ``\b`` before indented paragraphs.

    It tells Click to keep their lines. What it says of options is shown with them.
    """
    paragraphs = (inspect.getdoc(function) or "").partition("\n\nOptions:")[0].split("\n\n")
    return "\n\n".join(("\b\n" if "\n " in text else "") + text for text in paragraphs)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"fcfg: warning: {one_line(message)}", file=sys.stderr)


def _command_name(words: Sequence[str]) -> str:
    known = [*words[:1]] if words[0] in _COMMANDS else []
    further = [word for word in words[1:2] if words[0] in _GROUPS and not word.startswith("-")]
    return " ".join(["fcfg", *known, *further])


def _usage(error: typer.BadParameter, name: str) -> str:
    """Return a usage error of Click in one line."""
    path = error.ctx.command_path if error.ctx is not None else name
    message = one_line(error.format_message()).rstrip(".")
    stop = "" if message.endswith("?") else ";"
    return f"{path}: {message[:1].lower()}{message[1:]}{stop} see '{path} --help'."
