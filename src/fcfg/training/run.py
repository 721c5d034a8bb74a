"""``fcfg train``: data in, the folder of a model out.

The parts are trained one after the other: the causal model of the attributes, the judge, the
image model. Each resumes from its own checkpoints, so the same command finishes an interrupted
run.
"""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path

from fcfg.support.errors import check_among
from fcfg.support.files import single_writer
from fcfg.support.progress import Reporter
from fcfg.training.config import TrainingConfig
from fcfg.training.images import load_images
from fcfg.training.log import RunLog
from fcfg.training.loop import StopRequest, Surroundings, TrainingStopped
from fcfg.training.preflight import accelerator_for, check_batches
from fcfg.training.session import Session
from fcfg.training.workspace import Workspace

__all__ = ["TrainingStopped", "train"]


def train(
    config: TrainingConfig,
    out: Path,
    part: str = "all",
    *,
    skip_bad: bool = False,
    reporter: Reporter | None = None,
) -> Path:
    """Train the parts of a model into a folder, or resume an interrupted run.

    Args:
        config: Training configuration.
        out: Folder of the model, for :func:`fcfg.load`.
        part: 'all', or a single part of the configuration: 'scm', 'judge', or one of its model,
            which is 'diffusion' for a diffusion model.
        skip_bad: Whether to skip unreadable images instead of raising an error.
        reporter: Receiver of progress.

    Returns:
        The folder.

    Raises:
        TrainingStopped: After a signal such as Ctrl-C, or a failure; checkpoints are kept.
    """
    check_among("part", part, ("all", *config.parts))
    accelerator, stop = accelerator_for(config.run), StopRequest()
    check_batches(config, accelerator.num_processes)
    main = accelerator.is_main_process
    reporter = reporter if reporter is not None and main else Reporter()
    workspace = Workspace(out, config)
    workspace.prepare()
    with single_writer(workspace.folder) if main else nullcontext(), stop.listening():
        if main:
            workspace.claim()
        has_board = main and config.run.tensorboard
        with closing(RunLog(workspace.folder, tensorboard=has_board)) as log:
            around = Surroundings(config.run, accelerator, log, reporter, stop)
            splits = load_images(config, workspace, around, skip_bad=skip_bad)
            try:
                Session(config, workspace, splits, around).run(part)
            except OSError as error:
                raise TrainingStopped(
                    f"{error.filename or 'a file'} could not be written "
                    f"({error.strerror or error}); the checkpoints are whole; make room and run "
                    "the same command again"
                ) from error
    return out
