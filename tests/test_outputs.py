"""Outputs of all commands: files of others stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from face_folder import faces
from fake_results import make_results
from fcfg.cli import main
from fcfg.support.outputs import LIST, Outputs, make_folder
from kills import ended_after
from refusal import refusal, refused

FILES = {"page.html": b"one", "figures/bar.svg": b"two"}


def ours(folder: Path, **changes: object) -> Outputs:
    return Outputs(**({"folder": folder, "command": "report", "subject": "a run"} | changes))


@pytest.mark.promise("Files of others are neither read nor replaced")
def test_our_own_files_are_replaced_and_nobody_elses(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    assert ours(out).write(FILES) == [out / name for name in FILES]
    ours(out).write(FILES | {"page.html": b"three"})
    assert (out / "page.html").read_bytes() == b"three"
    for other in (ours(out, command="data check"), ours(out, subject="another run")):
        with refused(f"out {out}", "'page.html', 'figures/bar.svg'", "--overwrite"):
            other.write(FILES)
    (out / "page.html").write_bytes(b"corrected by hand")
    refused(f"out {out}", "'page.html'").by(ours(out).check, FILES)
    refused(f"out {out}", "'page.html'").by(ours(out).write, FILES | {"more.txt": b""})
    assert not (out / "more.txt").exists()  # refused before the first file
    ours(out, subject="another run", overwrite=True).write(FILES)
    ours(out, subject="another run").write(FILES)


def test_whatever_was_there_before_is_a_strangers(tmp_path: Path) -> None:
    """Links and folders, too, which are not followed."""
    names = ["table-0.csv", "table-1.csv", "link", "lost", "folder"]
    for name in (*names[:2], "elsewhere"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    for name in names:
        refused(f"out {tmp_path}", f"'{name}'").by(ours(tmp_path).write, {name: b"two"})
    with refused(f"out {tmp_path}", "'table-0.csv', 'table-1.csv', 'link' and 2 more"):
        ours(tmp_path).write(dict.fromkeys(names, b""))
    assert {(tmp_path / name).read_text() for name in (*names[:2], "elsewhere")} == {"mine"}
    assert not (tmp_path / LIST).exists()


@pytest.mark.parametrize("text", ["", "[]", '{"a": 3}', "[" * 10**5])
def test_a_list_that_is_none_makes_no_file_ours(tmp_path: Path, text: str) -> None:
    ours(tmp_path).write({"a": b"one"})
    (tmp_path / LIST).write_text(text)
    refused(f"out {tmp_path}", "'a'").by(ours(tmp_path).write, {"a": b"one"})


@pytest.mark.parametrize("renames", range(4))  # the list, two files, the list
def test_whenever_writing_is_killed_it_can_be_done_again(tmp_path: Path, renames: int) -> None:
    new = dict.fromkeys(FILES, b"new")
    ours(tmp_path).write(FILES)
    with ended_after(renames):
        ours(tmp_path).write(new)
    ours(tmp_path).check(FILES)
    ours(tmp_path).write(new)
    listed = json.loads((tmp_path / LIST).read_text())
    assert {len(entry["digests"]) for entry in listed.values()} == {1}


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        refused(f"out {out}", "a folder that can be written", "the file").by(ours(out).check, ())
    for out in (tmp_path / ("x" * 300), tmp_path / "a\0b"):  # before any work
        refused("out", "a folder that can be written").by(ours(out).check, ())
    with refused("out /proc/nothing/here", "a folder that can be written"):
        make_folder(Path("/proc/nothing/here"))


def test_a_report_spares_the_files_of_others(tmp_path: Path, capsys) -> None:
    run, other = (make_results(tmp_path / f"run{n}", n=n) for n in (4, 5))
    out = tmp_path / "out"
    out.mkdir()
    (out / "table.csv").write_text("mine")
    assert "'table.csv'" in refusal(capsys, "report", run, "--out", out)
    assert [path.name for path in out.iterdir()] == ["table.csv"]
    assert main(["report", str(run), "--out", str(out), "--overwrite"]) == 0
    assert (out / "table.csv").read_text() != "mine"
    assert main(["report", str(run), "--out", str(out)]) == 0  # its own
    assert "'report.html'" in refusal(capsys, "report", other, "--out", out)


def test_a_check_of_data_spares_the_files_of_others(tmp_path: Path, capsys) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        faces(tmp_path / name, count=20)
    out = tmp_path / "out"
    out.mkdir()
    (out / "sheet.png").write_text("mine")
    words = ["data", "check", str(tmp_path / "one"), "--out", str(out)]
    assert "'sheet.png'" in refusal(capsys, *words)
    assert (out / "sheet.png").read_text() == "mine"
    assert main([*words, "--overwrite"]) == 0
    assert main(words) == 0
    assert "'sheet.png'" in refusal(capsys, "data", "check", tmp_path / "two", "--out", out)
    assert "the file" in refusal(capsys, *words[:-1], out / "sheet.png")
    assert main(words[:3]) == 0
    (tmp_path / "one").rename(tmp_path / "three")  # a moved folder is checked as before
    assert main(["data", "check", str(tmp_path / "three")]) == 0
