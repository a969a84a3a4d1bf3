"""Draws the picture that other sites show beside a link to ours: python tools/card.py (from docs/figures/demo.png)."""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread

DOCS = Path(__file__).resolve().parents[1] / "docs"
INK = "#1d2433"


def main() -> None:
    """Name and promise on the left, the released density of the demo on the right; 1200 by 630 pixels."""
    figure = Figure(figsize=(12, 6.3), facecolor="white")
    FigureCanvasAgg(figure)
    figure.text(0.05, 0.62, "dpkmeans", fontsize=58, weight="bold", color="#00796b")
    words = "Differentially private k-means\nthat says what is guaranteed:\nproved, paper or none"
    figure.text(0.05, 0.28, words, fontsize=24, color=INK, linespacing=1.5)
    picture = imread(DOCS / "figures" / "demo.png")
    ax = figure.add_axes((0.5, 0.06, 0.48, 0.88))
    ax.imshow(picture[:, : picture.shape[1] // 2])
    ax.axis("off")
    figure.savefig(DOCS / "assets" / "card.png", dpi=100, pil_kwargs={"optimize": True}, metadata={"Software": None})


if __name__ == "__main__":
    main()
