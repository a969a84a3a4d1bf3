"""Shows the examples of docstrings as code in the documentation: Markdown would take >>> for a quotation."""

from __future__ import annotations

from typing import Any

import griffe


def fenced(docstring: str) -> str:
    """The docstring with a fence around every paragraph that is an example."""
    paragraphs = docstring.split("\n\n")
    return "\n\n".join(f"```pycon\n{p}\n```" if p.startswith(">>>") else p for p in paragraphs)


class FencedExamples(griffe.Extension):
    """Called by griffe for every object it finds."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
