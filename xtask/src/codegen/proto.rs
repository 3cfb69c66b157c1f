//! envd's protos: their Rust (messages, service traits and clients), and their RPCs for the operation table.

use super::document::{Entry, Mark};
use std::path::Path;

/// The protos of `spec/envd`, in the order in which they are generated.
const PROTOS: [&str; 2] = ["filesystem.proto", "process.proto"];

/// How an rpc is marked in a .proto file: the numbers of `google.protobuf.MethodOptions.IdempotencyLevel`.
const UNKNOWN: i32 = 0;
const NO_SIDE_EFFECTS: i32 = 1;
const IDEMPOTENT: i32 = 2;

/// The numbers of descriptor.proto that lead to an rpc: `service` of a file, `method` of a service.
const SERVICE: i32 = 6;
const METHOD: i32 = 2;

/// Generates Rust into `out`, which must exist, and tells the RPCs.
pub(crate) fn generate(root: &Path, out: &Path) -> Result<Vec<Rpc>, String> {
    let spec = root.join("spec/envd");
    let mut compiler = protox::Compiler::new([&spec]).map_err(|e| e.to_string())?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(PROTOS).map_err(|e| format!("spec/envd: {e}"))?;

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
        .map_err(|e| format!("spec/envd: {e:#}"))?;

    rpcs(&compiler)
}

/// An rpc as an operation. Its method is always POST.
pub(crate) struct Rpc {
    /// What the table says of it.
    pub(crate) entry: Entry,
    /// Whether it has no effect at all, so that repeating it is safe and not only idempotent.
    pub(crate) safe: bool,
}

fn rpcs(compiler: &protox::Compiler) -> Result<Vec<Rpc>, String> {
    let mut rpcs = Vec::new();
    for file in &compiler.file_descriptor_set().file {
        for (service_index, service) in (0_i32..).zip(&file.service) {
            for (method_index, method) in (0_i32..).zip(&service.method) {
                let path = [SERVICE, service_index, METHOD, method_index];
                let comment = file
                    .source_code_info
                    .iter()
                    .flat_map(|info| &info.location)
                    .find(|location| location.path == path)
                    .map(|location| location.leading_comments().to_owned())
                    .unwrap_or_default();
                let level = method.options.as_ref().and_then(|options| options.idempotency_level);
                rpcs.push(rpc(file.package(), service.name(), method.name(), level, &comment)?);
            }
        }
    }
    Ok(rpcs)
}

/// Reads the mark of an rpc, and the reason from its comment: what follows "Repeatable: " or "Not repeatable: ".
fn rpc(package: &str, service: &str, method: &str, level: Option<i32>, comment: &str) -> Result<Rpc, String> {
    let name = format!("{package}.{service}/{method}");
    let comment = comment.split_whitespace().collect::<Vec<_>>().join(" ");
    let reason = |word: &str| {
        let (_, reason) =
            comment.split_once(word).ok_or_else(|| format!("{name}: its comment must say why, after {word:?}"))?;
        let sentence = reason.split_once(". ").map_or(reason, |(sentence, _)| sentence);
        let mut letters = sentence.trim_end_matches('.').chars();
        let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
        Ok::<_, String>(format!("{first}{}.", letters.as_str()))
    };
    let (mark, safe) = match level {
        Some(NO_SIDE_EFFECTS) => (Mark::Repeatable("Has no effect.".to_owned()), true),
        Some(IDEMPOTENT) => (Mark::Repeatable(reason("Repeatable: ")?), false),
        Some(UNKNOWN) => (Mark::NotRepeatable(reason("Not repeatable: ")?), false),
        _ => return Err(format!("unmarked rpc {name}: give it an `idempotency_level`")),
    };
    let first_sentence = comment.split_once(". ").map_or(comment.as_str(), |(sentence, _)| sentence);
    Ok(Rpc {
        entry: Entry {
            id: format!("{}{method}", service.to_lowercase()),
            method: "POST".to_owned(),
            path: format!("/{name}"),
            mark,
            mints: false,
            accepts_idempotency_key: false,
            deprecated: false,
            summary: format!("{}.", first_sentence.trim_end_matches('.')),
        },
        safe,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unmarked_rpc_is_refused() {
        let error = rpc("process", "Process", "Start", None, "Starts.").err().unwrap();
        assert_eq!(error, "unmarked rpc process.Process/Start: give it an `idempotency_level`");
    }

    #[test]
    fn a_mark_without_a_reason_is_refused() {
        let error = rpc("p", "S", "M", Some(UNKNOWN), "Does it.").err().unwrap();
        assert_eq!(error, r#"p.S/M: its comment must say why, after "Not repeatable: ""#);
        assert!(rpc("p", "S", "M", Some(IDEMPOTENT), "Does it.").is_err());
    }

    #[test]
    fn the_reason_is_one_sentence_of_the_comment() {
        let comment = " Starts it. Not repeatable: each call\n starts another. More words.";
        let rpc = rpc("p", "S", "M", Some(UNKNOWN), comment).unwrap();
        assert_eq!(rpc.entry.mark, Mark::NotRepeatable("Each call starts another.".to_owned()));
        assert_eq!(rpc.entry.summary, "Starts it.");
        assert!(!rpc.safe);
    }
}
