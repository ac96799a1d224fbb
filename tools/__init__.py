"""Tools that keep the repository in shape: notebook format and runs, lint, soak. No lesson needs them."""
