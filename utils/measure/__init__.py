"""What runs on the reader's machine: machine, stopwatch, stages. Knows nothing of `utils.show`."""
