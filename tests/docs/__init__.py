"""The documentation is true: its code runs, its commands end as it says, and what it names exists."""
