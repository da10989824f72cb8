"""The device pool: the bytes of all blocks, and everything that is done to them in stream order."""

from pagedkv.pool.device_pool import DevicePool

__all__ = ["DevicePool"]
