"""The block map: which block was free, cached, shared or owned by which request, when."""

from __future__ import annotations

from pagedkv.report.document import Document
from pagedkv.report.html.chart import Chart, Column, Key, axis
from pagedkv.report.html.timeline import STEP_AXIS
from pagedkv.report.quantities import count

FREE, CACHED, PENDING, SHARED = -1, -2, -3, -4
OWNER_SHADES = 6  # requests that are neighbors by number differ; more shades could not be told apart
_STATES = (
    ("free", "free", FREE),
    ("cached", "cached: free, content still findable", CACHED),
    ("pending", "pending: given back, work in flight", PENDING),
    ("shared", "shared by several sequences", SHARED),
)


def map_charts(document: Document) -> tuple[Chart, ...]:
    """Return the block map of a recorded run, none of one that was not recorded. Pure."""
    history = document.get("history")
    if not history or not history["block_map"]["steps"]:
        return ()
    drawn = history["block_map"]
    cells, steps, blocks = drawn["cells"], drawn["steps"], drawn["blocks"]
    tallies = {code: [sum(row[at] == code for row in cells) for at in range(len(steps))] for _, _, code in _STATES}
    owned = [len(blocks) - sum(tally[at] for tally in tallies.values()) for at in range(len(steps))]
    edges, gaps = _edges(steps, drawn["step_stride"])
    met = [(role, text, code) for role, text, code in _STATES if any(tallies[code])]
    return (
        Chart(
            name="block-map",
            title="Block map",
            summary=f"{_sampled(document, len(blocks), len(steps))} Of these, at one moment, at most "
            f"{count(max(owned))} are owned by one request each, {count(max(tallies[SHARED]))} are shared by several "
            f"sequences, and {count(max(tallies[CACHED]))} are free with a content that can be found again.",
            caption="A row is a block, a column a moment; where nothing ran there is none. Each request has one of "
            f"{OWNER_SHADES} shades, by its number: a request's blocks lie wherever one was free.",
            traces=({"type": "heatmap", "x": edges, "y": blocks, "z": cells},),
            layout={
                "xaxis": STEP_AXIS,
                "yaxis": axis("block", tickformat=",d", autorange="reversed"),
                "hovermode": "closest",
            },
            keys=(
                *(Key(text, role, state=role) for role, text, _ in met),
                *((Key("owned by one request", "owner-1", state="owner"),) if any(owned) else ()),
            ),
            columns=(
                Column("step", steps),
                Column("owned, sampled blocks", owned),
                *(Column(f"{role}, sampled blocks", tallies[code]) for role, _, code in _STATES),
            ),
            height=520,
            kind="map",
            extra={
                "states": [[role, code] for role, _, code in _STATES],
                "owner_shades": OWNER_SHADES,
                "steps": steps,
                "gaps": gaps,
            },
        ),
    )


def _edges(steps: list[int], stride: int) -> tuple[list[int], list[int]]:
    """Return where columns begin, with the last one's end, and after which moments a column without blocks follows.

    A moment stands for the steps to the next one, but for no more than lie between two without idle steps.
    """
    edges: list[int] = []
    gaps: list[int] = []
    for place, step in enumerate(steps):
        edges.append(step)
        if place + 1 == len(steps) or steps[place + 1] > step + stride:
            edges.append(step + stride)
            if place + 1 < len(steps):
                gaps.append(place)
    return edges, gaps


def _sampled(document: Document, blocks: int, moments: int) -> str:
    drawn = document["history"]["block_map"]
    stride, total = drawn["block_stride"], document["config"]["blocks"]
    of_all = f"Every block ({count(blocks)})" if stride == 1 else f"One of {count(stride)} blocks ({count(blocks)})"
    if (covered := blocks * stride) < total:
        of_all += f" up to number {count(covered - 1)}; the {count(total - covered)} above were never used"
    when = "at every step" if drawn["step_stride"] == 1 else f"at one of {count(drawn['step_stride'])} steps"
    return f"{of_all}; {when} ({count(moments)} moments)."
