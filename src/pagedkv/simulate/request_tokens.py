"""What the scheduler asks of token ids, whichever way a workload tells what its prompts hold."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class RequestTokens(Protocol):
    """Token ids, int32, of requests: equal where contents are equal, and nowhere else.

    `sequence(request, prompt, generated)`: of a request's prompt and of what it has generated; not to be written.
    `generated(requests)`: of the tokens that these requests generate, one each; a fresh array.
    """

    @property
    def block_size(self) -> int: ...
    def sequence(self, request: int, prompt: int, generated: int) -> NDArray[np.int32]: ...
    def generated(self, requests: NDArray[np.int64]) -> NDArray[np.int32]: ...
