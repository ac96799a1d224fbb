"""What is known and what follows from it: readings, results, recordings, ranges, claims. Never imports torch."""
