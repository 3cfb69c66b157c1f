"""A plugin of pytest: `pytest -p enabled` runs the official SDK's tests with Oncebox beneath it."""

import oncebox.compat.e2b

oncebox.compat.e2b.enable()
