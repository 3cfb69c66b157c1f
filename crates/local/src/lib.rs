//! The embedded sandbox host: control plane and envd for local processes, on one loopback port.
