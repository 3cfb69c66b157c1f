//! The configuration file: values for all, and tables of values by the name of a profile.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use toml::{Table, Value};

use super::table::{SETTINGS, Setting};
use crate::bounded::read_text;
use crate::exit::{Failure, say};

/// The largest file that is read.
const MAX_FILE: u64 = 1 << 20;

/// A configuration file, or none.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) exists: bool,
    table: Table,
}

impl File {
    pub(super) fn read() -> Result<Self, Failure> {
        let path = super::path();
        match fs::File::open(&path).and_then(|file| read_text(file, MAX_FILE)) {
            Ok(text) => {
                let table = parse(&text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
                let file = Self { path, exists: true, table };
                file.warn();
                Ok(file)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self { path, ..Self::default() }),
            Err(error) => {
                let why = error.to_string();
                let why = why.split(" (os error").next().unwrap_or_default();
                Err(Failure::usage(format!("{}: {why}; ONCEBOX_CONFIG names another file", path.display())))
            }
        }
    }

    /// Others should not read keys.
    fn warn(&self) {
        use std::os::unix::fs::PermissionsExt;

        let keeps_secrets = SETTINGS.iter().any(|setting| {
            let tables = self.profiles().into_iter().map(|name| self.table_of(Some(&name)));
            let mut values = tables.chain([self.table_of(None)]).flatten().filter_map(|table| table.get(setting.name));
            // What is shown otherwise than it is has something to hide.
            values.any(|value| setting.is_secret || text(value).is_some_and(|value| setting.shown(&value) != value))
        });
        let mode = fs::metadata(&self.path).map_or(0, |metadata| metadata.permissions().mode());
        if keeps_secrets && mode & 0o077 != 0 {
            let path = self.path.display();
            say(format!("{path} holds a key, and other users can read it: `chmod 600 {path}`"));
        }
    }

    /// The names of the profiles that there are.
    pub(super) fn profiles(&self) -> Vec<String> {
        let profiles = self.table.get("profiles").and_then(Value::as_table);
        profiles.map(|profiles| profiles.keys().cloned().collect()).unwrap_or_default()
    }

    /// The profile to use: the one that is named, and by what, or the file's own choice.
    pub(super) fn profile(&self, named: Option<(&str, String)>) -> Result<Option<String>, Failure> {
        let own = self.table.get("profile").and_then(Value::as_str);
        let path = self.path.display().to_string();
        let Some((by, name)) = named.or_else(|| own.map(|name| (path.as_str(), name.to_owned()))) else {
            return Ok(None);
        };
        let known = self.profiles();
        if known.contains(&name) {
            return Ok(Some(name));
        }
        let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
        Err(Failure::usage(format!(
            "{by}: {path} has no profile {name:?}; {known}. A profile is a table [profiles.NAME]"
        )))
    }

    /// A value, and the profile that it is from.
    pub(super) fn value(
        &self,
        setting: &Setting,
        profile: Option<&str>,
    ) -> Result<Option<(String, Option<String>)>, Failure> {
        for from in [profile, None] {
            if let Some(value) = self.table_of(from).and_then(|table| table.get(setting.name)) {
                return Ok(Some((text(value).unwrap_or_default(), from.map(str::to_owned))));
            }
        }
        Ok(None)
    }

    fn table_of(&self, profile: Option<&str>) -> Option<&Table> {
        match profile {
            Some(name) => self.table.get("profiles")?.as_table()?.get(name)?.as_table(),
            None => Some(&self.table),
        }
    }
}

fn parse(text: &str) -> Result<Table, String> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string().trim_end().to_owned())?;
    check(&table, "", &["profile", "profiles"])?;
    match table.get("profile") {
        Some(Value::String(_)) | None => {}
        Some(other) => {
            return Err(format!("profile is {}: it must be the name of a profile, in quotes", other.type_str()));
        }
    }
    let Some(profiles) = table.get("profiles") else { return Ok(table) };
    let profiles = profiles.as_table().ok_or("profiles must be tables, such as [profiles.work]")?;
    for (name, profile) in profiles {
        let profile = profile.as_table().ok_or_else(|| format!("profiles.{name} must be a table"))?;
        check(profile, &format!("profiles.{name}."), &[])?;
    }
    Ok(table)
}

/// What is misspelt would silently have no effect.
fn check(table: &Table, place: &str, more: &[&str]) -> Result<(), String> {
    for (name, value) in table {
        if more.contains(&name.as_str()) {
            continue;
        }
        if !SETTINGS.iter().any(|setting| setting.name == name) {
            let known: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
            return Err(format!("{place}{name}: there is no such setting; there are {}", known.join(", ")));
        }
        if self::text(value).is_none() {
            return Err(format!("{place}{name} must be a text or a number"));
        }
    }
    Ok(())
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_comes_before_what_is_for_all() {
        let table = parse("retries = 1\ndomain = \"all\"\n[profiles.work]\ndomain = \"work\"\n").unwrap();
        let file = File { table, ..File::default() };
        let value = |name: &str, profile| {
            let setting = SETTINGS.iter().find(|setting| setting.name == name).unwrap();
            file.value(setting, profile).unwrap()
        };
        assert_eq!(value("domain", Some("work")), Some(("work".into(), Some("work".into()))));
        assert_eq!(value("domain", None), Some(("all".into(), None)));
        assert_eq!(value("retries", Some("work")), Some(("1".into(), None)));
        assert_eq!(value("api_url", None), None);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, words) in [
            ("domian = \"x\"", "domian: there is no such setting; there are api_key, domain"),
            ("[profiles.work]\nretry = 1", "profiles.work.retry: there is no such setting"),
            ("retries = true", "retries must be a text or a number"),
            ("profiles = 1", "profiles must be tables"),
            ("profile = 1", "profile is integer"),
            ("domain = ", "line 1"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_profile_that_is_not_there_is_told_with_those_that_are() {
        let table = parse("profile = \"work\"\n[profiles.work]\n[profiles.home]\n").unwrap();
        let file = File { table, ..File::default() };
        assert_eq!(file.profile(None).unwrap().as_deref(), Some("work"));
        assert_eq!(file.profile(Some(("--profile", "home".into()))).unwrap().as_deref(), Some("home"));
        assert!(file.profile(Some(("--profile", "x".into()))).is_err());
        assert_eq!(File::default().profile(None).unwrap(), None);
    }
}
