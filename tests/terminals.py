"""Streams of a terminal."""

from __future__ import annotations


class Terminal:
    """A stream that somebody watches."""

    text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True
