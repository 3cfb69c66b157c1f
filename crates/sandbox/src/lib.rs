//! Sandboxes over HTTP whose effects happen once.
