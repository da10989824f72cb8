"""Tests that need an NVIDIA GPU. PyTorch, and CuPy where named, are the independent party: engines use them."""
