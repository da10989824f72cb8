"""Adapters to other libraries. Each imports the library it adapts to; nothing else of the package does, or needs it."""
