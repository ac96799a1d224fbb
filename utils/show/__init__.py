"""What a reader sees: tables, figures, predictions, quizzes, controls. Never measures anything."""
