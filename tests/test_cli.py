from __future__ import annotations

import errno
import io
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
import typer

import fcfg
from fcfg.__main__ import main as fcfg_command
from fcfg.cli import _COMMANDS, main
from fcfg.cli.streams import open_closed, usable_streams
from fcfg.generation import Request, Result
from fcfg.pipeline.defaults import DEFAULT_GUIDANCE
from fcfg.sampling import DRAWN_NOISE
from fcfg.support.errors import InputError
from tiny import GIVEN, draw, tiny_pipeline

COMMANDS = tuple(_COMMANDS)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    fcfg.save(tiny_pipeline(), folder)
    return str(folder)


@pytest.fixture
def faces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.chdir(tmp_path)  # where 'counterfactuals' goes
    return draw(tmp_path / "faces", ["anna.png", "ben.png", "carl.png"])


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run what must be refused; return the one line."""
    assert main(words) == 2
    out, line = capsys.readouterr()
    assert out == ""
    assert line.endswith("\n")
    assert line.count("\n") == 1
    return line[:-1]


def command(monkeypatch: pytest.MonkeyPatch, name: str, loaded: object) -> None:
    """Put a small command where a module of the package would be."""
    module = ModuleType(f"fcfg.cli.{name}")
    setattr(module, name, loaded)
    monkeypatch.setitem(sys.modules, module.__name__, module)


# The frame --------------------------------------------------------------------------------------


def test_help_and_version_come_without_torch() -> None:
    words = [["--help"], ["--version"], [], ["generate", "--help"]]
    code = f"import sys; from fcfg.cli import main; codes = [main(each) for each in {words}]; "
    code += "assert not {'torch', 'numpy', 'PIL'} & set(sys.modules); sys.exit(any(codes))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"fcfg {fcfg.__version__}\n" in done.stdout
    assert all(done.stdout.count(f"\n  {name} ") == 2 for name in COMMANDS)


def test_signals_arrive_whoever_started_the_tests() -> None:
    """A background job of a script, as of nohup, would ignore this one."""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_module_is_the_command(monkeypatch, capsys) -> None:
    monkeypatch.delitem(sys.modules, "fcfg.__main__", raising=False)
    monkeypatch.setattr(sys, "argv", ["fcfg", "--version"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("fcfg", run_name="__main__")
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"fcfg {fcfg.__version__}\n"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored since the command ended
    monkeypatch.setattr(sys, "meta_path", [Interrupted])
    monkeypatch.delitem(sys.modules, "fcfg.cli")
    assert fcfg_command() == 130
    assert capsys.readouterr().err == "fcfg: interrupted\n"


def test_an_interruption_after_the_end_changes_nothing() -> None:
    code = "import atexit, signal, sys; from fcfg.__main__ import main; "
    code += "atexit.register(signal.raise_signal, signal.SIGINT); "
    code += "sys.argv = ['fcfg', '--version']; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"fcfg {fcfg.__version__}\n")
    assert done.stderr == ""


class Interrupted:
    """A finder that gets Ctrl-C whatever it looks for."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        signal.raise_signal(signal.SIGINT)


def test_what_is_unknown_is_one_line_with_the_nearest(capsys) -> None:
    line = refusal(capsys, "generat")
    assert line.startswith("fcfg: command: expected one of 'demo', 'train', 'generate', ")
    assert line.endswith("did you mean 'generate'?")
    assert "--version" in refusal(capsys, "--versoin")
    line = refusal(capsys, "generate", "m", "i", "--do", "a=1", "--guidence", "cfg:3")
    assert line.startswith("fcfg generate: no such option")
    assert "--guidance" in line
    assert line.endswith("see 'fcfg generate --help'.")


def test_what_is_missing_or_no_number_is_one_line(capsys) -> None:
    assert "missing argument 'MODEL'" in refusal(capsys, "generate")
    assert "missing option '--do'" in refusal(capsys, "generate", "model", "image.png")
    line = refusal(capsys, "generate", "m", "i", "--do", "a=1", "--seed", "ten")
    assert "invalid value for '--seed'" in line


