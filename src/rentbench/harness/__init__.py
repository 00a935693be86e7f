"""The in-container side: it times, samples, checks and writes one measurement."""
