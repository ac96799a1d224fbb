"""Draws the graph behind a result: nodes in rows from the result down to the leaves, arrows where gradients go; table twin."""

from __future__ import annotations

from collections.abc import Mapping

from utils.measure.grad_graph import Graph, GraphNode
from utils.show import theme
from utils.show.figures import _drawn, _headline
from utils.show.picture import Picture
from utils.show.tables import Table

HIGH = 0.85  # inches a row takes
HALF = 0.24  # half the height of a box, in rows


def graph_figure(graph: Graph, *, title: str = "", source: str = "") -> Picture:
    """Boxes for nodes (accumulators with a dashed edge), the result's first, and arrows along which gradients go."""
    places = layout(graph)
    rows = 1 + max(row for _, row in places.values())

    def paint(figure, axes) -> None:
        for node in graph.nodes:
            for after in _after(node):
                (x, y), (to_x, to_y) = places[node.number], places[after]
                bend = 0.0 if to_y - y == 1 else 0.35 if to_x < x else -0.35  # round the boxes of the rows that it passes
                how = {"arrowstyle": "-|>", "color": theme.MUTED, "shrinkA": 0, "shrinkB": 0}
                how["connectionstyle"] = f"arc3,rad={bend}"
                axes.annotate("", xy=(to_x, to_y - HALF), xytext=(x, y + HALF), arrowprops=how)
        for node in graph.nodes:
            x, y = places[node.number]
            box = {"boxstyle": "round,pad=0.35", "facecolor": "#EAF3FA", "edgecolor": theme.BLUE}
            if node.is_accumulator:
                box |= {"facecolor": theme.CARD, "edgecolor": theme.INK, "linestyle": "--"}
            axes.text(x, y, label(node), ha="center", va="center", fontsize=8.5, color=theme.INK, bbox=box, linespacing=1.35)
        axes.set_xlim(-0.55, max(x for x, _ in places.values()) + 0.55)
        axes.set_ylim(rows - 0.45, -0.6)
        axes.axis("off")
        _headline(figure, heading)

    heading = title or f"The graph behind {graph.expression}"
    alt = f"{heading}. " + " ".join(_told(node, graph) for node in graph.nodes)
    return Picture(_drawn(paint, HIGH * rows + 0.35), alt, graph_table(graph, heading), source)


def layout(graph: Graph) -> dict[int, tuple[float, int]]:
    """Node → (x, row). The row is the longest way from the result; in a row, nodes stand under those that lead to them."""
    depth = graph.depths()
    rows: dict[int, list[int]] = {}
    for node in graph.nodes:
        rows.setdefault(depth[node.number], []).append(node.number)
    widest = max(len(row) for row in rows.values())
    places: dict[int, tuple[float, int]] = {}
    for at in sorted(rows):
        leading = {
            n: [places[m.number][0] for m in graph.nodes if n in _after(m) and m.number in places] or [0.0] for n in rows[at]
        }
        ordered = sorted(rows[at], key=lambda n: (sum(leading[n]) / len(leading[n]), n))
        left = (widest - len(ordered)) / 2
        places |= {n: (left + i, at) for i, n in enumerate(ordered)}
    return places


def _after(node: GraphNode) -> list[int]:
    return [edge[0] for edge in node.edges if edge is not None]


def label(node: GraphNode) -> str:
    """The words in a box: the node's name, and what it keeps or which tensor it adds into."""
    if node.is_accumulator:
        return f"{node.name}\ninto {node.leaf}.grad"
    return f"{node.name}\nkeeps {_tensors(node)}"


def _tensors(node: GraphNode) -> str:
    return ", ".join(node.saved_tensors) or "no tensor"


def _told(node: GraphNode, graph: Graph) -> str:
    names: Mapping[int, str] = {n.number: f"{n.name} {n.number}" for n in graph.nodes}
    to = ", ".join(names[n] for n in _after(node))
    what = f"adds into {node.leaf}.grad" if node.is_accumulator else f"keeps {_tensors(node)}"
    return f"{names[node.number]} {what}{f', hands gradients to {to}' if to else ''}."


def graph_table(graph: Graph, caption: str) -> Table:
    """One row a node: what it keeps, and for each of its op's inputs which node gets that gradient."""
    names = {n.number: f"{n.number} {n.name}" for n in graph.nodes}
    rows = [
        {
            "node": names[node.number],
            "keeps": ", ".join(f"{name}: {what}" for name, what in node.saved) or None,
            "to": ", ".join("nobody: needs none" if edge is None else names[edge[0]] for edge in node.edges)
            or f"adds into {node.leaf}.grad",
        }
        for node in graph.nodes
    ]
    return Table(rows, {"node": "node", "keeps": "keeps", "to": "hands its gradients to"}, caption)
