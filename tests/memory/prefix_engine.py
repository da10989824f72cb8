"""A small engine on host streams whose sequences take over what others computed.

Whoever wrote a token, its bytes are those of its content, so a hit must read at each position what this engine's own
kernel would have written there; bytes of other contents, of former ones and of none at all show. A step's kernels may
be put on the stream long after its plan was applied, and other sequences are admitted in between: only what was
committed, which is when the writes are on the stream, may be found. The script is a list of (action, a, b) with small
numbers, as in `engine`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from pagedkv import DevicePool, KVCacheManager, OpaqueLayout, StepPlan
from pagedkv.backends.host import HostBackend, HostStream

from .engine import Action, Read
from .prefix_speakers import BOOKS, TOKEN_BYTES, Names, Speaker

BLOCK_SIZE = 2
NUM_BLOCKS = 14
MOST_LIVE = 5
PREFIX_ACTIONS = (
    "start",
    "start",
    "grow",
    "grow",
    "write",
    "tell",
    "tell",
    "fork",
    "cut",
    "finish",
    "save",
    "read",
    "withdraw",
    "retire",
    "compute",
    "copy",
)


class PrefixEngine:
    """Carries out a script. Its subclasses in `prefix_faults` each do one thing wrong."""

    def __init__(self) -> None:
        self.backend = HostBackend(stepped=True)
        self.manager = KVCacheManager(NUM_BLOCKS, BLOCK_SIZE, prefix_caching=True)
        self.pool = DevicePool(OpaqueLayout(TOKEN_BYTES, BLOCK_SIZE), NUM_BLOCKS, device=self.backend)
        stream = self.pool.stream
        assert isinstance(stream, HostStream)
        self.compute = stream
        self.copy = self.backend.stream()
        self.speakers: dict[int, Speaker] = {}
        self.names = Names()
        self.reads: list[Read] = []
        self.open_step = 0
        self.planned: list[tuple[int, int, list[int]]] = []  # of the open step: sequence, first position, slots
        self._ids = count(1)

    def run(self, script: Sequence[Action]) -> None:
        """Carry out the script, let everything finish, check every read and that no block is lost."""
        for action, a, b in script:
            getattr(self, "_" + action)(a, b)
            self.manager.check()
        self._end()

    # --- what the planted faults do differently -----------------------------------------------------------------------

    def as_told(self, speaker: Speaker) -> Speaker:
        return speaker

    def apply(self, plan: StepPlan) -> None:
        self.pool.apply(plan)

    def slots_of(self, plan: StepPlan) -> list[int]:
        return [int(slot) for slot in plan.slots]

    def step_planned(self) -> None:
        """Nothing is committed yet: the writes are not on the stream."""

    def late_ids(self, speaker: Speaker) -> list[int]:
        return speaker.ids[speaker.known : speaker.written]

    def order_copy_behind_compute(self) -> None:
        self.pool.fence(self.copy)

    def free_behind(self, step: int) -> int | None:
        return step

    # --- actions ------------------------------------------------------------------------------------------------------

    def _start(self, a: int, b: int) -> None:
        """A prompt. Kernels may read at once what comes from the cache; often the rest is planned at once."""
        self._retire(0, 0)
        if len(self.speakers) < MOST_LIVE:
            seq_id = self._admit(Speaker.of_prompt(a, b), None if b % 2 else 0)
            if seq_id is not None:
                self._put_read("hit", seq_id, self.compute)
            if seq_id is not None and a % 4:
                speaker = self.speakers[seq_id]
                self._plan([seq_id], [len(speaker.ids) - speaker.length], told=False)

    def _grow(self, a: int, b: int) -> None:
        """Chunks of prompts by count; behind them new tokens, whose ids come along or later."""
        ids = self._some(a, 1 + b // 3)
        counts = []
        for seq_id in ids:
            speaker = self.speakers[seq_id]
            ahead = len(speaker.ids) - speaker.length
            counts.append(min(ahead, 1 + b) if ahead else 1 + a % 2)
            speaker.ids += [b % 2] * (0 if ahead else 1 + a % 2)
        told = b < 3 and all(s.known == s.length for s in (self.speakers[seq_id] for seq_id in ids))
        self._plan(ids, counts, told)

    def _write(self, a: int, b: int) -> None:
        """The open step's kernels are put on the stream, and what they write may be found from now on."""
        for seq_id, first, slots in self.planned:
            speaker = self.speakers[seq_id]
            names = self.names.of(speaker, first + len(slots))[first:]
            self.pool.fill_tokens(names, range(first, first + len(slots)), slots)
            speaker.written = speaker.length
            self.manager.commit([seq_id], [speaker.written])
        self.planned = []

    def _tell(self, a: int, b: int) -> None:
        """Token ids that came a step late."""
        for seq_id in self._some(a, 1 + b):
            speaker = self.speakers[seq_id]
            if speaker.known < speaker.written:
                self.manager.commit([seq_id], [speaker.written], tokens=self.late_ids(speaker))
                speaker.known = speaker.written

    def _fork(self, a: int, b: int) -> None:
        self._write(0, 0)
        for seq_id in self._some(a, 1)[: MOST_LIVE - len(self.speakers)]:
            child = next(self._ids)
            self.manager.fork(seq_id, [child])
            self.speakers[child] = self.speakers[seq_id].fork()

    def _cut(self, a: int, b: int) -> None:
        """Back into blocks that are findable, or held by others too."""
        self._write(0, 0)
        for seq_id in self._some(a, 1):
            length = self.speakers[seq_id].length * b // 8
            self.manager.truncate([seq_id], [length], keep_blocks=a % 2 == 1)
            self.speakers[seq_id].cut(length)
            if b % 2:
                self._grow(a, 0)

    def _finish(self, a: int, b: int) -> None:
        self._write(0, 0)
        for seq_id in self._some(a, 1 + b // 4):
            self.manager.free([seq_id])
            del self.speakers[seq_id]

    def _save(self, a: int, b: int) -> None:
        """A copy stream takes a sequence to the host. It ends at once; its blocks are pending, and can be found."""
        for seq_id in self._some(a, 1):
            self._plan([seq_id], [0], told=False)
            self.order_copy_behind_compute()
            self._put_read("save", seq_id, self.copy)
            self.manager.free([seq_id], after=self.free_behind(self.open_step))
            del self.speakers[seq_id]
            self.planned = []

    def _read(self, a: int, b: int) -> None:
        """Kernels that read what is written of whole sequences."""
        for seq_id in self._some(a, 1 + b):
            self._put_read("read", seq_id, self.compute)

    def _withdraw(self, a: int, b: int) -> None:
        """A sequence's block is found no more, and nothing behind it."""
        for seq_id in self._some(a, 1):
            self.manager.allocator.unpublish(self._table(seq_id)[b : b + 1])

    def _retire(self, a: int, b: int) -> None:
        self.manager.retire(self.pool.finished_step())

    def _compute(self, a: int, b: int) -> None:
        _ = [self.compute.step() for _ in range(1 + 2 * a)]

    def _copy(self, a: int, b: int) -> None:
        _ = [self.copy.step() for _ in range(1 + a // 2)]

    # --- steps --------------------------------------------------------------------------------------------------------

    def _admit(self, speaker: Speaker, reserve: int | None, max_hit_tokens: int | None = None) -> int | None:
        seq_id, told = next(self._ids), self.as_told(speaker)
        admission = self.manager.try_admit(
            seq_id, told.ids, salt=told.salt, spans=told.spans, reserve=reserve, max_hit_tokens=max_hit_tokens
        )
        if admission is None:
            return None
        speaker.length = speaker.written = admission.cached_tokens
        self.speakers[seq_id] = speaker
        return seq_id

    def _plan(self, ids: Sequence[int], counts: Sequence[int], told: bool) -> None:
        """A step: plan and apply. The step before it gets all its work first."""
        self._retire(0, 0)
        self._close_step()
        speakers = [self.speakers[seq_id] for seq_id in ids]
        said = [s.ids[s.length : s.length + n] for s, n in zip(speakers, counts, strict=True)]
        tokens = [token for part in said for token in part] if told else None
        plan = self.manager.append(ids, counts, tokens=tokens, partial=True)
        self.apply(plan)
        self.open_step = plan.step
        slots = iter(self.slots_of(plan))
        for place, (seq_id, speaker) in enumerate(zip(ids, speakers, strict=True)):
            if place < plan.served:
                self.planned.append((seq_id, speaker.length, [next(slots) for _ in said[place]]))
                speaker.length += counts[place]
                speaker.known = max(speaker.known, speaker.length) if told else speaker.known
            else:
                del speaker.ids[max(speaker.length, speaker.known) :]
        self.step_planned()

    def _close_step(self) -> None:
        self._write(0, 0)
        if self.open_step:
            self.pool.step_done(self.open_step, also=(self.copy,))
            self.open_step = 0

    def _put_read(self, what: str, seq_id: int, stream: HostStream) -> None:
        speaker = self.speakers[seq_id]
        blocks = self._table(seq_id)[: -(-speaker.written // BLOCK_SIZE)]
        arrived = self.pool.read_blocks(blocks, stream=stream)
        expected = self.names.bytes_of(speaker, speaker.written)
        self.reads.append(Read(f"{what} of sequence {seq_id}", arrived, expected))

    def _table(self, seq_id: int) -> list[int]:
        return [int(block) for block in self.manager.get_page_table(seq_id).entries]

    def _some(self, a: int, most: int) -> list[int]:
        """Up to `most` live sequences, from one chosen by `a` on."""
        live = sorted(self.speakers)
        first = a % len(live) if live else 0
        return (live[first:] + live[:first])[:most]

    def _end(self) -> None:
        """All that is left is read, then all that can be found of any prompt."""
        self._read(0, MOST_LIVE)
        self._close_step()
        self.manager.free(sorted(self.speakers))
        self.speakers.clear()
        for a in range(4 * len(BOOKS)):
            for b in range(4, 8):
                asked = Speaker.of_prompt(a, b)
                seq_id = self._admit(asked, 0, max_hit_tokens=len(asked.ids))
                assert seq_id is not None
                self._put_read("what is left", seq_id, self.compute)
                self.manager.free([seq_id])
                del self.speakers[seq_id]
        self.copy.synchronize()
        self.compute.synchronize()
        for read in self.reads:
            read.check()
        self._retire(0, 0)
        assert self.manager.get_stats().free_blocks == NUM_BLOCKS
        self.manager.check()
        self.pool.close()
