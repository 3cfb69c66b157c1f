//! The oncebox command.
