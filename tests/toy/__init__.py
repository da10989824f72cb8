"""A toy language model decodes with copies of everything and with shared blocks; the results are the same bits."""
