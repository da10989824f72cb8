"""Capacity planning: right by hand, and in its proportions for any demand."""
