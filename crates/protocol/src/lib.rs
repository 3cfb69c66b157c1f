//! Wire types and operations of the E2B sandbox protocol, generated from spec/.
