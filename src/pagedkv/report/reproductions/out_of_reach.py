"""Figures that cannot be reproduced: what is printed, why not, and what comes nearest."""

from __future__ import annotations

from pagedkv.report.reproductions.figure import OutOfReach

OUT_OF_REACH = (
    OutOfReach(
        "sosp23-figure15-alpaca",
        "PagedAttention, SOSP 2023, Figure 15, Alpaca",
        "blocks saved by parallel samples that share their prompt",
        "6.09 %, 8.53 % and 9.79 % with 2, 4 and 6 samples",
        "the lengths of the Alpaca requests that the paper drew are not in any list that we have",
        "pagedkv simulate --trace LENGTHS --samples 4 --admission final --blocks 983",
    ),
    OutOfReach(
        "sosp23-figure15-beam",
        "PagedAttention, SOSP 2023, Figure 15, beam search",
        "blocks saved by beams that share their prompt and each other's answers",
        "Alpaca 37.56 %, 53.13 % and 55.16 % with 2, 4 and 6 beams; ShareGPT 44.3 % to 66.3 %",
        "which beams survive a step is the model's choice, and no trace tells it",
        "pagedkv simulate --trace LENGTHS --beam-width 4 --beam-survival 0.9 --admission final --blocks 983",
    ),
)
