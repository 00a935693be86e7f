"""One module a command group; the only place that exits."""
