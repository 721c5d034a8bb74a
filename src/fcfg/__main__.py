"""The command ``fcfg``, which is also ``python -m fcfg``."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Run the command of this process; Ctrl-C ends it, even while the command line is imported."""
    try:
        from fcfg.cli import main

        code = main()
    except KeyboardInterrupt:
        print("fcfg: interrupted", file=sys.stderr)
        code = 130
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done, whatever arrives while Python ends
    return code


if __name__ == "__main__":
    raise SystemExit(main())
