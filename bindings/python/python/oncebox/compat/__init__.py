"""Oncebox beneath packages that are not ours."""
