# Patterns for nanobind.stubgen: what the runtime cannot tell about the exceptions' attributes.
pagedkv._core.OutOfBlocksError:
    class OutOfBlocksError(PagedKVError):
        """Not enough blocks now; the same call can succeed after a free or retire. Counts are blocks."""
        needed: int
        available: int
        pending: int

pagedkv._core.NeverFitsError:
    class NeverFitsError(PagedKVError):
        """It would not fit an idle pool either: reject it. Counts are blocks."""
        needed: int
        total: int
