"""Figures of papers, one file each: how its report reads. A new one is a file and an entry in `report.reproduction`."""
