"""nbgrader's settings for this course: `solutions/` is its source, `labs/` its release; work/ (ignored by git) holds the rest.

Read by the `nbgrader` command when it runs in this folder, and by the grading room.
"""

c = get_config()  # noqa: F821  (given by traitlets)

c.CourseDirectory.course_id = "one-add-priced"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "labs"
c.CourseDirectory.submitted_directory = "work/submitted"
c.CourseDirectory.autograded_directory = "work/autograded"
c.CourseDirectory.feedback_directory = "work/feedback"
c.CourseDirectory.db_url = "sqlite:///" + "work/gradebook.db"
# The wrong answers stand beside the solution, and are nobody's to see.
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "wrong", "handed_out.json"]

c.Execute.timeout = 30  # seconds a cell may take; the slowest of a solution takes 2, on a cold disk a few more
