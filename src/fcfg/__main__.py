"""``python -m fcfg``: the same as the command ``fcfg``."""

from __future__ import annotations

from fcfg.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
