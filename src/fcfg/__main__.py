"""The command ``fcfg``, which is also ``python -m fcfg``."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command of this process; Ctrl-C ends it, even while the command line is imported."""
    try:
        from fcfg.cli import main

        return main()
    except KeyboardInterrupt:
        print("fcfg: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
