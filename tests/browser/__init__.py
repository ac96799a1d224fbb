"""Tests in a real browser: JupyterLab in headless Chromium, driven through Playwright as a reader would."""
