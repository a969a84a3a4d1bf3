"""Runs a notebook and writes it as a page, with what it prints: python tools/notebook_page.py segments

The notebook docs/notebooks/NAME.py becomes docs/NAME.md, and its figures go to docs/figures.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def cells_of(notebook: str) -> list[tuple[str, str]]:
    """The cells of a notebook in percent format, each as "text" or "code" with its content."""
    _, *parts = re.split(r"^# %%", notebook, flags=re.MULTILINE)
    found = []
    for part in parts:
        kind, _, content = part.partition("\n")
        if "[markdown]" in kind:
            found.append(("text", re.sub(r"^# ?", "", content.strip(), flags=re.MULTILINE)))
        else:
            found.append(("code", content.strip()))
    return found


def page(name: str, cells: Iterable[tuple[str, str]], outputs: Iterable[str]) -> str:
    """The page: text as it is, code with what it printed."""
    blocks = []
    for (kind, content), output in zip(cells, outputs, strict=True):
        blocks += [content] if kind == "text" else [f"```python\n{content}\n```"]
        blocks += [f"```text\n{output}\n```"] if output else []
    blocks.append(
        f"This page is the notebook [`docs/notebooks/{name}.py`](notebooks/{name}.py), run by "
        f"`python tools/notebook_page.py {name}`. The noise is drawn anew each time."
    )
    return "\n\n".join(blocks) + "\n"


def without_outputs(written: str) -> str:
    """A page as it would be if nothing had been printed."""
    return re.sub(r"```text\n.*?\n```\n\n", "", written, flags=re.DOTALL)


def run(cells: Iterable[tuple[str, str]]) -> list[str]:
    """What each cell prints, run one after the other."""
    names: dict[str, object] = {"__name__": "__main__"}
    outputs = []
    for kind, content in cells:
        printed = io.StringIO()
        if kind == "code":
            with redirect_stdout(printed):
                exec(compile(content, "notebook", "exec"), names)  # noqa: S102 (our own notebook)
        lines = [line.rstrip() for line in printed.getvalue().splitlines()]
        outputs.append("\n".join(lines).strip("\n"))
    return outputs


def main(name: str) -> None:
    """Run the notebook and write its page."""
    os.environ["DPKMEANS_FIGURES"] = str(DOCS / "figures")
    cells = cells_of((DOCS / "notebooks" / f"{name}.py").read_text("utf-8"))
    (DOCS / f"{name}.md").write_text(page(name, cells, run(cells)), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
