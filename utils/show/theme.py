"""Colours, hatches and labels that all figures share: readable without colour, in a light and in a dark page.

The colours are those of Okabe and Ito (https://jfly.uni-koeln.de/color/), told apart under the common kinds of colour
blindness; each group also has a hatch, so that a figure printed in grey still reads. Figures in notebooks stand on their
own light card, because an inline picture cannot follow the page's theme everywhere.
"""

from __future__ import annotations

ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
INK, MUTED, CARD, GRID, GREY = "#1B1F24", "#57606A", "#FFFFFF", "#D8DEE4", "#B6BDC5"

GROUP_COLOURS = {
    "front_end": ORANGE,
    "dispatch": SKY,
    "shapes": GREEN,
    "output": YELLOW,
    "kernel": VERMILION,
    "context": "#E6E9EC",
}
GROUP_HATCHES = {"front_end": "///", "dispatch": "\\\\\\", "shapes": "|||", "output": "xx", "kernel": "", "context": ""}
SERIES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
SERIES_HATCHES = ("", "///", "|||", "xx", "\\\\\\", "--")
MARKERS = ("o", "s", "^", "D", "v", "P")

FONT = "DejaVu Sans"  # comes with matplotlib, so that every machine lays a figure out alike
FONTS = "'DejaVu Sans', Verdana, sans-serif"  # what the SVG asks for: these two are equally wide, other fallbacks are narrower
RC = {
    "svg.fonttype": "none",  # text stays text: a fifth of the weight of outlines
    "svg.hashsalt": "one-add-priced",  # the same figure gives the same bytes
    "font.family": FONT,
    "font.size": 9.5,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": INK,
    "hatch.linewidth": 0.5,
    "figure.facecolor": CARD,
    "axes.facecolor": CARD,
    "legend.frameon": False,
}
