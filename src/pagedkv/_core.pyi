"""
The C++ core of pagedkv: allocation, page tables, whole-batch sequence bookkeeping.
"""

from collections.abc import Sequence
import enum

import numpy
import numpy.typing


class PagedKVError(Exception):
    """Base of every error that pagedkv raises. Nothing was changed."""

class OutOfBlocksError(PagedKVError):
    """Not enough blocks now; the same call can succeed after a free or retire. Counts are blocks."""
    needed: int
    available: int
    pending: int

class NeverFitsError(PagedKVError):
    """It would not fit an idle pool either: reject it. Counts are blocks."""
    needed: int
    total: int

class InvalidArgumentError(PagedKVError, ValueError):
    """A value that no call can take. Also a ValueError."""

class SequenceStateError(PagedKVError):
    """
    The sequence or block is not in the state that the call needs: unknown or duplicate id, double free.
    """

class BlockState(enum.Enum):
    """The four states of a block; each is in exactly one."""

    CLEAN = 0
    """free, and nothing can find it"""

    CACHED = 1
    """free, but findable by its content until it is evicted"""

    IN_USE = 2
    """referenced at least once"""

    PENDING = 3
    """given back while work in flight may still touch it"""

class PhysicalBlock:
    """A frozen snapshot of one block."""

    @property
    def block_id(self) -> int: ...

    @property
    def ref_count(self) -> int:
        """References: page-table entries and pins."""

    @property
    def device_ptr(self) -> int | None:
        """Address of its first byte, or None while no pool is bound."""

    @property
    def state(self) -> BlockState: ...

    @property
    def fill(self) -> int:
        """High-water mark of tokens written."""

    def __repr__(self) -> str: ...

class BlockAllocator:
    """
    Who may have which block: reference counts, free lists, the four states. O(1) a block; thread-safe.

    References taken here (pins) are separate from those of sequences and dropped only here.
    """

    def __init__(self, num_blocks: int, block_size_bytes: int = 0, pool_base: int = 0) -> None: ...

    def allocate(self, count: int = 1) -> numpy.typing.NDArray[numpy.int32]:
        """
        Take `count` blocks with one reference each; int32 ids [count], owned by the caller.

        Clean blocks first (last freed first, block 0 first on a new pool), then the cached block released longest
        ago. Modifies: the blocks taken. Errors: InvalidArgumentError (negative), NeverFitsError (more than the pool),
        OutOfBlocksError (not now); nothing is taken then.
        """

    def free(self, ids: int | numpy.typing.ArrayLike) -> None:
        """
        Drop one reference for each time a block is named; at zero it is clean, or cached if published.

        Atomic. Errors: SequenceStateError if more references are dropped than were taken here (double free).
        """

    def increment_ref(self, ids: int | numpy.typing.ArrayLike) -> None:
        """
        Add a reference (a pin) for each time a block is named. Atomic.

        A cached block comes back into use with its content. A write by a sequence into a pinned block copies it first.
        Errors: SequenceStateError for a block that is free and not findable.
        """

    def publish(self, ids: int | numpy.typing.ArrayLike) -> None:
        """
        Mark blocks in use as findable by content: when their last reference goes they are cached, not clean.
        """

    def unpublish(self, ids: int | numpy.typing.ArrayLike) -> None:
        """Take the mark back; cached blocks become clean."""

    def get_ref_count(self, block_id: int) -> int:
        """References of a block, pins included."""

    def get_block_ptr(self, block_id: int) -> int:
        """
        Address of a block's first byte (64 bits): pool_base + block_id * block_size_bytes.
        """

    def block(self, block_id: int) -> PhysicalBlock:
        """A snapshot of one block."""

    def state(self, block_id: int) -> BlockState:
        """The state of one block."""

    def bind_pool(self, pool_base: int, block_size_bytes: int) -> None:
        """Say where block 0 lies and how far blocks are apart, in bytes."""

    @property
    def num_free_blocks(self) -> int:
        """Clean and cached blocks."""

    @property
    def num_allocated_blocks(self) -> int:
        """Blocks in use and pending."""

    @property
    def num_pending_blocks(self) -> int: ...

    @property
    def num_cached_blocks(self) -> int: ...

    @property
    def num_total_blocks(self) -> int: ...

    @property
    def block_size_bytes(self) -> int:
        """0 while no pool is bound."""

    @property
    def pool_base(self) -> int: ...

    @property
    def evictions(self) -> int:
        """Cached blocks that were taken for new content."""

