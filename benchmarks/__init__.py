"""Speed and memory of the bookkeeping, measured against the project's targets.

`python -m benchmarks [NAMES] [--json FILE] [--vllm-results DIR]`; `registry.py` lists the modules, one
measurement each. A verdict informs, it is not a test: timings belong to the machine that the report names.
"""
