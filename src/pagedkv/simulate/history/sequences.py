"""When which request ran: arrival and running spans of every `stride`-th request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Segment = tuple[int, int, int, str]  # request, first and last step that it ran in, how that ended


class SequenceSpans:
    """Takes what happens to requests. requests: how many there will be (None: drawn without end; the stride doubles).

    kept: most requests that are kept; segments: most running spans. Where few requests are preempted without end, the
    stride doubles too; at last the first request alone is left, which is the oldest and never preempted. Modifies
    itself; no stream.
    """

    def __init__(self, requests: int | None, *, kept: int = 400, segments: int = 10_000) -> None:
        self.stride = 1 if requests is None else max(1, -(-requests // kept))
        self._kept = kept
        self._most_segments = segments
        self._arrivals: dict[int, int] = {}
        self._began: dict[int, int] = {}
        self._segments: list[Segment] = []

    def arrived(self, request: int, step: int) -> None:
        """The request was queued in this step."""
        if request % self.stride == 0:
            self._arrivals[request] = step
            while len(self._arrivals) > self._kept:
                self._double()

    def admitted(self, request: int, step: int) -> None:
        """It runs from this step on."""
        if request % self.stride == 0:
            self._began[request] = step

    def ended(self, request: int, last_step: int, how: str) -> None:
        """It ran up to and with `last_step`; how: "completed", "preempted" or "stopped"."""
        first = self._began.pop(request, None)
        if first is not None:
            self._segments.append((request, first, last_step, how))
            while len(self._segments) > self._most_segments and any(segment[0] for segment in self._segments):
                self._double()

    def result(self, prompt: Sequence[int], output: Sequence[int], last_step: int) -> dict[str, Any]:
        """Return requests in order of their numbers; what still runs was stopped after `last_step`.

        prompt, output: tokens of every request by its number.
        """
        for request in tuple(self._began):
            self.ended(request, last_step, "stopped")
        requests = sorted(self._arrivals)
        return {
            "stride": self.stride,
            "of": len(prompt),
            "request": requests,
            "arrival_step": [self._arrivals[request] for request in requests],
            "prompt_tokens": [prompt[request] for request in requests],
            "output_tokens": [output[request] for request in requests],
            "segments": [list(segment) for segment in sorted(self._segments)],
        }

    def _double(self) -> None:
        self.stride *= 2
        stride = self.stride
        self._arrivals = {request: step for request, step in self._arrivals.items() if request % stride == 0}
        self._began = {request: step for request, step in self._began.items() if request % stride == 0}
        self._segments = [segment for segment in self._segments if segment[0] % stride == 0]
