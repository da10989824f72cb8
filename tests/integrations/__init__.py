"""pagedkv under other libraries. Skipped, with the reason, where those are not installed."""
