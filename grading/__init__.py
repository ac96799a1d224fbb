"""The labs' way out and back: `release` makes the student editions, `grade` grades one notebook. nbgrader does both."""
