"""Measure the studio: its start, the answers of one visitor, and many visitors at once.

    python studies/load_studio.py --visitors 200 --seconds 60 --out studio.json
    python studies/load_studio.py --visitors 200 --attackers 20 --seconds 600

Starts ``fcfg studio portraits`` on this machine. One visitor moves a slider; then many visitors
ask at once. Of their questions one in ten is new and the others come from a small pool; one in
twenty is given up midway, and one in twenty is about an upload. Attackers come from other
addresses of this machine. They send what is no HTTP, half a request, broken pictures, and
questions that make no sense, as fast as they are answered.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

TARGETS = ("smiling", "male", "young")
QUICK = "dpm-2m uniform 3"  # of the many visitors


@dataclass
class Seen:
    """What visitors saw."""

    turns: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    given_up: int = 0


async def request(
    port: int, method: str, path: str, body: bytes = b"", source: str = "127.0.0.1"
) -> Any:
    """Send a request; return reader, writer and status."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, limit=2**22, local_addr=(source, 0)
    )
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    status = int((await reader.readline()).split()[1])
    while (await reader.readline()).strip():
        pass
    return reader, writer, status


async def fetch(port: int, method: str, path: str, body: bytes = b"") -> bytes:
    """Return the whole body of a reply."""
    reader, writer, status = await request(port, method, path, body)
    data = await reader.read()
    writer.close()
    if status != 200:
        raise RuntimeError(f"{status}: {data[:200]!r}")
    return data


async def ask(port: int, question: dict[str, Any], patience: float = 1e9) -> dict[str, float]:
    """Ask, and return the time of the first event of each kind; end early without patience."""
    start, times = time.perf_counter(), dict[str, float]()
    body = json.dumps(question).encode()
    reader, writer, status = await request(port, "POST", "/api/answer", body)
    try:
        while line := await asyncio.wait_for(reader.readline(), 300):
            if not line.startswith(b"{"):
                continue  # a length or an empty line of the chunks of HTTP
            event = json.loads(line)
            kind = "preview" if "image" in event and event["type"] == "progress" else event["type"]
            times.setdefault(kind, time.perf_counter() - start)
            if kind in ("error", "cancelled") or status != 200:
                raise RuntimeError(f"{status}: {event}")
            if kind == "done" or time.perf_counter() - start > patience:
                break
    finally:
        writer.close()
    return times


async def visitor(number: int, port: int, samples: list[Any], end: float, seen: Seen) -> None:
    """Ask again and again until the end."""
    random, picture = Random(number), b""
    while time.monotonic() < end:
        try:
            sample, target = random.choice(samples), random.choice(TARGETS)
            question = {
                "image": sample["id"],
                "attributes": sample["attributes"],
                "do": {target: "flip"},
                "sampling": QUICK,
                "visitor": str(number),
            }
            draw = random.random()
            if draw < 0.10:
                weight = round(random.uniform(0.5, 3), 4)
                question["guidance"] = f"contrast:{weight};anchor=true"
            elif draw < 0.15:
                picture = picture or await fetch(port, "GET", sample["image"])
                told = json.loads(await fetch(port, "POST", "/api/images", picture))
                question |= {"image": told["id"], "attributes": told["attributes"]}
            patience = 0.0 if 0.15 <= draw < 0.20 else 1e9
            times = await ask(port, question, patience)
            if "done" in times:
                seen.turns[number] += 1
                seen.seconds.append(times["done"])
            else:
                seen.given_up += 1
        except (OSError, RuntimeError, TimeoutError, ValueError, IndexError) as error:
            seen.errors.append(f"{type(error).__name__}: {error}")


async def attacker(number: int, port: int, end: float, met: Counter[str]) -> None:
    """Attack in one way after the other, and count what comes back."""
    random, source = Random(number), f"127.0.0.{2 + number}"
    while time.monotonic() < end:
        try:
            kind = random.choice(("no HTTP", "half", "picture", "question", "question"))
            if kind in ("picture", "question"):
                noise = random.randbytes(random.randrange(1, 60_000))
                body = b"\x89PNG\r\n\x1a\n" + noise if kind == "picture" else noise[:200]
                if random.random() < 0.5 and kind == "question":
                    body = b'{"image": "s0", "do": ' + b"[" * 5000
                path = "/api/images" if kind == "picture" else "/api/answer"
                _, writer, status = await request(port, "POST", path, body, source)
                met[f"refused ({status})" if status < 500 else f"answered {status}"] += 1
            else:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", port, local_addr=(source, 0)
                )
                sent = random.randbytes(500) if kind == "no HTTP" else b"GET / HTTP/1.1\r\nX: "
                writer.write(sent)
                await reader.read()  # until it is refused or closed
                met["closed"] += 1
            writer.close()
        except (OSError, ValueError, IndexError):
            met["closed"] += 1


