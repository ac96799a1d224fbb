"""What the labs share: strict comparisons, the count of visible points, and the worlds that labs are graded on."""
