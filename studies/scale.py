"""Answer many small pictures in one process: its memory, its rate, and a restart; then each stage.

    python studies/scale.py --count 100000 --folder FOLDER

``FOLDER`` gets the pictures, drawn anew, and the answers. The model is tiny and untrained: what is
measured is everything beside the network. Seconds are those of the processor, which other work on
the machine makes no longer.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import pickle
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import fcfg
from fcfg.diffusion import AttributeEmbedder, Denoiser, NoiseSchedule
from fcfg.diffusion.networks import UNetConfig
from fcfg.generation import Request
from fcfg.generation.chunks import Chunk
from fcfg.generation.division import Division, divide
from fcfg.generation.many import answer_all
from fcfg.generation.parts import Row, write_part
from fcfg.generation.picture_files import read_picture
from fcfg.support.pictures import Pixels

TABLES = Path(__file__).parent / "results" / "tables"
SIZE, CHUNK, GROUP, PER_FILE = 16, 256, 1024, 10_240
MIB = 2**20


def model() -> fcfg.CounterfactualPipeline:
    """Return a model of two attributes that answers 16 pixels in a moment."""
    torch.manual_seed(0)
    space = fcfg.AttributeSpace([fcfg.Binary("smiling"), fcfg.Continuous("age", 0, 100)])
    graph = fcfg.CausalGraph({"smiling": [], "age": []})
    embedder = AttributeEmbedder(space, width=8)
    shape = {"size": SIZE, "base": 8, "multipliers": (1,), "attention": (), "blocks": 1}
    network = fcfg.UNet(UNetConfig(condition=8 * len(space), **shape))
    denoiser = Denoiser(network, embedder, NoiseSchedule("linear", 100)).eval()
    return fcfg.CounterfactualPipeline(denoiser, fcfg.StructuralCausalModel(space, graph))


def png(number: int, size: int, kind: str = "PNG") -> bytes:
    """Return the file of a picture of smooth noise, its own."""
    coarse = np.random.default_rng(number).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(coarse).resize((size, size), Image.Resampling.BICUBIC).save(file, kind)
    return file.getvalue()


def draw(folder: Path, count: int) -> None:
    """Write pictures and attributes as Parquet files, one row group after the other."""
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    for first in range(0, count, PER_FILE):
        path, last = folder / f"faces-{first:09}.parquet", min(first + PER_FILE, count)
        if path.exists():
            continue
        numbers = np.arange(first, last)
        table = pyarrow.table(
            {
                "image": [png(number, SIZE) for number in numbers],
                "file_name": [f"{number:09}.png" for number in numbers],
                "smiling": numbers % 2,
                "age": numbers % 100 + 0.0,
            }
        )
        parquet.write_table(table, path, row_group_size=GROUP)


def memory() -> tuple[float, float]:
    """Return the memory of this process now, and the most it had, in MiB."""
    pages = int(Path("/proc/self/statm").read_text("utf-8").split()[1])
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return pages * os.sysconf("SC_PAGESIZE") / MIB, most


def division(folder: Path) -> Division:
    """Return the question about all pictures."""
    files = [folder / "faces"]
    how: dict[str, Any] = {"sampling": "1", "reverse": False, "trust": False}
    request = Request(
        files, do={"smiling": "flip"}, out=folder / "out", model=str(folder / "model"), **how
    )
    return divide(fcfg.load(folder / "model"), request, chunk=CHUNK)


def run(folder: Path) -> Iterator[list[object]]:
    """Answer all, and yield what was measured at shares of the work; then start again."""
    asked, wall, began = division(folder), time.perf_counter(), time.process_time()
    marks, rows, last = [0.1, 0.25, 0.5, 0.75, 1.0], list[list[object]](), [0.0, began]

    def on_progress(share: float) -> None:
        if marks and share >= marks[0]:
            marks.pop(0)
            now = time.process_time()
            rate = (share - last[0]) * asked.images / (now - last[1])
            last[:] = [share, now]
            rows.append([f"{share:.0%}", *(f"{x:.0f}" for x in memory()), f"{rate:.0f}"])

    answer_all(asked, on_progress=on_progress)
    yield from rows
    print(f"{asked.images} in {time.perf_counter() - wall:.0f} s of the clock")
    began = time.process_time()
    again = division(folder)
    assert not again.missing()
    answer_all(again)
    yield ["restart", *(f"{x:.0f}" for x in memory()), f"{time.process_time() - began:.2f} s"]


def timed(work: Callable[[], object], times: int) -> float:
    """Return the milliseconds of the processor that some work takes."""
    work()
    began = time.process_time()
    for _ in range(times):
        work()
    return 1000 * (time.process_time() - began) / times


def stages(folder: Path, times: int = 200) -> Iterator[list[object]]:
    """Yield milliseconds per picture of what is done beside the network, by size and kind."""
    import pyarrow
    from pyarrow import parquet

    space = model().space
    for size, kind in ((64, "PNG"), (256, "PNG"), (256, "JPEG"), (1024, "JPEG")):
        data, wanted = png(0, size, kind), Pixels(min(size, 256), 3)
        path, count = folder / "stage.parquet", 64
        parquet.write_table(pyarrow.table({"image": [data] * count}), path)
        chunk, answer = Chunk(".parquet", path, count, (0, 0, 0)), png(0, wanted.size)
        picture = Image.open(io.BytesIO(answer)).convert("RGB")
        rows, out = [Row(f"{n}.png", answer) for n in range(count)], folder / "stage-out.parquet"

        def decode(data: bytes = data, wanted: Pixels = wanted) -> object:
            return read_picture(io.BytesIO(data), Path("x"), wanted)

        yield [
            f"{size}² {kind}",
            f"{timed(lambda c=chunk: c.read(()), 20) / count:.3f}",
            f"{timed(decode, times):.3f}",
            f"{timed(lambda p=picture: p.save(io.BytesIO(), 'PNG'), times):.3f}",
            f"{timed(lambda r=rows, o=out: write_part(o, 'parquet', r, space), 20) / count:.3f}",
            f"{len(pickle.dumps(chunk)) / count:.0f}",
        ]


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, required=True)
    arguments = parser.parse_args()
    folder = arguments.folder
    torch.set_num_threads(1)
    draw(folder / "faces", arguments.count)
    fcfg.save(model(), folder / "model")
    tables = {
        "scale-stages": (["picture", "read", "decode", "encode", "write", "bytes sent"], stages),
        "scale": (["done", "memory now, MiB", "at most, MiB", "images/s"], run),
    }
    for name, (heads, rows) in tables.items():
        found = [heads, *rows(folder)]
        print(*found, sep="\n")
        with (TABLES / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(found)


if __name__ == "__main__":
    main()