def memory(pid: int) -> float:
    """Resident memory of a process, in MB."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert found is not None
    return round(int(found[1]) / 1024, 1)


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, which other processes do not change."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def slider(port: int, pid: int, sample: dict[str, Any], moves: int) -> dict[str, Any]:
    """One visitor: the first question, then moves of a slider with the cached abduction."""
    rows: list[dict[str, float]] = []
    for move in range(moves + 1):
        guidance = f"contrast:{1 + move / 10};anchor=true"
        question = {"image": sample["id"], "attributes": sample["attributes"]}
        question |= {"do": {"smiling": "flip"}, "guidance": guidance, "truth": True}
        before = cpu_seconds(pid)
        times = await ask(port, question)
        rows.append(times | {"processor": cpu_seconds(pid) - before})
    first, *later = rows
    return {
        "first_question": {kind: round(first[kind], 3) for kind in ("preview", "answer")},
        "slider_median": {
            kind: round(statistics.median(row[kind] for row in later), 3)
            for kind in ("preview", "answer", "processor")
        },
        "slider_worst": {
            kind: round(max(row[kind] for row in later), 3) for kind in ("preview", "answer")
        },
        "moves": moves,
    }


async def crowd(
    port: int, pid: int, samples: list[Any], visitors: int, seconds: float, attackers: int
) -> dict[str, Any]:
    """Many visitors at once, among attackers."""
    seen, before, end = Seen(), memory(pid), time.monotonic() + seconds
    met = Counter[str]()
    half: list[float] = []

    async def watch() -> None:
        await asyncio.sleep(seconds / 2)
        half.append(memory(pid))

    work = [visitor(number, port, samples, end, seen) for number in range(visitors)]
    work += [attacker(number, port, end, met) for number in range(attackers)]
    await asyncio.gather(watch(), *work)
    turns = sorted(seen.turns[number] for number in range(visitors))
    ordered = sorted(seen.seconds)
    return {
        "visitors": visitors,
        "seconds": seconds,
        "attackers": attackers,
        "attacks": dict(met),
        "answers": len(ordered),
        "given_up": seen.given_up,
        "errors": len(seen.errors),
        "first_errors": seen.errors[:3],
        "turns": {"min": turns[0], "median": turns[visitors // 2], "max": turns[-1]},
        "latency": {
            "median": round(statistics.median(ordered), 2),
            "p95": round(ordered[int(0.95 * (len(ordered) - 1))], 2),
            "p99": round(ordered[int(0.99 * (len(ordered) - 1))], 2),
            "max": round(ordered[-1], 2),
        },
        "memory_mb": {"before": before, "half": half[0], "after": memory(pid)},
    }


def table_of(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the crowd met, as a table."""
    many = result["many_visitors"]
    wait, turns, used = many["latency"], many["turns"], many["memory_mb"]
    refused = sum(n for kind, n in many["attacks"].items() if kind.startswith("refused"))
    closed, attacks = many["attacks"].get("closed", 0), sum(many["attacks"].values())
    load = f"{result['load_average_before']} and {result['load_average_after']}"
    return [
        ("measured", ""),
        ("visitors, attackers", f"{many['visitors']}, {many['attackers']}"),
        ("seconds", f"{many['seconds']:.0f}"),
        ("load of the machine before and after", load),
        ("answers to visitors", f"{many['answers']:,}"),
        ("questions without an answer", f"{many['errors']}"),
        ("turns of a visitor", f"{turns['min']} to {turns['max']}, median {turns['median']}"),
        ("wait for an answer: median, p99", f"{wait['median']:.0f} s, {wait['p99']:.0f} s"),
        (
            "memory before, halfway and after",
            f"{used['before']:.0f}, {used['half']:.0f} and {used['after']:.0f} MB",
        ),
        (
            "attacks: refused, closed, other",
            f"{refused:,}, {closed:,}, {attacks - refused - closed}",
        ),
    ]


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visitors", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--attackers", type=int, default=0)
    parser.add_argument("--moves", type=int, default=8)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    load, start = round(os.getloadavg()[0], 1), time.perf_counter()
    command = [sys.executable, "-m", "fcfg", "studio", "portraits", "--port", "0", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            ready = round(time.perf_counter() - start, 2)
            port = int(re.findall(r":(\d+)/", line)[0])
            result: dict[str, Any] = {
                "server": line.split(":")[0],
                "cores": len(os.sched_getaffinity(0)),
                "load_average_before": load,
                "start_seconds": ready,
                "start_processor": round(cpu_seconds(process.pid), 2),
            }
            samples = json.loads(asyncio.run(fetch(port, "GET", "/api/samples")))["samples"]
            result["one_visitor"] = asyncio.run(
                slider(port, process.pid, samples[0], options.moves)
            )
            size = options.visitors, options.seconds, options.attackers
            result["many_visitors"] = asyncio.run(crowd(port, process.pid, samples, *size))
            result["load_average_after"] = round(os.getloadavg()[0], 1)
            process.send_signal(signal.SIGINT)
            result["exit_code"] = process.wait(timeout=30)
        finally:
            process.kill()
    text = json.dumps(result, indent=1)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")
    if options.table is not None:
        with options.table.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(table_of(result))


if __name__ == "__main__":
    main()
