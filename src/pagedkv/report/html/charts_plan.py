"""A plan: what one GPU's memory is given to, and how many sequences of which length fit."""

from __future__ import annotations

from pagedkv.report.document import Document
from pagedkv.report.html.chart import Chart, Column, Key, axis, rounded
from pagedkv.report.html.charts_systems import bars_layout
from pagedkv.report.quantities import count, size

_PARTS = (
    ("weights", "weights_bytes", "orange"),
    ("reserve", "reserve_bytes", "purple"),
    ("keys and values", "kv_bytes", "blue"),
    ("not used", "kept_out_bytes", "neutral"),
)


def plan_charts(document: Document) -> tuple[Chart, ...]:
    """Return the charts of a plan. Pure."""
    return (_memory(document), _sequences(document))


def _memory(document: Document) -> Chart:
    memory = document["memory"]
    parts = [(name, memory[key], color) for name, key, color in _PARTS if memory[key]]
    return Chart(
        name="memory",
        title="Memory of one GPU",
        summary=f"Of {size(memory['gpu_bytes'])}: "
        + ", ".join(f"{name} {size(held)}" for name, held, _ in parts)
        + ".",
        caption="By arithmetic: nothing was measured on a GPU.",
        traces=tuple(
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "x": [round(held / 2**30, 3)],
                "y": ["one GPU"],
                "marker": {"color": color},
                "text": [size(held) if held >= memory["gpu_bytes"] / 10 else ""],
                "textposition": "inside",
                "insidetextanchor": "middle",
                "textangle": 0,
                "hovertemplate": f"{name}: %{{x:,.2f}} GiB<extra></extra>",
            }
            for name, held, color in parts
        ),
        layout=bars_layout(axis("GiB", rangemode="tozero")) | {"barmode": "stack"},
        keys=tuple(Key(name, color, (place,)) for place, (name, _, color) in enumerate(parts)),
        columns=(Column("part", [part[0] for part in parts]), Column("bytes", [part[1] for part in parts])),
        height=150,
    )


def _sequences(document: Document) -> Chart:
    fits = document["sequences"]
    lengths = [count(one["length"]) for one in fits]
    numbers = [one["sequences"] for one in fits]
    return Chart(
        name="fit",
        title="Sequences that fit at once, by length",
        summary="; ".join(
            f"{count(number)} of {length} tokens" for length, number in zip(lengths, numbers, strict=True)
        ),
        caption=f"Every sequence at its full length, nothing shared; the pool has {count(document['pool']['tokens'])} "
        "token places. The axis is logarithmic.",
        traces=(
            {
                "type": "bar",
                "x": lengths,
                "y": [number or None for number in numbers],
                "marker": {"color": "blue"},
                "text": [count(number) for number in numbers],
                "textposition": "outside",
                "cliponaxis": False,
                "hovertemplate": "%{text} sequences of %{x} tokens<extra></extra>",
            },
        ),
        layout={
            "xaxis": axis("tokens a sequence", type="category"),
            "yaxis": axis("sequences", type="log", dtick=1, tickformat=",d"),
            "hovermode": "closest",
            "bargap": 0.35,
        },
        columns=(
            Column("tokens a sequence", [one["length"] for one in fits]),
            Column("sequences", numbers),
            Column("blocks each", [one["blocks"] for one in fits]),
            Column("bytes each", rounded([one["nbytes"] for one in fits])),
        ),
        height=300,
    )
