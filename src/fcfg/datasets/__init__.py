"""Data: a world that is drawn; those that are read from disk come later."""

from fcfg.datasets import portraits as portraits

__all__ = ["portraits"]
