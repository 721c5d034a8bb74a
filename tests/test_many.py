"""More pictures than a process holds: the same answers, once each, whoever computes them."""

from __future__ import annotations

import io
import json
import os
import pickle
import signal
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import fcfg
from fcfg import InputError
from fcfg.cli import main
from fcfg.generation import Request, chunks, many
from fcfg.generation.chunks import find_chunks
from fcfg.generation.division import MANIFEST, Division, divide
from fcfg.generation.many import Errand, Outcome, answer_all, workers_of
from kills import ended_after
from refusal import refused
from tiny import GIVEN, SIZE, draw, tiny_pipeline

arrow: Any = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
parquet: Any = pytest.importorskip("pyarrow.parquet")
COUNT, CHUNK = 21, 4
ATTRIBUTES = {
    "smiling": [row % 2 for row in range(COUNT)],
    "age": [20.0 + row for row in range(COUNT)],
    "hair": [("dark", "grey", "red")[row % 3] for row in range(COUNT)],
}


def png(number: int) -> bytes:
    """A picture of noise, its own."""
    pixels = np.random.default_rng(number).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same pictures in a folder with a table, in Parquet and in a tar."""
    root = tmp_path_factory.mktemp("inputs")
    draw(root / "faces", names := [f"{row:03}.png" for row in range(COUNT)])
    rows = zip(names, *ATTRIBUTES.values(), strict=True)
    lines = [",".join(("file_name", *ATTRIBUTES)), *(",".join(map(str, row)) for row in rows)]
    (root / "labels.csv").write_text("\n".join(lines))
    pictures = [(root / "faces" / name).read_bytes() for name in names]
    table = arrow.table({"image": pictures, "file_name": names, **ATTRIBUTES})
    parquet.write_table(table, root / "faces.parquet", row_group_size=10)
    with tarfile.open(root / "faces.tar", "w") as tar:
        for row, (name, data) in enumerate(zip(names, pictures, strict=True)):
            about = {key: column[row] for key, column in ATTRIBUTES.items()}
            add(tar, f"deep/{name[:-4]}.json", json.dumps(about).encode())
            add(tar, f"deep/{name}", data)
            add(tar, f"deep/{name[:-4]}.txt", b"not of interest")
    return root


def asked(model: Path, files: object, out: Path, **how: Any) -> Division:
    options = {"sampling": 2, "reverse": False} | how
    named = {key: options.pop(key) for key in ("form", "chunk") if key in options}
    request = Request([files], do={"age": 80}, out=out, model=str(model), **options)
    return divide(fcfg.load(model), request, **{"chunk": CHUNK, **named})


def rows_of(out: Path) -> list[dict[str, Any]]:
    """What was answered, in order."""
    found = [parquet.read_table(path).to_pylist() for path in sorted(out.glob("part-*.parquet"))]
    return [row for part in found for row in part]


def contents(out: Path) -> dict[str, bytes]:
    files = [path for path in out.rglob("*") if path.is_file() and path.name[0] != "."]
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def picture(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data))).astype(int)


def test_answers_are_those_of_the_model_whatever_holds_the_pictures(
    tiny_folder: Path, inputs: Path, tmp_path: Path
) -> None:
    labels = inputs / "labels.csv"
    for name, given in (("faces", labels), ("faces.parquet", "auto"), ("faces.tar", "auto")):
        out = tmp_path / name
        assert answer_all(asked(tiny_folder, inputs / name, out, attributes=given)) == 0
        rows = rows_of(out)
        assert [Path(row["file_name"]).stem for row in rows] == [f"{n:03}" for n in range(COUNT)]
        assert [row["factual_hair"] for row in rows] == ATTRIBUTES["hair"]
        assert {row["counterfactual_age"] for row in rows} == {80.0}
        records = [json.loads(row["record"]) for row in rows]
        assert [each["factual"]["age"] for each in records] == ATTRIBUTES["age"]
    model, pictures = fcfg.load(tiny_folder), [png(row) for row in range(COUNT)]
    images = np.stack([picture(data) for data in pictures]).astype(np.uint8)
    pair = model.counterfactual(
        images, ATTRIBUTES, {"age": 80}, plan=model.plan(["age"], sampling=2)
    )
    for row, shown in zip(rows, fcfg.to_pictures(pair.images), strict=True):
        other = picture(row["counterfactual"])
        assert np.abs(np.asarray(shown).astype(int) - other).max() <= 1  # batched otherwise
    answers = [
        [row["counterfactual"] for row in rows_of(tmp_path / each)]
        for each in ("faces", "faces.tar")
    ]
    assert answers[0] == answers[1]  # both cut into the same chunks
    assert contents(tmp_path / "faces.parquet").keys() > contents(tmp_path / "faces.tar").keys()


def test_each_form_holds_the_same_answers(tiny_folder: Path, inputs: Path, tmp_path: Path) -> None:
    shown: dict[str, dict[str, bytes]] = {}
    for form in ("parquet", "tar", "pictures"):
        answer_all(asked(tiny_folder, inputs / "faces.parquet", tmp_path / form, form=form))
    rows = rows_of(tmp_path / "parquet")
    shown["parquet"] = {f"{row['file_name'][:-4]}.png": row["counterfactual"] for row in rows}
    records = [json.loads(row["record"]) for row in rows]
    shown["tar"], said = {}, []
    for path in sorted((tmp_path / "tar").glob("*.tar")):
        with tarfile.open(path) as tar:
            for info in tar:
                file = tar.extractfile(info)
                assert file is not None
                if info.name.endswith(".json"):
                    said.append(json.loads(file.read()))
                else:
                    shown["tar"][info.name] = file.read()
    assert said == records
    folder = tmp_path / "pictures"
    shown["pictures"] = {path.name: path.read_bytes() for path in sorted(folder.glob("*/*.png"))}
    lines = [path.read_text().splitlines() for path in sorted(folder.glob("*.jsonl"))]
    assert [json.loads(line) for part in lines for line in part] == records
    assert shown["parquet"] == shown["tar"] == shown["pictures"]
    assert list(shown["tar"]) == list(shown["parquet"])
    # What was written can be asked again: a tar of answers is one of samples.
    again = find_chunks([tmp_path / "tar"], 100, lambda *_: {})
    assert [chunk.count for chunk in again] == [4, 4, 2, 4, 4, 2, 1]


@pytest.mark.promise("A run over chunks that is killed goes on, and computes no whole part again")
def test_a_run_goes_on_where_it_was_killed_and_computes_nothing_again(
    tiny_folder: Path, inputs: Path, tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    answer_all(asked(tiny_folder, inputs / "faces.tar", whole))
    division = asked(tiny_folder, inputs / "faces.tar", killed)
    with ended_after(3):  # the manifest and two parts
        answer_all(division)
    assert len(division.missing()) == 4
    before = {path: path.stat().st_mtime_ns for path in killed.glob("part-*")}
    shares = []
    again = asked(tiny_folder, inputs / "faces.tar", killed)
    answer_all(again, on_progress=shares.append)
    assert shares == [pytest.approx(done / 13) for done in (4, 8, 12, 13)]
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())
    assert contents(whole) == contents(killed)
    errand = Errand(again.request, again.form, again.workplace)
    assert errand(0, again.chunks[0]) == Outcome(4)  # as another worker has written it
    for shard in ((0, 2), (1, 2)):  # two processes without an engine
        two = asked(tiny_folder, inputs / "faces.tar", tmp_path / "two")
        assert two.missing(shard) == [*range(len(two.chunks))][shard[0] :: 2]
        answer_all(two, shard=shard)
    assert contents(whole) == contents(tmp_path / "two")


def test_another_question_another_input_or_files_of_others_are_refused(
    tiny_folder: Path, inputs: Path, tmp_path: Path
) -> None:
    out, tar = tmp_path / "out", inputs / "faces.tar"
    answer_all(asked(tiny_folder, tar, out))
    for how in (
        {"seed": 1},
        {"form": "tar"},
        {"chunk": 5},
        {"sampling": 3},
        {"attributes": GIVEN},
    ):
        refused(f"out {out}", "one run").by(asked, tiny_folder, tar, out, **how)
    refused(f"out {out}", "inputs").by(asked, tiny_folder, inputs / "faces.parquet", out)
    refused("--overwrite").by(asked, tiny_folder, tar, out, overwrite=True)
    for text in ("[]", "no JSON", "3"):
        (out / MANIFEST).write_text(text)
        refused(f"out {out}", MANIFEST).by(asked, tiny_folder, tar, out)
    (out / MANIFEST).unlink()
    refused(f"out {out}", "part-").by(asked, tiny_folder, tar, out)
    other = asked(tiny_folder, tar, tmp_path / "other")
    object.__setattr__(other.workplace, "digest", "of others")
    refused(f"model {tiny_folder}", "of others").by(answer_all, other)
    elsewhere = asked(tiny_folder, tar, tmp_path / "elsewhere")
    object.__setattr__(elsewhere.workplace, "device", "cuda")
    refused("device", "a GPU where the worker is").by(answer_all, elsewhere)


def test_a_picture_that_cannot_be_read_is_named_and_does_not_stop_the_others(
    tiny_folder: Path, tmp_path: Path
) -> None:
    pictures = [png(0), b"no picture", png(2), b"", b""]
    table = arrow.table(
        {"image": pictures, "smiling": [0] * 5, "age": [1.0] * 5, "hair": ["red"] * 5}
    )
    parquet.write_table(table, tmp_path / "some.parquet")
    for form in ("parquet", "tar", "pictures"):
        division = asked(
            tiny_folder, tmp_path / "some.parquet", tmp_path / form, chunk=3, form=form
        )
        assert answer_all(division) == 3
    rows = rows_of(tmp_path / "parquet")
    assert [row["counterfactual"] is None for row in rows] == [False, True, False, True, True]
    assert [row["factual_hair"] for row in rows] == ["red", None, "red", None, None]
    record = json.loads(rows[1]["record"])
    assert record == {"file": "some-0-1", "error": "not a picture of a known format"}
    assert len(list((tmp_path / "pictures").glob("*/*.png"))) == 2


def test_inputs_that_are_none_are_refused_before_anything_is_written(
    tiny_folder: Path, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(subject: str, *fragments: str, file: str = "x.parquet", **how: Any) -> None:
        by = (asked, tiny_folder, tmp_path / file, tmp_path / "out")
        refused(subject, *fragments).by(*by, **how)

    where = str(tmp_path / "x.parquet")
    (tmp_path / "x.parquet").write_text("no table")
    refuse(where, "a Parquet file")
    parquet.write_table(arrow.table({"picture": [b"x"]}), where)
    refuse(where, "a column 'image'", "picture")
    parquet.write_table(arrow.table({"image": ["a path"]}), where)
    refuse(where, "contents of picture files")
    parquet.write_table(arrow.table({"image": [png(0)], "age": [1.0]}), where)
    refuse(where, "all attributes, or none of them", "'smiling', 'hair'")
    bad = {"image": [png(0)], "age": [1.0], "smiling": [2], "hair": ["red"]}
    parquet.write_table(arrow.table(bad), where)
    refuse("attribute 'smiling'")
    with monkeypatch.context() as patch:
        patch.setattr(chunks, "_LARGEST", 100)
        refuse(where, "row groups of at most 100 bytes", "row_group_size=1000")
    (tmp_path / "x.tar").write_text("no tar")
    refuse(str(tmp_path / "x.tar"), "a tar that is not compressed", file="x.tar")
    for name, data in (("a.json", b"{}"), ("a.png", b"x"), ("a.json", b"[3]")):
        with tarfile.open(tmp_path / "y.tar", "w") as tar:
            add(tar, "a.b.png", png(0))
            add(tar, name, data)
            add(tar, "a.c.json", b"{}")
        refuse(str(tmp_path / "y.tar"), "one picture in every sample", file="y.tar")
    (tmp_path / "none").mkdir()
    mixed = draw(tmp_path / "mixed", ["a.png"])[0]
    (tmp_path / "mixed" / "b.tar").write_bytes(b"")
    parquet.write_table(
        arrow.table({"image": arrow.array([], arrow.binary())}), tmp_path / "no.parquet"
    )
    for file in ("none", "mixed", str(mixed), "gone.tar", "no.parquet"):
        refuse("images", "one folder of pictures", file=file)
    tar, table = str(inputs / "faces.tar"), str(inputs / "labels.csv")
    for given in (table, {"age": [1.0]}):
        refuse("attributes", "for a folder of pictures", file=tar, attributes=given)
    refuse("attributes", "'agee'", file=tar, attributes="agee=3")
    refuse("--chunk", file=str(inputs / "faces"), chunk=0)
    refuse("--form", file=str(inputs / "faces"), form="zip")
    assert not (tmp_path / "out").exists()
    for names in (["a/x.png", "b/X.jpg"], ["a.b.png", "c.png"]):
        parquet.write_table(arrow.table({"image": [png(0), png(1)], "file_name": names}), where)
        division = asked(tiny_folder, Path(where), tmp_path / names[1], form="tar")
        refused("images", "names of pictures").by(answer_all, division)


def test_a_model_without_a_judge_needs_attributes(inputs: Path, tmp_path: Path) -> None:
    fcfg.save(tiny_pipeline(judge=False), tmp_path / "blind")
    question = (tmp_path / "blind", inputs / "faces", tmp_path / "out")
    refused("attributes", "no judge").by(asked, *question)
    answer_all(asked(*question, attributes=GIVEN))
    assert {row["factual_age"] for row in rows_of(tmp_path / "out")} == {40.0}


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning")  # torch's own import
def test_a_compiled_network_gives_the_same_answers(
    tiny_folder: Path, inputs: Path, tmp_path: Path
) -> None:
    request = Request([inputs / "faces"], do={"age": 80}, sampling=2, model=str(tiny_folder))
    for out, how in (("plain", {}), ("fast", {"compile": True, "precision": "float32"})):
        here = replace(request, out=tmp_path / out, reverse=False)
        answer_all(divide(fcfg.load(tiny_folder), here, **how))
    answers = [
        [row["counterfactual"] for row in rows_of(tmp_path / out)] for out in ("plain", "fast")
    ]
    assert answers[0] == answers[1]


# Workers ----------------------------------------------------------------------------------------


def test_a_refusal_comes_back_from_a_worker() -> None:
    error = InputError("age", expected="1", got=ValueError("2"), do="write 1")
    error.others = [InputError("sex", expected="1", got=2, do="write 1")]
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.subject, str(again.others[0])) == (
        str(error),
        "age",
        str(error.others[0]),
    )


@contextmanager
def cluster(count: int) -> Iterator[tuple[str, Callable[[], int]]]:
    """A scheduler and workers on loopback; gives its address, and what kills a worker for good."""
    pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=count, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as workers:

        def kill() -> int:
            nanny = next(iter(workers.workers.values()))
            process = nanny.pid
            nanny.auto_restart = False
            os.kill(process, signal.SIGKILL)
            return process

        yield workers.scheduler_address, kill


@pytest.mark.promise(
    "A worker that is lost costs a chunk: each picture is answered once, byte for byte"
)
@pytest.mark.filterwarnings("ignore")  # of other people's libraries
def test_two_workers_answer_as_one_process_though_one_is_killed(
    tiny_folder: Path, inputs: Path, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    answer_all(asked(tiny_folder, inputs / "faces.parquet", one, chunk=1))
    division, killed = asked(tiny_folder, inputs / "faces.parquet", two, chunk=1), []
    with cluster(2) as (address, kill), workers_of("dask", address) as executor:

        def once(share: float) -> None:
            if not killed:
                killed.append(kill())

        answer_all(division, executor, on_progress=once)
    assert killed
    assert contents(one) == contents(two)
    names = [row["file_name"] for row in rows_of(two)]
    assert names == [f"{row:03}.png" for row in range(COUNT)]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of other people's libraries
def test_ten_thousand_pictures_are_answered_once_each_though_a_worker_is_killed(
    tiny_folder: Path, tmp_path: Path
) -> None:
    count, seconds = 10_000, dict[str, float]()
    table = {"image": [png(row) for row in range(count)], "file_name": [*map(str, range(count))]}
    table |= {
        name: [column[row % COUNT] for row in range(count)] for name, column in ATTRIBUTES.items()
    }
    parquet.write_table(arrow.table(table), tmp_path / "many.parquet", row_group_size=1000)

    def answer(
        out: str, executor: Executor | None = None, kill: Callable[[], int] | None = None
    ) -> None:
        killed = []

        def once(share: float) -> None:
            if kill is not None and not killed and share > 0.3:
                killed.append(kill())

        how = {"sampling": 1, "trust": False, "chunk": 125}
        division = asked(tiny_folder, tmp_path / "many.parquet", tmp_path / out, **how)
        start = time.perf_counter()
        answer_all(division, executor, on_progress=once)
        seconds[out] = time.perf_counter() - start
        assert bool(killed) == (kill is not None)

    answer("here")
    for workers in (1, 2):
        with cluster(workers) as (address, _), workers_of("dask", address) as executor:
            answer(f"of {workers}", executor)
    with cluster(2) as (address, kill), workers_of("dask", address) as executor:
        answer("one killed", executor, kill)
    print({name: f"{count / each:.0f} images/s" for name, each in seconds.items()})
    whole = contents(tmp_path / "here")
    assert all(contents(tmp_path / each) == whole for each in ("of 1", "of 2", "one killed"))
    assert [row["file_name"] for row in rows_of(tmp_path / "one killed")] == table["file_name"]


def test_an_engine_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="the extra 'dask' is not installed")

    def enter(*words: str) -> None:
        with workers_of(*words):
            pass

    refused("--engine", "'dask'").by(enter, "spark")
    refused("--address", "a scheduler that answers").by(enter, "dask", "nowhere://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "distributed", None)
    refused("--engine dask", "pip install 'fcfg[dask]'").by(enter, "dask")


# The command ------------------------------------------------------------------------------------


def said(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    assert main([*map(str, words)]) == code
    out, err = capsys.readouterr()
    return out if code == 0 else err


def test_the_command_answers_chunk_by_chunk_and_goes_on(
    tiny_folder: Path, inputs: Path, tmp_path: Path, capsys, monkeypatch
) -> None:
    out, how = tmp_path / "out", ("--do", "age=80", "--sampling", "2", "--no-reverse")
    words = ["generate", tiny_folder, inputs / "faces.tar", *how, "--out", out, "--device", "cpu"]
    out.mkdir()
    (out / "old.parquet").touch()
    text = said(capsys, *words, "--chunk", 8)
    assert f"{out} holds files of others, which stay as they are: 'old.parquet'\n" in text
    (out / "old.parquet").unlink()
    assert "21 pictures, " in text
    assert "ddim quadratic 2, on cpu; 3 of 3 parts are left" in text
    assert text.endswith(f"Written to {out}\n")
    again = said(capsys, *words, "--chunk", 8)
    assert "; 0 of 3 parts are left" in again
    assert "others" not in again
    assert "one run (chunk: 8)" in said(capsys, *words, code=2)
    assert "--chunk: expected" in said(capsys, *words, "--chunk", 0, code=2)
    parquet.write_table(arrow.table({"image": [png(0), b"none"]}), tmp_path / "x.parquet")
    words[2:] = [tmp_path / "x.parquet", *how, "--out", tmp_path / "x", "--guidance", "none"]
    assert "Not read: 1 pictures, whose records say why" in said(capsys, *words)
    monkeypatch.setattr(many, "write_part", interrupted)
    words[2:] = [inputs / "faces", *how, "--out", tmp_path / "y", "--form", "tar"]
    assert "whole parts are kept in" in said(capsys, *words, code=130)
    assert list((tmp_path / "y").glob("part*")) == []


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore")  # of other people's libraries
def test_the_command_asks_workers(tiny_folder: Path, inputs: Path, tmp_path: Path, capsys) -> None:
    words = ["generate", tiny_folder, inputs / "faces.parquet", "--do", "age=80", "--sampling", 1]
    words += ["--no-reverse", "--device", "cpu", "--chunk", 5]
    said(capsys, *words, "--out", tmp_path / "one")
    with cluster(1) as (address, _):
        said(capsys, *words, "--out", tmp_path / "two", "--address", address)
        where = ("--device", "cuda", "--engine", "dask", "--address", address)
        text = said(capsys, *words, "--out", tmp_path / "three", *where, code=2)
        assert "device: expected a GPU where the worker is" in text
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
