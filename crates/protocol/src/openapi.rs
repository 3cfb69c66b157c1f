//! Tables from a specification of your own.
//!
//! Any OpenAPI 3 document will do, in YAML or JSON. Mark each POST and PATCH with `x-idempotent: true` or `false`, and say why
//! in `x-idempotent-reason`; `x-mints: true` on what leaves one more thing behind with each call, `x-idempotency-key: true` on
//! what may honour an `Idempotency-Key`. What is not marked is not repeated, and listed in the warnings.
//!
//! At run time:
//!
//! ```
//! use http::Method;
//! use oncebox_protocol::{Table, openapi::OpenApiError};
//!
//! let loaded = Table::from_openapi(r#"
//! openapi: 3.0.3
//! paths:
//!   /jobs:
//!     post: {operationId: createJob}
//!   /jobs/{id}/cancel:
//!     post: {operationId: cancelJob, x-idempotent: true, x-idempotent-reason: A cancelled job stays cancelled.}
//! "#)?;
//! assert!(loaded.table.permit(&Method::POST, "/jobs/7/cancel").is_some());
//! assert!(loaded.table.permit(&Method::POST, "/jobs").is_none());
//! assert_eq!(loaded.warnings[0].to_string(), "POST /jobs (createJob) has no `x-idempotent` mark and will not be repeated");
//! # Ok::<(), OpenApiError>(())
//! ```
//!
//! At build time, in `build.rs`, with this crate among the build dependencies as well:
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let loaded = oncebox_protocol::Table::from_openapi(&std::fs::read_to_string("openapi.yaml")?)?;
//! let out = std::path::Path::new(&std::env::var("OUT_DIR")?).join("operations.rs");
//! std::fs::write(out, loaded.to_rust())?;
//! # Ok(())
//! # }
//! ```
//!
//! and in the program `include!(concat!(env!("OUT_DIR"), "/operations.rs"));` followed by
//! `Table::from_statics(&OPERATIONS)`.

#[allow(dead_code, reason = "compiled into xtask too; each side uses its part")]
mod document;
#[allow(dead_code, reason = "compiled into xtask too; each side uses its part")]
mod node;

use crate::operation::{Operation, Plane, Repeat};
use crate::table::Table;
use document::{Entry, Mark};
use http::Method;
use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// A table, and what its specification leaves open.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Loaded {
    /// The table.
    pub table: Table,
    /// The operations about which the specification says nothing, although their method decides nothing.
    pub warnings: Vec<Unmarked>,
}

/// A POST or PATCH without a mark. It will not be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unmarked {
    /// The operation's id.
    pub id: String,
    /// Its method.
    pub method: Method,
    /// Its path template.
    pub path: String,
}

impl fmt::Display for Unmarked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, method, path } = self;
        write!(f, "{method} {path} ({id}) has no `x-idempotent` mark and will not be repeated")
    }
}

/// Why a document is no table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OpenApiError(String);

impl Table {
    /// Reads an OpenAPI document; see [`openapi`](self) for what is read.
    ///
    /// # Errors
    /// When it is no OpenAPI document, a path template could match other than what it says, or two operations marked
    /// differently could be meant by one request.
    pub fn from_openapi(text: &str) -> Result<Loaded, OpenApiError> {
        let entries = document::parse(text).and_then(|document| document::entries(&document)).map_err(OpenApiError)?;
        document::check_unambiguous(&entries).map_err(OpenApiError)?;
        let mut operations = Vec::with_capacity(entries.len());
        let mut warnings = Vec::new();
        for entry in entries {
            let operation = operation(&entry)?;
            if entry.mark == Mark::Missing {
                warnings.push(Unmarked { id: entry.id, method: operation.method.clone(), path: entry.path });
            }
            operations.push(Cow::Owned(operation));
        }
        Ok(Loaded { table: Self::new(operations), warnings })
    }
}

fn operation(entry: &Entry) -> Result<Operation, OpenApiError> {
    let method = Method::from_bytes(entry.method.as_bytes())
        .map_err(|_| OpenApiError(format!("{:?} is not a method", entry.method)))?;
    let reason = |given: &str, otherwise: &'static str| match given {
        "" => Cow::Borrowed(otherwise),
        given => Cow::Owned(given.to_owned()),
    };
    let repeat = match &entry.mark {
        Mark::Repeatable(given) => Repeat::ByTable(reason(given, "Its specification marks it as idempotent.")),
        Mark::NotRepeatable(given) => Repeat::No(reason(given, "Its specification marks it as not idempotent.")),
        Mark::Missing => Repeat::No(Cow::Borrowed("Its specification does not say that it is idempotent.")),
        Mark::ByMethod if method.is_safe() => Repeat::Safe,
        Mark::ByMethod => Repeat::Idempotent,
    };
    Ok(Operation {
        id: Cow::Owned(entry.id.clone()),
        plane: Plane::Other,
        method,
        path: Cow::Owned(entry.path.clone()),
        repeat,
        mints: entry.mints,
        accepts_idempotency_key: entry.accepts_idempotency_key,
        deprecated: entry.deprecated,
    })
}