class PageTable:
    """
    Logical block index -> physical block id, and the number of tokens stored.

    Stands alone; from KVCacheManager.get_page_table it is a snapshot that later calls do not change.
    """

    def __init__(self, block_size: int) -> None: ...

    def append_block(self, block_id: int) -> None:
        """
        Add a physical block, empty so far. Errors: SequenceStateError if the last block is not full.
        """

    def get_physical_id(self, index: int) -> int:
        """The physical block of a logical block index."""

    def set_filled_in_last(self, tokens: int) -> None:
        """
        Set the tokens stored in the last block, 0 to block_size. Errors: SequenceStateError without blocks.
        """

    @property
    def filled_in_last(self) -> int:
        """Tokens stored in the last block; 0 while it is only reserved."""

    @property
    def num_blocks(self) -> int: ...

    @property
    def num_tokens(self) -> int: ...

    @property
    def block_size(self) -> int: ...

    @property
    def entries(self) -> numpy.typing.NDArray[numpy.int32]:
        """Physical block ids, int32 [num_blocks]; a copy."""

    def clear(self) -> None:
        """Forget all blocks; nothing is freed."""

    def __repr__(self) -> str: ...

    def __len__(self) -> int: ...

class CacheStats:
    """
    A frozen snapshot in O(1). Blocks are block counts, tokens token counts, percentages 0 to 100.

    logical_* count shared content once a sequence, stored_tokens and allocated_blocks once.
    """

    @property
    def total_blocks(self) -> int: ...

    @property
    def free_blocks(self) -> int:
        """clean + cached: what can be handed out now."""

    @property
    def clean_blocks(self) -> int: ...

    @property
    def cached_blocks(self) -> int: ...

    @property
    def allocated_blocks(self) -> int:
        """in use + pending."""

    @property
    def pending_blocks(self) -> int: ...

    @property
    def active_sequences(self) -> int: ...

    @property
    def logical_tokens(self) -> int:
        """Sum of lengths."""

    @property
    def stored_tokens(self) -> int:
        """Sum of fill over in-use blocks."""

    @property
    def utilization_percent(self) -> float:
        """100 * allocated_blocks / total_blocks."""

    @property
    def token_utilization_percent(self) -> float:
        """100 * stored_tokens / (total_blocks * block_size)."""

    @property
    def internal_frag_percent(self) -> float:
        """
        100 * (1 - stored_tokens / (in-use blocks * block_size)); shared blocks count once.
        """

    @property
    def external_frag_percent(self) -> float:
        """Always 0: any free block serves any request."""

    @property
    def logical_blocks(self) -> int:
        """Page-table entries."""

    @property
    def saved_blocks(self) -> int:
        """Page-table entries less the distinct blocks they hold."""

    @property
    def cow_copies(self) -> int: ...

    @property
    def evictions(self) -> int: ...

    @property
    def peak_allocated_blocks(self) -> int: ...

    @property
    def queried_tokens(self) -> int: ...

    @property
    def hit_tokens(self) -> int: ...

    @property
    def failed_admissions(self) -> int:
        """Refused for want of blocks at that moment."""

    def as_dict(self) -> dict[str, int | float]:
        """All fields by name."""

    def __eq__(self, other: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

class Admission:
    """What admit decided; frozen."""

    @property
    def seq_id(self) -> int: ...

    @property
    def row(self) -> int:
        """
        The sequence's line in the device-resident block tables, fixed for its life.
        """

    @property
    def cached_tokens(self) -> int:
        """Leading tokens found in the cache; the sequence's length now."""

    def __repr__(self) -> str: ...

class CsrTables:
    """
    Block tables in FlashInfer's form; frozen, the arrays are the caller's.
    """

    @property
    def indptr(self) -> numpy.typing.NDArray[numpy.int32]:
        """
        int32 [n + 1]: entries of sequence i are indices[indptr[i]:indptr[i + 1]].
        """

    @property
    def indices(self) -> numpy.typing.NDArray[numpy.int32]:
        """int32: block ids, one sequence after another."""

    @property
    def last_page_len(self) -> numpy.typing.NDArray[numpy.int32]:
        """
        int32 [n]: tokens in the last block, 1..block_size; 0 for an empty sequence.
        """

class StepPlan:
    """
    What one batched call decided: slots, copies, table updates. A pool carries it out.

    It owns its storage; each array is a view made when it is read, which keeps the plan alive. Valid for ever:
    later calls do not change it. Apply plans in the order of their steps, before the model's kernels.
    """

    @property
    def step(self) -> int:
        """The plan's number; steps only grow."""

    @property
    def served(self) -> int:
        """
        Leading sequences of the batch that were served: all of them, or fewer with partial=True.
        """

    @property
    def slots(self) -> numpy.typing.NDArray[numpy.int64]:
        """
        int64 [sum of counts served]: where each appended token goes, block * block_size + offset.
        """

    @property
    def rows(self) -> numpy.typing.NDArray[numpy.int32]:
        """int32 [served]: rows of the device-resident block tables."""

    @property
    def lengths(self) -> numpy.typing.NDArray[numpy.int32]:
        """int32 [served]: tokens stored after this call."""

    @property
    def copies(self) -> numpy.typing.NDArray[numpy.int32]:
        """
        int32 [m, 2]: whole blocks to copy (source, destination) before anything is written.
        """

    @property
    def updates(self) -> numpy.typing.NDArray[numpy.int32]:
        """int32 [k, 3]: changed table entries (row, column, block)."""

    def to_bytes(self) -> bytes:
        """The plan as bytes, for the other processes of a tensor-parallel group."""

    @staticmethod
    def from_bytes(data: bytes) -> StepPlan:
        """
        The plan that to_bytes wrote. Errors: InvalidArgumentError on anything else.
        """

    def __getstate__(self) -> bytes: ...

    def __setstate__(self, state: bytes, /) -> None: ...

    def __repr__(self) -> str: ...

class CacheEvents:
    """
    What became findable and what ceased to be, in order; one entry a content (a block with its chain).

    Fresh arrays, valid for ever. A serial names a content and is never given to another one.
    """

    def __len__(self) -> int: ...

    @property
    def kinds(self) -> numpy.typing.NDArray[numpy.int32]:
        """0 stored, 1 removed, 2 all cleared."""

    @property
    def blocks(self) -> numpy.typing.NDArray[numpy.int32]:
        """A block that holds (held) the content; -1 for cleared."""

    @property
    def serials(self) -> numpy.typing.NDArray[numpy.int64]: ...

    @property
    def parents(self) -> numpy.typing.NDArray[numpy.int64]:
        """Serial of the content before it; 0: it is the first of its prompt."""

    @property
    def token_starts(self) -> numpy.typing.NDArray[numpy.int64]:
        """
        [n + 1]: entry i has tokens[token_starts[i]:token_starts[i + 1]], none unless stored.
        """

    @property
    def tokens(self) -> numpy.typing.NDArray[numpy.int32]: ...

    @property
    def salt_digests(self) -> numpy.typing.NDArray[numpy.int64]:
        """
        64 bits that stand for the salt, equal in all processes; 0: no salt. Not a secret.
        """

class KVCacheManager:
    """
    Bookkeeping of a paged KV cache: no device, no framework. Thread-safe; one native call a batch.

    num_blocks, block_size: the pool. max_tokens: the most a sequence may hold. watermark: blocks that admission
    leaves free. scratch_blocks: extra blocks for padding, not counted in num_blocks. prefix_caching: full committed
    blocks whose token ids are known are found again by what they hold. _constant_hash: for tests of that alone.
    """

    def __init__(self, num_blocks: int, block_size: int, *, max_tokens: int | None = None, prefix_caching: bool = False, watermark: int = 0, scratch_blocks: int = 0, _constant_hash: bool = False) -> None: ...

    def admit(self, seq_id: int, tokens: numpy.typing.ArrayLike, *, salt: bytes = b'', reserve: int | None = None, max_hit_tokens: int | None = None, spans: Sequence[tuple[int, int, bytes]] = ()) -> Admission:
        """
        Register a sequence, reference the blocks that already hold its prompt's head, make room for the rest; atomic.

        tokens: int32 [P] prompt ids, or () if they are not known. reserve: tokens to make room for (None: the whole
        prompt, 0: nothing). Afterwards length = cached_tokens; append the other prompt tokens by count. The watermark
        applies here only. With prefix caching: salt separates tenants and adapters (b"" = none); spans (start, stop,
        digest) say what lies over tokens start .. stop - 1 beyond their ids, an image say; a hit is whole committed blocks
        from block 0 on, at most floor((P - 1) / block_size) of them, or as max_hit_tokens allows.
        Modifies: the sequence, its row, its blocks. Errors: SequenceStateError (id is live), OutOfBlocksError (not now),
        NeverFitsError (more than the pool less the watermark), InvalidArgumentError.
        """

    def try_admit(self, seq_id: int, tokens: numpy.typing.ArrayLike, *, salt: bytes = b'', reserve: int | None = None, max_hit_tokens: int | None = None, spans: Sequence[tuple[int, int, bytes]] = ()) -> Admission | None:
        """admit, but None where that raises OutOfBlocksError."""

    def append(self, seq_ids: numpy.typing.ArrayLike, counts: numpy.typing.ArrayLike, *, tokens: numpy.typing.ArrayLike | None = None, partial: bool = False) -> StepPlan:
        """
        Lengthen sequences by counts: take blocks, copy shared ones that are written, give every token its slot.

        seq_ids: int64 [n], each once; counts: int32 [n] >= 0; tokens: int32 [sum of counts], the ids if known.
        Atomic for the whole batch; with partial=True the longest leading run that fits is served (plan.served).
        Modifies: lengths, page tables, blocks. Stream: apply the plan on the compute stream before the model's kernels.
        Errors: SequenceStateError (unknown id), OutOfBlocksError, NeverFitsError (a sequence larger than the pool),
        InvalidArgumentError (repeated id, bad count, beyond max_tokens).
        """

    def try_append(self, seq_ids: numpy.typing.ArrayLike, counts: numpy.typing.ArrayLike, *, tokens: numpy.typing.ArrayLike | None = None, partial: bool = False) -> StepPlan | None:
        """append, but None where that raises OutOfBlocksError."""

    def reserve(self, seq_ids: numpy.typing.ArrayLike, upto: numpy.typing.ArrayLike) -> StepPlan:
        """
        Make room for tokens up to the absolute lengths `upto` (int32 [n]); lengths stay. Atomic.

        A shared block under the positions from length to upto is copied first, so they may be written and then committed.
        Modifies: capacity. Stream and errors: as append.
        """

    def try_reserve(self, seq_ids: numpy.typing.ArrayLike, upto: numpy.typing.ArrayLike) -> StepPlan | None:
        """reserve, but None where that raises OutOfBlocksError."""

    def commit(self, seq_ids: numpy.typing.ArrayLike, lengths: numpy.typing.ArrayLike, *, tokens: numpy.typing.ArrayLike | None = None) -> None:
        """
        Say that the writes of the first `lengths` tokens (int32 [n], absolute) are enqueued on the compute stream.

        Raises length if it is shorter, up to capacity; never lowers a cursor. tokens: int32, the ids that were not known
        yet, from each sequence's first unknown position to its length. Atomic. Errors: InvalidArgumentError (beyond
        capacity, wrong number of ids), SequenceStateError (unknown id; a shared block under a raised length).
        """

    def truncate(self, seq_ids: numpy.typing.ArrayLike, lengths: numpy.typing.ArrayLike, *, keep_blocks: bool = False) -> None:
        """
        Shorten sequences to `lengths` (int32 [n]); blocks no longer needed go back unless keep_blocks. Atomic.

        Blocks given back may be reused by work enqueued later on the compute stream.
        Errors: InvalidArgumentError (longer than it is, negative), SequenceStateError (unknown id).
        """

    def free(self, seq_ids: numpy.typing.ArrayLike, *, after: int | None = None) -> None:
        """
        End sequences. Their ids and rows may be used again at once; atomic.

        after=None: blocks may be reused by work enqueued later on the compute stream. after=step: blocks stay pending
        until retire(step). Errors: SequenceStateError (unknown id, freed twice), InvalidArgumentError (step not planned).
        """

    def fork(self, parent_id: int, child_ids: numpy.typing.ArrayLike) -> None:
        """
        Register `child_ids` (int64 [n]) as copies of a sequence that share its blocks; takes no block. Atomic.

        The children have the parent's length, committed tokens and known ids. Blocks that hold tokens are shared, what
        the parent has only reserved is not; whoever writes into a shared block first gets a copy of it (append, reserve).
        All are equal afterwards: free them in any order. Cost: O(blocks of the parent) a child.
        Modifies: the children, their rows, reference counts. Stream: no work of its own; the next plan that names a child
        carries its row. Errors: SequenceStateError (unknown parent, a child's id is live), InvalidArgumentError (repeated
        child).
        """

    def reorder(self, seq_ids: numpy.typing.ArrayLike, parent_indices: numpy.typing.ArrayLike) -> StepPlan:
        """
        The beam step: seq_ids[i] becomes what seq_ids[parent_indices[i]] was before the call. Atomic.

        seq_ids: int64 [n], each once; parent_indices: int [n], places in this call's seq_ids, 0 .. n - 1, repeats allowed:
        any number of beam groups in one call. Ids and rows stay; tables, lengths, committed tokens and known ids are the
        parent's. Blocks that no sequence holds any more go back at once, reusable by work enqueued later on the compute
        stream. The plan has no slots and no copies, and table updates only for entries that changed.
        Cost: the table entries that a group of forks does not have in common; nothing of the prompt.
        Modifies: page tables, lengths, blocks. Stream: apply the plan as one of append.
        Errors: SequenceStateError (unknown id), InvalidArgumentError (repeated id, parent out of range).
        """

    def retire(self, step: int) -> None:
        """
        Say that this step and all before it have finished: blocks that waited for them become free.
        """

    def get_page_table(self, seq_id: int) -> PageTable:
        """A snapshot of a sequence's page table."""

    def get_stats(self) -> CacheStats:
        """A snapshot of all counters, O(1) at any size."""

    def check(self) -> None:
        """
        Recount every invariant from scratch, O(pool). Errors: PagedKVError naming the first that is broken.
        """

    def seq_length(self, seq_id: int) -> int:
        """Tokens stored."""

    def committed_length(self, seq_id: int) -> int:
        """Tokens whose writes are enqueued."""

    def capacity_tokens(self, seq_id: int) -> int:
        """Tokens that fit the blocks it has."""

    def row(self, seq_id: int) -> int:
        """Its line in the device-resident block tables."""

    def seq_ids(self) -> numpy.typing.NDArray[numpy.int64]:
        """Ids of all live sequences in row order; a fresh array. O(rows)."""

    def __contains__(self, seq_id: int) -> bool: ...

    def table_width(self, multiple_of: int = 1) -> int:
        """
        Columns that a block table needs for max_tokens (without it: for the whole pool), rounded up.
        """

    @property
    def allocator(self) -> BlockAllocator:
        """
        The live allocator below; references taken through it are pins, apart from those of sequences.
        """

    @property
    def num_blocks(self) -> int: ...

    @property
    def block_size(self) -> int:
        """Tokens a block."""

    @property
    def watermark(self) -> int:
        """Blocks that admission leaves free."""

    @property
    def scratch_blocks(self) -> int:
        """Blocks set apart for padding, ids num_blocks and up."""

    @property
    def max_tokens(self) -> int | None:
        """The most tokens a sequence may hold."""

    @property
    def last_step(self) -> int:
        """Step of the newest plan; 0 before the first."""

    @property
    def retired_step(self) -> int: ...

    def block_table(self, seq_ids: numpy.typing.ArrayLike, *, out: numpy.typing.NDArray[numpy.int32] | None = None, width: int | None = None, pad: int | None = None) -> numpy.typing.NDArray[numpy.int32]:
        """
        Dense block table, int32 [n, width]: row i holds the block ids of seq_ids[i], then padding.

        width: columns (None: the longest of the batch). out: the caller's array, filled to its end (extra rows are
        padding). pad: a block id, -1 on request; None: the scratch block if there is one, else 0, so that every entry
        can be read. Read-only; a copy. Errors: InvalidArgumentError (too narrow, too small), SequenceStateError.
        """

    def slot_mapping(self, seq_ids: numpy.typing.ArrayLike, *, starts: numpy.typing.ArrayLike | None = None, stops: numpy.typing.ArrayLike | None = None, out: numpy.typing.NDArray[numpy.int64] | None = None) -> numpy.typing.NDArray[numpy.int64]:
        """
        Slots of positions starts[i] to stops[i] of each sequence, int64, one after another (None: 0 to length).

        stops may reach capacity. out: the caller's array; what is left over becomes -1. Read-only; a copy.
        Errors: InvalidArgumentError (beyond capacity, too small), SequenceStateError.
        """

    def csr(self, seq_ids: numpy.typing.ArrayLike, *, out: tuple[numpy.typing.NDArray[numpy.int32], numpy.typing.NDArray[numpy.int32], numpy.typing.NDArray[numpy.int32]] | None = None) -> CsrTables:
        """
        Block tables in FlashInfer's form, by length: last_page_len = ((length - 1) mod block_size) + 1, 0 for length 0.

        out: the caller's (indptr, indices, last_page_len); larger ones describe empty sequences after the batch.
        """

    def seq_lens(self, seq_ids: numpy.typing.ArrayLike, *, out: numpy.typing.NDArray[numpy.int32] | None = None) -> numpy.typing.NDArray[numpy.int32]:
        """
        Tokens stored, int32 [n]; what is left over of out becomes 0. Read-only; a copy.
        """

    def lookup(self, tokens: numpy.typing.ArrayLike, *, salt: bytes = b'', max_hit_tokens: int | None = None, spans: Sequence[tuple[int, int, bytes]] = ()) -> int:
        """
        Tokens that admit of this prompt would take from the cache now. Read-only: moves no counter and no order.

        0 without prefix caching, for an empty prompt, and where nothing is known. Arguments and errors: as admit.
        """

    def reset_prefix_cache(self) -> bool:
        """
        Forget all contents; False, and nothing is changed, while any sequence lives.
        """

    def drain_events(self) -> CacheEvents:
        """
        What happened to the cache since the last call.

        The first call begins the record, which costs nothing before, and answers with a cleared and everything that is
        findable; so does one after more than 4 events a block went unread. Empty without prefix caching.
        """

    @property
    def prefix_caching(self) -> bool:
        """Whether contents are found again."""

def dlpack_tensor(owner: object, address: int, shape: Sequence[int], strides: Sequence[int], format: tuple[int, int], device: tuple[int, int]) -> object:
    """
    An object with __dlpack__ over memory that `owner` keeps alive; strides in elements, format is DLPack's (type code, bits), device its (type, id). Checks nothing of the memory.
    """
