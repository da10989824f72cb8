"""Colors that stand side by side in a chart are told apart by everybody, and words can be read on their ground."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

Color = NDArray[np.float64]  # linear red, green, blue, 0 to 1

OWNERS = tuple(f"owner-{shade}" for shade in range(1, 7))
TOGETHER = (
    ("blue", "orange"),
    ("green", "red", "purple"),
    ("green", "blue", "red", "neutral"),
    ("blue", "orange", "red", "green"),
    ("waiting", "blue", "red", "green"),
    ("free", "cached", "pending", "shared"),
    *((state, owner) for state in ("free", "cached", "pending", "shared") for owner in OWNERS),
    *combinations(OWNERS, 2),
)
# Full dichromacy by Machado, Oliveira and Fernandes (2009), table 1, severity 1.0; on linear RGB.
SIGHTS = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
LEAST = 15.0  # CIE 1976 difference in Lab; 2.3 is just noticeable


def palette(scheme: str) -> dict[str, Color]:
    style = files("pagedkv.report.html").joinpath("assets", "page.css").read_text(encoding="utf-8")
    light, dark = (re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part) for part in style.split("@media", 2)[:2])
    return {name: linear(value) for name, value in (light if scheme == "light" else dark)}


def linear(value: str) -> Color:
    channels = np.array([int(value[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(color: Color) -> Color:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ np.clip(color, 0, 1) / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def brightness(color: Color) -> float:
    return float(color @ np.array([0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_neighbors_differ(scheme: str, sight: str) -> None:
    colors = {name: lab(SIGHTS[sight] @ color) for name, color in palette(scheme).items()}
    near = {
        (one, other): round(float(np.linalg.norm(colors[one] - colors[other])), 1)
        for group in TOGETHER
        for one, other in combinations(group, 2)
        if np.linalg.norm(colors[one] - colors[other]) < LEAST
    }
    assert near == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_their_ground(scheme: str) -> None:
    colors = palette(scheme)
    for word in ("text", "quiet", "link", "pass", "fail", "interrupted"):
        for ground in ("page", "panel"):
            lighter, darker = sorted((brightness(colors[word]), brightness(colors[ground])), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (word, ground)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_stand_out_from_the_panel(scheme: str) -> None:
    colors = palette(scheme)
    for line in ("blue", "orange", "green", "red", "purple", "yellow"):
        lighter, darker = sorted((brightness(colors[line]), brightness(colors["panel"])), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 3, line
