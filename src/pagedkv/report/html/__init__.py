"""The HTML report: documents -> charts as plain data -> a page as plain data -> one file that needs no network."""
