"""What one batched call of the reference model decided."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ModelPlan:
    """The fields of `StepPlan` as plain lists."""

    step: int
    rows: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)  # (source, destination), in batch order
    updates: list[tuple[int, int, int]] = field(default_factory=list)  # (row, column, block)

    @property
    def served(self) -> int:
        return len(self.rows)
