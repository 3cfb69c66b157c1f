//! What sandboxes can be made from. There is one template so far: this machine's programs and an empty home.

use http::StatusCode;

use crate::refusal::Refusal;

/// The template's id and name.
pub(super) const BASE: &str = "base";

/// The id of the template that a name means: `base`, with the tag `default` if any, of whatever team.
pub(super) fn resolve(name: &str) -> Result<String, Refusal> {
    let without_team = name.rsplit_once('/').map_or(name, |(_, name)| name);
    match without_team.split_once(':') {
        None if without_team == BASE => Ok(BASE.to_owned()),
        Some((BASE, "default")) => Ok(BASE.to_owned()),
        _ => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            format!("template '{}' not found: the local server has the template '{BASE}'", name.escape_debug()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_base_template() {
        for name in ["base", "base:default", "e2b/base", "team/base:default"] {
            assert_eq!(resolve(name).unwrap(), "base", "{name}");
        }
        for name in ["", "base:latest", "other", "base/other"] {
            assert!(resolve(name).is_err(), "{name}");
        }
    }
}
