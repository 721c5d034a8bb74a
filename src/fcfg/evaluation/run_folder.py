"""The folder of a run: result files of its shards, features, and what is computed from them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from fcfg.evaluation.features import FeatureFiles, missing_entries
from fcfg.evaluation.pictures import INDEX, remove_pictures
from fcfg.evaluation.result_files import (
    Result,
    ResultFile,
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

    def __init__(self, path: Path, shard: tuple[int, int] = (0, 1)) -> None:
        self.path, self.shard = path, shard
        self.features = FeatureFiles(path, shard[0])

    @property
    def _result_files(self) -> list[Path]:
        return sorted(self.path.glob("results-*-of-*.jsonl"))

    @property
    def _headers(self) -> list[JSON]:
        firsts = (next(read_lines(path, unfinished=True), None) for path in self._result_files)
        return [first[1] for first in firsts if first is not None]

    def is_finished(self, header: JSON) -> bool:
        """Return whether all rows are there; refuse the folder of another run."""
        self._check_pictures()
        if not self._headers:
            return False  # empty, or killed before the first line was complete
        result = read_results(self.path, unfinished=True)
        check_same_run(self.path, header, result.header)
        return not result.missing

    def discard(self, header: JSON) -> None:
        """Remove a run of the same experiment and model, and no other files."""
        for other in self._headers:
            check_same_experiment(self.path, header, other)
        for path in self._result_files:
            path.unlink()
        self.features.remove()
        remove_pictures(self.path)

    @contextmanager
    def writing(self, header: JSON) -> Generator[tuple[ResultFile, list[JSON]]]:
        """Lock this shard; give its result file and all lines of it, the header first."""
        number, count = self.shard
        name = f"results-{number}-of-{count}"
        make_folder(self.path)
        with single_writer(self.path, f".{name}.lock"):
            self._check_pictures()
            self._check_shards()
            file = ResultFile(self.path / f"{name}.jsonl")
            lines = file.begin(header)
            read_results(self.path, unfinished=True)  # refuses shards of another run
            yield file, lines

    def completed(self, file: ResultFile) -> Result:
        """Read the run; if all rows are there, add what features give and is missing."""
        with single_writer(self.path, ".distances.lock", wait=True):
            result = read_results(self.path, unfinished=True)
            entries = [] if result.missing else missing_entries(result, self.features)
            if entries:
                file.append(entries)
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
        count = self.shard[1]
        names = [path.name for path in self._result_files]
        other = next((name for name in names if not name.endswith(f"-of-{count}.jsonl")), None)
        if other is not None:
            raise InputError(
                f"results {self.path}",
                expected="one number of shards",
                got=f"{other} beside {count} of them",
                do="resume with the number it began with, or choose another --out",
            )
