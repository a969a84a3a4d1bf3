"""Puts pages that live beside docs/ onto the site: the proofs, SECURITY.md, the changelog and the like. A MkDocs hook.

Their links are written for the repository; here they are turned into those of the site. What is no page of the site,
such as a test or a source file, becomes a link to the repository.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
TOP = ("SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md", "CODE_OF_CONDUCT.md")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add the pages."""
    for path in [*(ROOT / "proofs").glob("*.md"), *(ROOT / name for name in TOP)]:
        source = path.relative_to(ROOT).as_posix()
        page = File.generated(config, source, content=as_on_site(source, path.read_text("utf-8"), config.repo_url))
        page.edit_uri = f"../{source}"
        files.append(page)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Links of the site's own pages to what lies beside docs/."""
    source = page.file.src_uri
    return markdown if page.file.edit_uri.startswith("../") else as_on_site(f"docs/{source}", markdown, config.repo_url)


def as_on_site(source: str, text: str, repository: str) -> str:
    """The text of a page of the repository with links as they are on the site.

    >>> as_on_site("SECURITY.md", "[a](docs/audit.md#b) [c](src/x.py)", "https://host/repo")
    '[a](audit.md#b) [c](https://host/repo/blob/main/src/x.py)'
    """
    here = PurePosixPath(site_place(source)).parent.as_posix()

    def turned(match: re.Match[str]) -> str:
        target = normpath((PurePosixPath(source).parent / match[1]).as_posix())
        if is_page(target):
            return f"]({relpath(site_place(target), here)}{match[2] or ''})"
        return f"]({repository}/blob/main/{target}{match[2] or ''})"

    return LINK.sub(turned, text)


def is_page(path: str) -> bool:
    """Whether a file of the repository is on the site."""
    return path in TOP or (path.startswith(("docs/", "proofs/")) and not path.startswith("docs/notebooks/"))


def site_place(path: str) -> str:
    """Where a file of the repository is on the site."""
    return path.removeprefix("docs/")
