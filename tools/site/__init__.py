"""The static site: `python -m tools.site` builds it; layout (which file becomes which page), notebook, tidy, recorded, machines,
pages, frame and build are its rooms."""
