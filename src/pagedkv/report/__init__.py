"""Reports: a run's JSON document -> plain data (model) -> a rich terminal, plain lines, or a file."""
