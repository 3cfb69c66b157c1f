//! Connections, streams and bodies; the network turned into outcomes; the one attempt loop.
