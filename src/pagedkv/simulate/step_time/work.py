"""What one step computes, as a step-time model sees it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StepWork:
    """Counts of one step. Modifies itself.

    decode_sequences: running sequences that compute one token each; decode_context: tokens that they attend to in all,
    their own new ones included. prefill_tokens: tokens of prompts, and of what a preempted request computes again;
    prefill_pairs: sum over these of the tokens that each attends to; prefill_context: tokens of these sequences at the
    end of the step, each counted once.
    """

    decode_sequences: int = 0
    decode_context: int = 0
    prefill_tokens: int = 0
    prefill_pairs: int = 0
    prefill_context: int = 0

    def begin(self, sequences: int, context: int) -> None:
        """A new step, in which so many sequences compute a token each over so much context."""
        self.decode_sequences, self.decode_context = sequences, context
        self.prefill_tokens = self.prefill_pairs = self.prefill_context = 0

    def prefill(self, start: int, stop: int) -> None:
        """A sequence computes its tokens start .. stop - 1."""
        self.prefill_tokens += stop - start
        self.prefill_pairs += (stop - start) * (start + stop + 1) // 2
        self.prefill_context += stop

    @property
    def context(self) -> int:
        """Tokens whose keys and values are read."""
        return self.decode_context + self.prefill_context
