"""The tests, one file a room. A package, so that they import each other's helpers as `tests.factories`, `tests.conftest`."""
