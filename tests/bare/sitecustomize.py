"""Take away what Linux has and other platforms lack, from every interpreter that finds this."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from contextlib import suppress

with suppress(ImportError):
    import psutil  # noqa: F401 # it has a module for each platform, and that of Linux needs these

for module in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[module] = None  # type: ignore[assignment]  # importing it fails
for home, names in {
    os: ("fork", "setsid", "getpgid", "sched_getaffinity"),
    signal: ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM"),
}.items():
    for name in names:  # getuid stays: pytest needs it where sys.platform is not win32
        if hasattr(home, name):
            delattr(home, name)
# Windows has locks of its own; here filelock is left with files, and says so.
warnings.filterwarnings("ignore", "only soft file lock is available")