def test_help_of_a_command_has_examples_line_by_line(capsys) -> None:
    assert main(["generate", "--help"]) == 0
    out = capsys.readouterr().out
    assert "\n    fcfg generate portraits face.png --do smiling=1\n" in out
    for option in ("--attributes", "--do", "--guidance", "--no-reverse", "--overwrite"):
        assert option in out


@pytest.mark.parametrize("name", [*COMMANDS, "data check", "data example"])
def test_every_option_has_a_description(name: str, capsys) -> None:
    assert main([*name.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert "Options:\n" in out
    assert not re.search(r"(?m)^  --[^ ]+( / --no-[^ ]+)?( [^ ]+)?( +\.|\n +\.)$", out)


def test_an_option_is_what_the_source_says(capsys) -> None:
    """Of a class, and of a function, whose documentation is the help."""
    assert main(["calibrate", "--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "--seed N Seed of draws and resamples. [default: 0]" in words
    assert "--at-least-real / --no-at-least-real Raise the weight of a binary attribute" in words
    assert main(["evaluate", "--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "--images N Largest number of images. --seed N" in words  # the experiment's by default


def group() -> typer.Typer:
    app = typer.Typer(help="Data of all kinds.")

    @app.command()
    def check(folder: str) -> None:
        """Look for errors.

        Examples:
          fcfg data check faces
          fcfg data check scans
        """
        raise InputError("table", expected="rows", got=folder, do="add some")

    @app.command(help="Draw.")
    def draw() -> None:
        print("drawn")

    return app


def test_a_group_holds_further_commands(monkeypatch, capsys) -> None:
    command(monkeypatch, "data", group())
    assert main(["data", "draw"]) == 0
    assert capsys.readouterr().out == "drawn\n"
    line = refusal(capsys, "data", "check", "none")
    assert line == "fcfg data check: table: expected rows, got none; add some."
    line = refusal(capsys, "data", "chek", "none")
    assert line.startswith("fcfg data: no such command 'chek'")
    assert "missing argument" in refusal(capsys, "data", "check")


@pytest.mark.parametrize("words", [["data"], ["data", "--help"]])
def test_a_group_alone_shows_its_help(monkeypatch, capsys, words: list[str]) -> None:
    command(monkeypatch, "data", group())
    assert main(words) == 0
    assert "Data of all kinds." in capsys.readouterr().out
    assert main(["data", "check", "--help"]) == 0
    assert "\n    fcfg data check faces\n    fcfg data check scans\n" in capsys.readouterr().out


def raising(error: BaseException) -> object:
    def train() -> None:
        """Train."""
        raise error

    return train


def test_a_command_chooses_its_exit_code(monkeypatch) -> None:
    command(monkeypatch, "train", raising(SystemExit(75)))
    with pytest.raises(SystemExit) as stop:
        main(["train"])
    assert stop.value.code == 75
    command(monkeypatch, "train", raising(typer.Exit(3)))
    assert main(["train"]) == 3


def test_an_interruption_is_one_line(monkeypatch, capsys) -> None:
    command(monkeypatch, "train", raising(KeyboardInterrupt()))
    assert main(["train"]) == 130
    assert capsys.readouterr().err == "fcfg train: interrupted\n"
    command(monkeypatch, "train", raising(KeyboardInterrupt("stopped at step 3")))
    assert main(["train"]) == 130
    assert capsys.readouterr().err == "fcfg train: stopped at step 3\n"


def test_a_bug_keeps_its_traceback(monkeypatch) -> None:
    command(monkeypatch, "train", raising(ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError):
        main(["train"])
    command(monkeypatch, "train", raising(OSError(errno.EBADF, "a bug")))
    with pytest.raises(OSError, match="a bug"):
        main(["train"])


def test_a_file_that_cannot_be_used_is_one_line(monkeypatch, capsys) -> None:
    command(
        monkeypatch, "train", raising(FileNotFoundError(errno.ENOENT, "No such file", "x.yaml"))
    )
    line = refusal(capsys, "train")
    assert line.startswith(
        "fcfg train: x.yaml: expected a file or folder that can be used, got No"
    )
    command(monkeypatch, "train", raising(OSError(errno.ENOSPC, "No space left on device")))
    assert "fcfg train: file: expected" in refusal(capsys, "train")


def test_a_usage_error_of_a_command_itself_is_one_line(monkeypatch, capsys) -> None:
    command(monkeypatch, "train", raising(typer.BadParameter("both\n  of them.")))
    line = refusal(capsys, "train")
    assert line == "fcfg train: invalid value: both of them; see 'fcfg train --help'."


def test_warnings_are_one_line(monkeypatch, capsys) -> None:
    def train() -> None:
        warnings.warn("the disk is\nnearly full", stacklevel=1)

    command(monkeypatch, "train", train)
    shown = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["train"]) == 0
    assert capsys.readouterr().err == "fcfg: warning: the disk is nearly full\n"
    assert warnings.showwarning is shown


def test_a_closed_pipe_is_quiet(monkeypatch, capsys) -> None:
    end, start = os.pipe()
    os.close(end)
    with os.fdopen(start, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["--help"]) == 141
        monkeypatch.undo()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "latin-1", "utf-8"])
def test_a_terminal_that_lacks_letters_gets_the_nearest(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = io.BytesIO(), io.BytesIO()
    for name, file in zip(("stdout", "stderr"), files, strict=True):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(file, encoding, write_through=True))
    with usable_streams():
        print("do(é) → −0.5 ±0.1, \udcff")
        print("улыбка", file=sys.stderr)
    out, err = (file.getvalue().decode(encoding) for file in files)
    if encoding == "utf-8":
        assert out == "do(é) → −0.5 ±0.1, ?\n"
    else:
        plain = {"ascii": "do(e) -> -0.5 +-0.1"}.get(encoding, "do(é) -> -0.5 ±0.1")
        assert (out, err) == (f"{plain}, ?\n", "??????\n")


def test_what_ascii_lacks_is_written_with_its_letters() -> None:
    with usable_streams():
        written = "do(é) → −0.5 ±0.1…\u00a0λ 漢".encode("ascii", "fcfg-ascii")
    assert written == b"do(e) -> -0.5 +-0.1... l ?"


def test_a_refusal_keeps_its_exit_code_where_it_cannot_be_said(monkeypatch) -> None:
    done = subprocess.run(f"{sys.executable} -m fcfg nope 2>/dev/full", shell=True)
    assert done.returncode == 2
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        for words in (["nope"], ["data", "check", "nowhere"]):
            assert main(words) == 2
        monkeypatch.undo()


def test_a_working_directory_that_is_gone_is_one_line(tmp_path, monkeypatch, capsys) -> None:
    """Before torch is imported, which would end the process."""
    monkeypatch.chdir(tmp_path)
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    line = refusal(capsys, "data", "check", "x")
    assert "working directory: expected a folder that exists, got one that was removed" in line
    words = [sys.executable, "-m", "fcfg", "data", "check", "x"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"{line}\n")


def test_a_closed_descriptor_leads_nowhere() -> None:
    end, start = os.pipe()
    os.close(end)  # the lowest that is free now
    open_closed([end])
    assert os.path.samestat(os.fstat(end), os.stat(os.devnull))
    os.close(end)
    os.close(start)


def test_streams_are_as_before_when_a_command_ends(monkeypatch) -> None:
    streams, errors = (sys.stdout, sys.stderr), (sys.stdout.errors, sys.stderr.errors)
    assert main(["--version"]) == 0
    assert (sys.stdout, sys.stderr) == streams
    assert (sys.stdout.errors, sys.stderr.errors) == errors
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["--version"]) == 0
    assert sys.stdout is None


def test_a_closed_stream_stops_nothing(model, faces) -> None:
    words = f"-m fcfg generate {model} faces --do age=1 --sampling 1 <&- >&- 2>&-"
    done = subprocess.run(f"{sys.executable} {words}", shell=True, capture_output=True)
    assert done.returncode == 0
    out = Path("counterfactuals/tiny/age=1")
    assert json.loads((out / "record.json").read_text())["finished"] == 3
    assert (out / "anna.png").read_bytes().startswith(b"\x89PNG")


# fcfg generate ----------------------------------------------------------------------------------


def asking(model: str, *more: str, images: str = "faces") -> list[str]:
    """A small question about pictures whose attributes are given."""
    return ["generate", model, images, "--attributes", GIVEN, "--sampling", "1", *more]


def test_generate_writes_and_says_what_it_did(model, tmp_path: Path, faces, capsys) -> None:
    draw(tmp_path / "faces", ["ben.png"], size=11)
    words = [
        "generate",
        model,
        "faces",
        "--do",
        "age=80",
        "--do",
        "smiling=flip",
        "--sampling",
        "2",
    ]
    assert main([*words, "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    assert err == ""  # no bar without a terminal
    assert f"3 pictures, {DEFAULT_GUIDANCE}, ddim quadratic 2, on cpu" in out
    assert "1 of 3: resized to 8 x 8" in out
    assert "read by the judge" in out
    assert all(name in out for name in ("anna.png", "ben.png", "carl.png"))
    assert "→ 80" in out
    folder = Path("counterfactuals/tiny/age=80,smiling=flip")
    assert out.endswith(f"Written to {folder}\n")
    record = json.loads((folder / "record.json").read_text())
    assert record["model"] == model
    assert record["do"] == {"age": 80.0, "smiling": "flip"}
    for image in record["images"]:
        assert (folder / image["outputs"]["comparison"]).exists()


def test_generate_takes_tables_levels_and_other_guidance(model, faces, tmp_path, capsys) -> None:
    rows = ["file_name,smiling,age,hair", *(f"{path.name},1,40,dark" for path in faces)]
    (tmp_path / "faces" / "labels.csv").write_text("\n".join(rows))
    words = ["generate", model, str(faces[0]), "--attributes", "faces/labels.csv"]
    words += ["--do", "hair=red", "--guidance", "none", "--sampling", "2", "--no-reverse"]
    assert main([*words, "--out", "red"]) == 0
    out = capsys.readouterr().out
    assert "1 picture, none" in out
    assert "the attributes are those of faces/labels.csv" in out
    assert "dark → red" in out
    assert "reversal" not in out
    assert json.loads((tmp_path / "red" / "record.json").read_text())["guidance"] == "none"


def test_generate_takes_what_is_said_and_the_rest_from_the_default(model, faces, capsys) -> None:
    words = ["generate", model, str(faces[0]), "--do", "age=80", "--attributes", GIVEN]
    for out, asked in {"silent": [], "some": ["--sampling", "2"]}.items():
        assert main([*words, "--no-reverse", "--out", out, *asked]) == 0
    assert recorded("silent") == str(DRAWN_NOISE)
    assert recorded("some") == str(replace(DRAWN_NOISE, steps=2))


def recorded(out: str) -> str:
    """The sampling configuration of a record."""
    record = json.loads(Path(out, "record.json").read_text())
    return " ".join(str(record[name]) for name in ("solver", "grid", "steps"))


@pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning")  # torch's own import
def test_generate_computes_as_it_is_told(model, faces, tmp_path, capsys) -> None:
    words = ["generate", model, "faces", "--do", "age=80", "--sampling", "2", "--device", "cpu"]
    torch.compiler.set_stance("force_eager")  # all of it but the compiler, which is not ours
    try:
        assert main([*words, "--out", "plain"]) == 0
        assert main([*words, "--out", "fast", "--compile", "--precision", "float32"]) == 0
    finally:
        torch.compiler.set_stance("default")
    plain, fast = (json.loads(Path(out, "record.json").read_text()) for out in ("plain", "fast"))
    assert (plain["precision"], plain["compiled"], plain["batch_size"]) == ("float32", False, 256)
    assert (fast["precision"], fast["compiled"]) == ("float32", True)
    for one, other in zip(plain["images"], fast["images"], strict=True):
        assert one["reversal_error"] == pytest.approx(other["reversal_error"], abs=2e-6)


def test_generate_is_shared_by_processes(model, faces, tmp_path, capsys, monkeypatch) -> None:
    """As accelerate and torchrun launch them; each does its part, and one speaks."""
    words = asking(model, "--do", "age=80")
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        assert main(words) == 0
        said.append(capsys.readouterr())
    assert said[0].out.startswith("3 pictures in 2 parts, ")
    assert said[1].out == "Written to counterfactuals/tiny/age=80\n"
    assert said[1].err == ""
    assert len(list((tmp_path / "counterfactuals").glob("*/*/*-counterfactual.png"))) == 3
    assert main([*words, "--out", "one", "--shard", "1/3"]) == 0
    assert "3 pictures in 3 parts, " in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "one").glob("*.json")} == {"record-1-of-3.json"}
    line = refusal(capsys, *words, "--out", "two", "--shard", "1of3")
    assert line == "fcfg generate: --shard: expected I/N, such as 0/4, got '1of3'; count from 0."


def test_generate_shows_a_part_of_many(model, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    draw(tmp_path / "many", [f"{number:02}.png" for number in range(23)])
    assert main(asking(model, "--do", "smiling=1", "--no-reverse", images="many")) == 0
    out = capsys.readouterr().out
    assert "19.png" in out
    assert "20.png" not in out
    assert "and 3 more, in record.json" in out


def test_generate_works_without_a_judge(faces, tmp_path: Path, capsys) -> None:
    fcfg.save(tiny_pipeline(judge=False), tmp_path / "blind")
    words = ["generate", "blind", "faces", "--do", "smiling=1", "--sampling", "1"]
    assert "no judge" in refusal(capsys, *words)
    assert main([*words, "--attributes", GIVEN]) == 0
    assert "judge" not in capsys.readouterr().out


def test_every_model_and_intervention_has_a_folder_of_its_own() -> None:
    wanted = {"age=80": {"age": 80}, "age=+5": {"age": "+5"}, "age=x1.5": {"age": "*1.5"}}
    wanted["age=80,hair=red"] = {"age": 80, "hair": "red"}
    for name, do in wanted.items():
        assert Request((), do=do, model="runs/tiny").folder == Path("counterfactuals/tiny") / name


def test_a_folder_that_is_taken_is_refused_before_a_picture_is_read(model, faces, capsys) -> None:
    words = asking(model, images=str(faces[0]))
    assert main([*words, "--do", "age=80", "--out", "out"]) == 0
    capsys.readouterr()
    faces[0].write_bytes(b"no picture")
    line = refusal(capsys, *words, "--do", "age=81", "--out", "out")
    assert "out out: expected the question that its record holds already (do: " in line
    Path("out/record.json").unlink()
    assert "'anna.png'" in refusal(capsys, *words, "--do", "age=81", "--out", "out")


def test_all_that_is_wrong_with_a_request_is_said_at_once(model, faces, capsys) -> None:
    words = ["generate", model, "gone.png", "--do", "agee=1,smilin=1,hair=blue"]
    line = refusal(capsys, *words, "--guidance", "cgf:3")
    for fragment in ("'agee'", "'smilin'", "did you mean 'cfg'?", "no such file: 'gone.png'"):
        assert fragment in line
    line = refusal(capsys, *words, "--device", "gpu", "--sampling", "papr", "--precision", "fp16")
    for fragment in ("device: expected", "did you mean 'paper'?", "precision: expected"):
        assert fragment in line
    faces[0].write_bytes(b"no picture")
    words = ["generate", model, "faces", "--do", "age=1,hair=blue"]
    assert "'blue'" in refusal(capsys, *words)
    line = refusal(capsys, *words[:-1], "age=1", "--attributes", "agee=3")
    assert "'agee'" in line
    assert "anna.png" in line


@pytest.mark.parametrize(
    ("more", "subject"),
    [
        ("--do agee=1", "do"),
        ("--guidance cgf:3", "guidance"),
        ("--device gpu", "device"),
        ("--attributes gone.csv", "gone.csv"),
        ("--out faces", "out faces"),
        ("--sampling 0", "steps"),
        ("--sampling papr", "sampling"),
        ("--sampling paper", "steps"),
        ("--precision fp16", "precision"),
        ("--batch-size x", "--batch-size"),
    ],
)
def test_generate_refuses_in_one_line(model, faces, capsys, more: str, subject: str) -> None:
    line = refusal(capsys, "generate", model, "faces", "--do", "age=1", *more.split())
    assert line.startswith(f"fcfg generate: {subject}")
    assert not Path("counterfactuals").exists()


def test_a_gpu_that_is_not_there_is_refused(model, faces, capsys, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # on every machine
    line = refusal(capsys, "generate", model, "faces", "--do", "age=1", "--device", "cuda")
    assert "torch finds no GPU here" in line


def test_an_interrupted_generate_says_what_is_finished(model, faces, capsys, monkeypatch) -> None:
    replace, count = os.replace, 0

    def interrupted(*arguments: str) -> None:
        nonlocal count
        count += 1
        if count == 5:  # the record, two pictures, the record, and then
            raise KeyboardInterrupt
        replace(*arguments)

    monkeypatch.setattr(os, "replace", interrupted)
    words = ["generate", model, "faces", "--attributes", GIVEN, "--do", "age=1", "--sampling", "1"]
    assert main([*words, "--batch-size", "3"]) == 130
    err = capsys.readouterr().err
    out = "counterfactuals/tiny/age=1"
    done = f"1 of 3 pictures are finished, in {out}; run the same command to go on"
    assert err == f"fcfg generate: interrupted; {done}\n"
    record = json.loads(Path(out, "record.json").read_text())
    assert [Path(image["file"]).name for image in record["images"]] == ["anna.png"]
    monkeypatch.setattr(os, "replace", replace)
    assert main([*words, "--overwrite"]) == 0


def test_generate_says_which_answers_not_to_trust(model, faces, capsys) -> None:
    """An untrained network cannot be inverted."""
    words = [
        "generate",
        model,
        "faces",
        "--attributes",
        GIVEN,
        "--do",
        "age=99",
        "--sampling",
        "4",
    ]
    words += ["--guidance", "fcfg:affected=3,invariant=1.2", "--no-trust"]
    assert main([*words, "--no-reverse"]) == 0
    assert "Do not trust" not in capsys.readouterr().out
    assert main([*words, "--no-reverse"]) == 0
    assert "3 of 3 are finished already; --overwrite makes them anew" in capsys.readouterr().out
    assert main([*words, "--overwrite"]) == 0
    assert "Do not trust 3 of 3: anna.png (the reversal ends" in capsys.readouterr().out


def test_a_terminal_gets_a_bar(model, faces, monkeypatch) -> None:
    screen, terminal = os.openpty()
    words = ["generate", model, str(faces[0]), "--do", "age=1", "--sampling", "2"]
    with os.fdopen(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        assert main(words) == 0
        stream.flush()
        shown = os.read(screen, 100_000).decode(errors="ignore")
        monkeypatch.undo()
    os.close(screen)
    assert "%" in shown


def test_how_sure_the_judge_is_of_what_it_read() -> None:
    seen = {"smiling": 0.2, "hair": {"dark": 0.7, "red": 0.3}, "age": 33.0}
    factual = {"smiling": 0, "hair": "red", "age": 33.0}
    result = Result("x.png", (8, 8), (), "judge", factual, factual, {"factual": seen})
    sure = [result.sure(name) for name in factual]
    assert np.allclose(sure[:2], [0.8, 0.3])
    assert sure[2] is None
