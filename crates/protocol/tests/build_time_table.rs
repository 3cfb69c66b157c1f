//! The Rust that is written for a table at build time compiles, and is the table that is loaded at run time.
#![cfg(feature = "openapi")]

use oncebox_protocol::Table;

include!("build_time/operations.rs");

const DOCUMENT: &str = include_str!("build_time/openapi.yaml");

#[test]
fn the_written_table_is_the_loaded_one() {
    let loaded = Table::from_openapi(DOCUMENT).unwrap();
    assert_eq!(loaded.to_rust(), include_str!("build_time/operations.rs"));
    let written = Table::from_statics(&OPERATIONS);
    assert!(written.operations().eq(loaded.table.operations()));
    assert_eq!(loaded.warnings.len(), 1);
}
