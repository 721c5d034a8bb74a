"""Training: a configuration and a data set in, a pipeline folder out."""

from fcfg.training.config import TrainingConfig, presets, read_config
from fcfg.training.loop import TrainingStopped
from fcfg.training.run import train

__all__ = ["TrainingConfig", "TrainingStopped", "presets", "read_config", "train"]