impl Loaded {
    /// The table as Rust: `pub static OPERATIONS: [Operation; N]`, for [`Table::from_statics`].
    pub fn to_rust(&self) -> String {
        let mut out = format!(
            "/// Generated from an OpenAPI document.\npub static OPERATIONS: [::oncebox_protocol::Operation; {}] = [\n",
            self.table.operations().len()
        );
        let cow = |text: &str| format!("::std::borrow::Cow::Borrowed({text:?})");
        for operation in self.table.operations() {
            let repeat = match &operation.repeat {
                Repeat::Safe => "Safe".to_owned(),
                Repeat::Idempotent => "Idempotent".to_owned(),
                Repeat::ByTable(reason) => format!("ByTable({})", cow(reason)),
                Repeat::No(reason) => format!("No({})", cow(reason)),
            };
            // Only the methods that a path item can have, all of which are constants of `Method`.
            let _ = writeln!(
                out,
                "    ::oncebox_protocol::Operation {{ id: {}, plane: ::oncebox_protocol::Plane::Other, \
                 method: ::oncebox_protocol::Method::{}, path: {}, repeat: ::oncebox_protocol::Repeat::{repeat}, \
                 mints: {}, accepts_idempotency_key: {}, deprecated: {} }},",
                cow(&operation.id),
                operation.method,
                cow(&operation.path),
                operation.mints,
                operation.accepts_idempotency_key,
                operation.deprecated,
            );
        }
        out.push_str("];\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations;
    use oncebox_policy::Permit;

    #[test]
    fn our_own_documents_load_as_the_generated_table() {
        for (text, plane) in [
            (include_str!("../../../spec/openapi.yaml"), Plane::ControlPlane),
            (include_str!("../../../spec/volume.yaml"), Plane::VolumeContent),
            (include_str!("../../../spec/code-interpreter.yaml"), Plane::CodeInterpreter),
        ] {
            let loaded = Table::from_openapi(text).unwrap();
            assert_eq!(loaded.warnings, []);
            let generated = operations::ALL.into_iter().filter(|operation| operation.plane == plane);
            let mut count = 0;
            for (loaded, generated) in loaded.table.operations().zip(generated) {
                assert_eq!(loaded, &Operation { plane: Plane::Other, ..generated.clone() });
                count += 1;
            }
            assert_eq!(count, loaded.table.operations().len());
        }
    }

    #[test]
    fn what_is_not_marked_is_not_repeated_and_told() {
        let loaded =
            Table::from_openapi("paths: {/a: {patch: {}, get: {}, put: {}, delete: {x-idempotent: false}}}").unwrap();
        let permit = |method| loaded.table.permit(&method, "/a");
        assert_eq!(permit(Method::PATCH), None);
        assert_eq!(permit(Method::GET), Some(Permit::SafeMethod));
        assert_eq!(permit(Method::PUT), Some(Permit::IdempotentMethod));
        assert_eq!(permit(Method::DELETE), None);
        let ids: Vec<_> = loaded.warnings.iter().map(|warning| warning.id.as_str()).collect();
        assert_eq!(ids, ["PATCH /a"]);
    }

    #[test]
    fn json_is_read_too() {
        let loaded =
            Table::from_openapi(r#"{"paths": {"/a/{b}": {"post": {"operationId": "c", "x-idempotent": true}}}}"#)
                .unwrap();
        assert_eq!(loaded.table.permit(&Method::POST, "/a/x"), Some(Permit::OperationTable));
    }

    #[test]
    fn words_that_were_once_truth_values_are_text() {
        let loaded = Table::from_openapi("paths: {/no: {get: {operationId: y}, post: {operationId: off}}}").unwrap();
        let ids: Vec<_> = loaded.table.operations().map(|operation| operation.id.as_ref()).collect();
        assert_eq!(ids, ["y", "off"]);
        let error = Table::from_openapi("paths: {/a: {post: {x-idempotent: yes}}}").unwrap_err();
        assert_eq!(error.to_string(), "POST /a: `x-idempotent` must be true or false");
    }

    #[test]
    fn a_path_item_may_be_a_reference() {
        let loaded = Table::from_openapi(
            "paths: {/a: {$ref: '#/components/pathItems/A'}}\ncomponents: {pathItems: {A: {post: {x-idempotent: true}}}}",
        )
        .unwrap();
        assert!(loaded.table.permit(&Method::POST, "/a").is_some());
    }

    #[test]
    fn what_cannot_be_a_table_is_refused_with_its_reason() {
        let cases = [
            ("{}", "no `paths`: not an OpenAPI document"),
            ("paths: {a: {}}", "path \"a\" does not begin with `/`"),
            ("paths: {/a: {$ref: '#/nowhere'}}", "/a: its reference leads nowhere"),
            ("paths: {'/a?b': {}}", "path \"/a?b\": `a?b` is not part of a path"),
            ("paths: {'/{}': {}}", "path \"/{}\": `{}` is not one parameter"),
            ("paths: {/a: {post: {x-idempotent: 1}}}", "POST /a: `x-idempotent` must be true or false"),
            (
                "paths: {'/a/{b}': {get: {}}, '/a/{c}': {get: {}}}",
                "ambiguous path: GET /a/{b} (GET /a/{b}) and GET /a/{c} (GET /a/{c}) are one",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(Table::from_openapi(text).unwrap_err().to_string(), message, "{text}");
        }
        // One of the two would be lost silently.
        assert!(Table::from_openapi("paths: {/a: {get: {}}, /a: {post: {}}}").is_err());
        assert!(Table::from_openapi("a: [").unwrap_err().to_string().starts_with("not a YAML document: "));
    }

    #[test]
    fn the_rust_it_writes_names_each_operation() {
        let loaded = Table::from_openapi(
            "paths: {'/a/{b}': {post: {operationId: c, x-idempotent: false, x-idempotent-reason: 'A \"b\".'}}}",
        )
        .unwrap();
        let rust = loaded.to_rust();
        assert!(rust.contains("[::oncebox_protocol::Operation; 1]"), "{rust}");
        assert!(rust.contains(r#"No(::std::borrow::Cow::Borrowed("A \"b\"."))"#), "{rust}");
    }
}
