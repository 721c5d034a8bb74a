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
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import Mock

import pytest
import typer

import fcfg
from fcfg.__main__ import main as fcfg_command
from fcfg.cli import _COMMANDS, main
from fcfg.cli.streams import open_closed, usable_streams
from fcfg.generation import Request
from fcfg.pipeline.plans import DEFAULT_GUIDANCE
from refusal import refusal, typed
from tiny import GIVEN, draw, tiny_pipeline

COMMANDS = tuple(_COMMANDS)


@pytest.fixture
def faces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.chdir(tmp_path)  # where 'counterfactuals' goes
    return draw(tmp_path / "faces", ["anna.png", "ben.png", "carl.png"])


@pytest.fixture
def model(tiny_folder: Path) -> str:
    return str(tiny_folder)


def as_train(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Put a small command where 'train' would be."""

    def train() -> None:
        """Train."""
        work()

    module = ModuleType("fcfg.cli.train")
    monkeypatch.setattr(module, "train", train, raising=False)
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


def test_the_module_is_the_command(monkeypatch, capsys) -> None:
    monkeypatch.delitem(sys.modules, "fcfg.__main__", raising=False)
    monkeypatch.setattr(sys, "argv", ["fcfg", "--version"])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # of what jaxtyping changed
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("fcfg", run_name="__main__")
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"fcfg {fcfg.__version__}\n"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored since the command ended
    interrupted = SimpleNamespace(find_spec=lambda *_: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr(sys, "meta_path", [interrupted])
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


def test_what_no_command_takes_is_one_line(capsys) -> None:
    for words, said in {
        "generat": "fcfg: command: expected one of 'demo', .* did you mean 'generate'\\?",
        "--versoin": "fcfg: .*--version.*",
        "generate m i --do a=1 --guidence 3": "fcfg generate: no such option.*--guidance.*",
        "generate": "fcfg generate: missing argument 'MODEL'; see 'fcfg generate --help'.",
        "generate m i": "fcfg generate: missing option '--do'; see 'fcfg generate --help'.",
        "generate m i --do a=1 --seed ten": "fcfg generate: invalid value for '--seed'.*",
        "data check nowhere": "fcfg data check: data, path: expected.*",
        "data chek": "fcfg data: no such command 'chek'.*",
        "data check": "fcfg data check: missing argument.*",
    }.items():
        assert re.fullmatch(said, refusal(capsys, *words.split()))


@pytest.mark.parametrize("name", [*COMMANDS, "data check", "data example"])
def test_every_option_has_a_description(name: str, capsys) -> None:
    out = typed(capsys, *name.split(), "--help").out
    assert "Options:\n" in out
    assert re.search(rf"\n +fcfg {name}", out) or name == "data"  # an example, on a line
    assert not re.search(r"(?m)(^|  ) *\.(  |$)", out)  # the end of an empty one


def test_an_option_is_what_the_source_says(capsys) -> None:
    """Of a class, and of a function, whose documentation is the help; and of a group."""
    words = " ".join(typed(capsys, "calibrate --help").out.split())
    assert "--seed N Seed of draws and resamples. [default: 0]" in words
    assert "--at-least-real / --no-at-least-real Raise the weight of a binary attribute" in words
    words = " ".join(typed(capsys, "evaluate --help").out.split())
    assert "--images N Largest number of images. --seed N" in words  # the experiment's by default
    for words, said in {
        "data": "Check data before training.",
        "data --help": "Check data before training.",
        "data check --help": "\n      fcfg data check faces/ --group person --init faces.yaml\n",
    }.items():
        assert said in typed(capsys, words).out


def test_a_command_ends_with_a_code_and_a_line_and_a_bug_with_its_traceback(
    monkeypatch, capsys
) -> None:
    gone, full = FileNotFoundError(errno.ENOENT, "gone", "x.yaml"), OSError(errno.ENOSPC, "full")
    for error, code, said in (
        (typer.Exit(3), 3, ""),
        (KeyboardInterrupt(), 130, "fcfg train: interrupted\n"),
        (KeyboardInterrupt("step 3"), 130, "fcfg train: step 3\n"),
        (gone, 2, "fcfg train: x.yaml: expected a file .* got gone; .*\n"),
        (full, 2, "fcfg train: file: .* full; .*\n"),
        (typer.BadParameter("both\n  of them."), 2, "fcfg train: .*: both of them; see .*\n"),
    ):
        as_train(monkeypatch, Mock(side_effect=error))
        assert main(["train"]) == code
        assert re.fullmatch(said, capsys.readouterr().err)
    for bug in (ZeroDivisionError("a bug"), OSError(errno.EBADF, "a bug"), SystemExit(75)):
        as_train(monkeypatch, Mock(side_effect=bug))
        with pytest.raises(type(bug)) as caught:
            main(["train"])
        assert caught.value is bug


def test_warnings_are_one_line_and_a_closed_pipe_is_quiet(monkeypatch, capsys) -> None:
    as_train(monkeypatch, lambda: warnings.warn("the disk is\nnearly full", stacklevel=1))
    shown = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert typed(capsys, "train").err == "fcfg: warning: the disk is nearly full\n"
    assert warnings.showwarning is shown
    end, start = os.pipe()
    os.close(end)
    with os.fdopen(start, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["--help"]) == 141
        monkeypatch.undo()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "latin-1", "utf-8"])
def test_a_terminal_that_lacks_letters_gets_the_nearest(encoding: str, monkeypatch) -> None:
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


def test_a_refusal_keeps_its_exit_code_where_it_cannot_be_said(monkeypatch) -> None:
    done = subprocess.run(f"{sys.executable} -m fcfg nope 2>/dev/full", shell=True)
    assert done.returncode == 2
    with open("/dev/full", "w", encoding="utf-8") as full:
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


def test_closed_descriptors_lead_nowhere_and_streams_are_as_before_when_a_command_ends(
    monkeypatch,
) -> None:
    end, start = os.pipe()
    os.close(end)  # the lowest that is free now
    open_closed([end])
    assert os.path.samestat(os.fstat(end), os.stat(os.devnull))
    os.close(end)
    os.close(start)
    before = sys.stdout, sys.stderr, sys.stdout.errors, sys.stderr.errors
    assert main(["--version"]) == 0
    assert (sys.stdout, sys.stderr, sys.stdout.errors, sys.stderr.errors) == before
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["--version"]) == 0
    assert sys.stdout is None


@pytest.mark.promise("A clock that goes back, a missing home and closed streams change no answer")
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
    words = f"generate {model} faces --do age=80 --do smiling=flip --sampling 2 --device cpu"
    out, err = typed(capsys, words)
    assert err == ""  # no bar without a terminal
    folder = Path("counterfactuals/tiny/age=80,smiling=flip")
    said = [f"3 pictures, {DEFAULT_GUIDANCE}, ddim quadratic 2, on cpu", "resized to 8 x 8"]
    said += ["read by the judge", "anna.png", "ben.png", "carl.png", "→ 80", f"to {folder}\n"]
    assert [text for text in said if text not in out] == []
    record = json.loads((folder / "record.json").read_text())
    assert record["model"] == model
    assert record["do"] == {"age": 80.0, "smiling": "flip"}
    for image in record["images"]:
        assert (folder / image["outputs"]["comparison"]).exists()


@pytest.mark.usefixtures("no_compiler", "faces")
@pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning")  # torch's own import
def test_generate_computes_as_it_is_told(model) -> None:
    words = ["generate", model, "faces", "--do", "age=80", "--sampling", "2", "--device", "cpu"]
    assert main([*words, "--out", "plain"]) == 0
    assert main([*words, "--out", "fast", "--compile", "--precision", "float32"]) == 0
    plain, fast = (
        json.loads(Path(out, "record.json").read_text(encoding="utf-8"))
        for out in ("plain", "fast")
    )
    assert (plain["precision"], plain["compiled"], plain["batch_size"]) == ("float32", False, 256)
    assert (fast["precision"], fast["compiled"]) == ("float32", True)


def test_generate_is_shared_by_processes(model, faces, tmp_path, capsys, monkeypatch) -> None:
    """As accelerate and torchrun launch them; each does its part, and one speaks."""
    words = asking(model, "--do", "age=80")
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        said.append(typed(capsys, *words))
    assert said[0].out.startswith("3 pictures in 2 parts, ")
    assert said[1].out == "Written to counterfactuals/tiny/age=80\n"
    assert said[1].err == ""
    assert len(list((tmp_path / "counterfactuals").glob("*/*/*-counterfactual.png"))) == 3


def test_generate_shows_a_part_of_many(model, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    draw(tmp_path / "many", [f"{number:02}.png" for number in range(23)])
    for again in (False, True):
        out = typed(capsys, *asking(model, "--do", "smiling=1", "--no-reverse", images="many")).out
        shown = [text in out for text in ("19.png", "20.png", "and 3 more, in record.json")]
        assert shown == [True, False, True]
        assert "reversal" not in out
        assert ("23 of 23 are finished already; --overwrite makes them anew" in out) is again


def test_generate_works_without_a_judge(faces, tmp_path: Path, capsys) -> None:
    fcfg.save(tiny_pipeline(judge=False), tmp_path / "blind")
    words = ["generate", "blind", "faces", "--do", "smiling=1", "--sampling", "1"]
    assert "no judge" in refusal(capsys, *words)
    assert "judge" not in typed(capsys, *words, "--attributes", GIVEN).out


def test_a_folder_of_ones_own_or_one_that_is_taken(model, faces, capsys) -> None:
    found = Request((), do={"age": "*1.5", "hair": "red"}, model="runs/tiny").folder
    assert found == Path("counterfactuals/tiny/age=x1.5,hair=red")
    words = asking(model, "--out", "out", images=str(faces[0]))
    for name in ("a.txt", "b.txt", "c", "d"):
        (Path("out") / name).mkdir(parents=True)
    said = (
        "  out holds files of others, which stay as they are: 'a.txt', 'b.txt', 'c' and 1 more\n"
    )
    for _ in range(2):  # and no file of its own
        assert said in typed(capsys, "", *words, "--do", "age=80").out
    for path in [path for path in Path("out").iterdir() if path.is_dir()]:
        path.rmdir()
    assert "others" not in typed(capsys, "", *words, "--do", "age=80").out
    faces[0].write_bytes(b"no picture")
    assert "out out: expected one run" in refusal(capsys, *words, "--do", "age=81")


def test_all_that_is_wrong_with_a_request_is_said_at_once(model, faces, capsys) -> None:
    def said(words: str, *fragments: str) -> None:
        line = refusal(capsys, "generate", model, *words.split())
        assert [fragment for fragment in fragments if fragment not in line] == []

    do = "--do agee=1,smilin=1,hair=blue"
    said(f"gone.png {do} --guidance cgf:3", "'agee'", "'smilin'", "'cfg'?", "file: 'gone.png'")
    how = "--device gpu --sampling papr --precision fp16"
    said(
        f"gone.png {do} {how}",
        "got 'gpu'; did you mean 'cuda'?",
        "'paper'?",
        "precision: expected",
    )
    faces[0].write_bytes(b"no picture")
    said("faces --do age=1,hair=blue", "'blue'")
    said("faces --do age=1 --attributes agee=3", "'agee'", "anna.png")


def test_generate_refuses_in_one_line(model, faces, capsys) -> None:
    for more, subject in {
        "--attributes gone.csv": "gone.csv",
        "--out faces": "out faces",
        "--sampling 0": "steps",
        "--sampling paper": "steps",
        "--batch-size x": "--batch-size",
        "--shard 1of3": "--shard: expected I/N, such as 0/4, got '1of3'; count from 0.",
    }.items():
        line = refusal(capsys, "generate", model, "faces", "--do", "age=1", *more.split())
        assert line.startswith(f"fcfg generate: {subject}")
    assert not Path("counterfactuals").exists()


def test_an_interrupted_generate_says_what_is_finished(model, faces, capsys, monkeypatch) -> None:
    replace, count = os.replace, 0

    def interrupted(*arguments: str) -> None:
        nonlocal count
        count += 1
        if count == 5:  # the record, two pictures, the record, and then
            raise KeyboardInterrupt
        replace(*arguments)

    monkeypatch.setattr(os, "replace", interrupted)
    words = asking(model, "--do", "age=1")
    assert main([*words, "--batch-size", "3"]) == 130
    err = capsys.readouterr().err
    out = "counterfactuals/tiny/age=1"
    done = f"1 of 3 pictures are finished, in {out}; run the same command to go on"
    assert err == f"fcfg generate: interrupted; {done}\n"
    record = json.loads(Path(out, "record.json").read_text(encoding="utf-8"))
    assert [Path(image["file"]).name for image in record["images"]] == ["anna.png"]
    monkeypatch.setattr(os, "replace", replace)
    assert main([*words, "--overwrite"]) == 0
