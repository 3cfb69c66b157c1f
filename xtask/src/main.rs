//! Tasks of this repository.
mod codegen_proto;
fn main() {
    let out = std::path::Path::new("crates/protocol/src/generated/envd");
    std::fs::create_dir_all(out).ok();
    codegen_proto::generate(std::path::Path::new("."), out).unwrap();
}
