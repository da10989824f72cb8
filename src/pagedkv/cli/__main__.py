"""`python -m pagedkv.cli`."""

from pagedkv.cli import main

main()
