"""The asynchronous API."""
