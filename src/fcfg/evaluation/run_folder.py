"""The folder of a run: result files of its shards, features, and what is computed from them."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from fcfg.evaluation.features import FeatureFiles, missing_entries
from fcfg.evaluation.pictures import INDEX, remove_pictures
from fcfg.evaluation.result_files import (
    Result,
    append_entries,
    begin_file,
    check_same_experiment,
    check_same_run,
    read_lines,
    read_results,
)
from fcfg.evaluation.result_schema import JSON
from fcfg.support.errors import InputError
from fcfg.support.files import single_writer
from fcfg.support.outputs import make_folder


class RunFolder:
    """The files of a run, as one shard sees them."""

    def __init__(self, path: Path, header: JSON) -> None:
        shard = header["shard"]
        self.path, self.header, self.count = path, header, shard[1]
        self.name = f"results-{shard[0]}-of-{shard[1]}"  # of this shard
        self.features = FeatureFiles(path, shard[0])

    @property
    def _result_files(self) -> list[Path]:
        return sorted(self.path.glob("results-*-of-*.jsonl"))

    @property
    def _headers(self) -> list[JSON]:
        firsts = (next(read_lines(path, unfinished=True), None) for path in self._result_files)
        return [first[1] for first in firsts if first is not None]

    def is_finished(self) -> bool:
        """Return whether all rows are there; refuse the folder of another run."""
        self._check_pictures()
        if not self._headers:
            return False  # empty, or killed before the first line was complete
        result = read_results(self.path, unfinished=True)
        check_same_run(self.path, self.header, result.header)
        return not result.missing

    def discard(self) -> None:
        """Remove a run of the same experiment and model, and no other files."""
        for other in self._headers:
            check_same_experiment(self.path, self.header, other)
        if files := self._result_files:  # which go last, since they say whose the others are
            self.features.remove()
            remove_pictures(self.path)
            for path in files:
                path.unlink()

    @contextmanager
    def writing(self) -> Generator[list[JSON]]:
        """Lock the result file of this shard; give all lines of it, the header first."""
        make_folder(self.path)
        with single_writer(self.path, f".{self.name}.lock"):
            self._check_pictures()
            self._check_shards()
            lines = begin_file(self.path / f"{self.name}.jsonl", self.header)
            read_results(self.path, unfinished=True)  # refuses shards of another run
            yield lines

    def append(self, entries: Iterable[JSON]) -> None:
        """Write entries to the result file of this shard."""
        append_entries(self.path / f"{self.name}.jsonl", entries)

    def completed(self) -> Result:
        """Read the run; if all rows are there, add what features give and is missing."""
        with single_writer(self.path, ".distances.lock", wait=True):
            result = read_results(self.path, unfinished=True)
            entries = [] if result.missing else missing_entries(result, self.features)
            if entries:
                self.append(entries)
                result = read_results(self.path, unfinished=True)
        return result

    def _check_pictures(self) -> None:
        """Refuse to replace an index of pictures that no evaluation wrote."""
        if (self.path / INDEX).exists() and not self._result_files:
            raise InputError(
                f"out {self.path}",
                expected="the folder of an evaluation, or a new one",
                got=f"'{INDEX}' and no result file",
                do="choose another --out, or move it",
            )

    def _check_shards(self) -> None:
        """Refuse to resume with another number of shards, which would answer images twice."""
        other = [p.name for p in self._result_files if not p.stem.endswith(f"-of-{self.count}")]
        if other:
            raise InputError(
                f"results {self.path}",
                expected="one number of shards",
                got=f"{other[0]} beside {self.count} of them",
                do="resume with the number it began with, or choose another --out",
            )
