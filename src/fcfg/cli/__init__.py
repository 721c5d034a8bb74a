"""The command line: it parses, calls and prints.

Every command is a module of this folder that holds a function, or an app of further commands, of
its own name. Only the one that is asked for is imported, so that help comes without torch. What
the caller got wrong is one line on the standard error and the exit code 2.
"""

from __future__ import annotations

import errno
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any, TextIO, cast

import typer
from typer.main import get_command

from fcfg.cli.streams import usable_streams
from fcfg.support.errors import InputError, check_among
from fcfg.version import __version__

# What the list of commands says of each; its own help is in its module.
_COMMANDS = {
    "demo": "See in minutes what factored guidance is for.",
    "train": "Train a model, or go on with a training.",
    "generate": "Make counterfactuals of pictures.",
    "evaluate": "Measure a model: a table of the paper, or a sweep of your own.",
    "report": "Make a page to look at of an evaluation.",
    "bench": "Measure how fast this machine samples.",
    "data": "Look at data before training on it.",
}
_GROUPS = ("data",)  # those that hold further commands
_REFUSED, _INTERRUPTED, _PIPE_CLOSED = 2, 130, 141  # exit codes; the last two as in a shell

# Threads that wait for each other by spinning stop a machine whose cores are busy: a step of a
# small network took 15 times as long there, and as long as before elsewhere. Before torch loads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# The usage errors of Click, which newer releases of Typer hold a copy of.
_UsageError = cast(type[Exception], typer.BadParameter.__base__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        arguments: What was typed after ``fcfg``; by default what was typed.
    """
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    with usable_streams(), warnings.catch_warnings():
        warnings.showwarning = _show_warning
        return _exit_code(words, _asked(words))


def _exit_code(words: list[str], asked: str) -> int:
    """Run a command; what a caller may get wrong becomes one line and an exit code."""
    try:
        code = _run(words)
        sys.stdout.flush()  # here, where a closed pipe is expected
    except InputError as error:
        return _end(_REFUSED, f"{asked}: {error}")
    except _UsageError as error:
        return _end(_REFUSED, _usage(cast(typer.BadParameter, error), asked))
    except (KeyboardInterrupt, typer.Abort) as error:
        return _end(_INTERRUPTED, f"{asked}: {str(error) or 'interrupted'}")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except OSError as error:
        if not _is_about_a_file(error):
            raise
        return _end(_REFUSED, f"{asked}: {_about_a_file(error)}")
    return code


def _run(words: list[str]) -> int:
    wanted = words[0] if not words[0].startswith("-") else None
    app = _app(wanted)
    if words in [[group] for group in _GROUPS]:
        words = [*words, "--help"]  # by itself it does nothing
    command = get_command(app)
    try:
        with command.make_context("fcfg", words) as context:
            command.invoke(context)
    except typer.Exit as stop:  # so ends --help, too
        return stop.exit_code
    return 0


def _app(wanted: str | None) -> typer.Typer:
    """The app, of which only the command that is wanted is imported."""
    if wanted is not None:
        check_among("command", wanted, _COMMANDS)
    app = typer.Typer(
        name="fcfg",
        help="Counterfactual images with diffusion models and factored guidance.",
        epilog="'fcfg COMMAND --help' says what a command takes, with examples.",
        add_completion=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    for name, summary in _COMMANDS.items():
        loaded = _load(name) if name == wanted else _not_loaded
        if isinstance(loaded, typer.Typer):
            loaded.rich_markup_mode = None
            for info in loaded.registered_commands:
                info.help = info.help or _help(info.callback)
            app.add_typer(loaded, name=name)
        else:
            app.command(name, help=_help(loaded) or summary, short_help=summary)(loaded)
    return app


def _load(name: str) -> typer.Typer | Callable[..., Any]:
    return getattr(import_module(f"fcfg.cli.{name}"), name)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"fcfg {__version__}")
        raise typer.Exit


# The next two have no doc strings: Typer would show them as help.
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None: ...


def _not_loaded() -> None: ...


def _help(function: Callable[..., Any] | None) -> str:
    r"""The doc string of a command, whose indented paragraphs keep their lines.

    A line with nothing but ``\b`` says so to Click.
    """
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(("\b\n" if "\n " in text else "") + text for text in paragraphs)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(f"fcfg: warning: {' '.join(str(message).split())}", file=sys.stderr)


def _asked(words: Sequence[str]) -> str:
    """How the command is called in messages.

    >>> _asked(["generate", "model", "--do"]), _asked(["data", "check", "faces"]), _asked(["-x"])
    ('fcfg generate', 'fcfg data check', 'fcfg')
    """
    known = [*words[:1]] if words[0] in _COMMANDS else []
    further = [word for word in words[1:2] if words[0] in _GROUPS and not word.startswith("-")]
    return " ".join(["fcfg", *known, *further])


def _usage(error: typer.BadParameter, asked: str) -> str:
    """What Click says of a wrong call, in one line."""
    path = error.ctx.command_path if error.ctx is not None else asked
    message = " ".join(error.format_message().split()).rstrip(".")
    stop = "" if message.endswith("?") else ";"
    return f"{path}: {message[:1].lower()}{message[1:]}{stop} see '{path} --help'."


def _end(code: int, line: str) -> int:
    print(line, file=sys.stderr)
    return code


def _is_about_a_file(error: OSError) -> bool:
    """Whether the world outside is to blame: a path, a permission, a full disk."""
    blamed = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR)
    return error.errno in (*blamed, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENAMETOOLONG)


def _about_a_file(error: OSError) -> InputError:
    return InputError(
        str(error.filename or "file"),
        expected="a file or folder that can be used",
        got=error.strerror,
        do="check its path, its permissions and the room on its disk",
    )
