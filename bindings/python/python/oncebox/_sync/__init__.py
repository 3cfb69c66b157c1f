# Written by tools/twin.py from _async/__init__.py: change it there.
"""The asynchronous API."""
