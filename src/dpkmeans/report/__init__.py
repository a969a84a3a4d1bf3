"""Reports on a release. They read nothing else, so they cannot show a record."""

from dpkmeans.report.html import NEEDED, missing, render_report, require, write_report

__all__ = ["NEEDED", "missing", "render_report", "require", "write_report"]
