"""Training: a configuration and a data set in, a pipeline folder out."""

from fcfg.training.config import TrainingConfig
from fcfg.training.run import train
from fcfg.training.settings import presets, read_config
from fcfg.training.stopping import TrainingStopped

__all__ = ["TrainingConfig", "TrainingStopped", "presets", "read_config", "train"]
