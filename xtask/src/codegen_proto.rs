//! Rust for envd's protos: messages, service traits and clients, written to `crates/protocol/src/generated/envd`.

use std::path::Path;

/// The protos of `spec/envd`, in the order in which they are generated.
const PROTOS: [&str; 2] = ["filesystem.proto", "process.proto"];

/// Generates into `out`, which must exist.
pub(crate) fn generate(root: &Path, out: &Path) -> Result<(), String> {
    let spec = root.join("spec/envd");
    let mut compiler = protox::Compiler::new([&spec]).map_err(|e| e.to_string())?;
    compiler.include_imports(true).include_source_info(true);
    compiler
        .open_files(PROTOS)
        .map_err(|e| format!("spec/envd: {e}"))?;

    let scratch = tempfile::tempdir().map_err(|e| format!("temporary folder: {e}"))?;
    let descriptors = scratch.path().join("envd.binpb");
    std::fs::write(&descriptors, compiler.encode_file_descriptor_set())
        .map_err(|e| format!("{}: {e}", descriptors.display()))?;

    connectrpc_build::Config::new()
        .files(&PROTOS)
        .descriptor_set(&descriptors)
        .out_dir(out)
        .include_file("mod.rs")
        .emit_rerun_directives(false)
        .compile()
        .map_err(|e| format!("spec/envd: {e:#}"))
}
