//! Options from flags, the environment and the configuration file, in that order; `oncebox config` tells which came whence.

mod environment;
mod file;
mod table;

use std::path::PathBuf;
use std::sync::OnceLock;

use clap::Args;
use oncebox::ClientBuilder;
use serde_json::json;

use crate::connection::ProviderArgs;
use crate::exit::{self, Failure};
use file::File;
use table::{SETTINGS, Setting};

/// The profile that the command line names.
static PROFILE: OnceLock<Option<String>> = OnceLock::new();

/// Keeps the profile that the command line names, for whoever needs the options.
pub(crate) fn choose(profile: Option<String>) {
    // There is one command line.
    let _ = PROFILE.set(profile);
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    provider: ProviderArgs,
}

/// A value and where it is from.
struct Found {
    value: String,
    from: Source,
}

/// Where a value is from, the strongest first.
enum Source {
    Flag(&'static str),
    Variable(&'static str),
    /// The file's table, `None`: its beginning.
    File(Option<String>),
    Default,
}

impl Source {
    fn words(&self) -> String {
        match self {
            Self::Flag(flag) => (*flag).to_owned(),
            Self::Variable(name) => (*name).to_owned(),
            Self::File(Some(profile)) => format!("the file's profile {profile:?}"),
            Self::File(None) => "the file".to_owned(),
            Self::Default => "default".to_owned(),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Flag(_) => "flag",
            Self::Variable(_) => "environment",
            Self::File(_) => "file",
            Self::Default => "default",
        }
    }
}

/// All that an option can come from.
struct Sources<'a> {
    flags: &'a ProviderArgs,
    file: File,
    profile: Option<String>,
}

impl<'a> Sources<'a> {
    fn new(flags: &'a ProviderArgs) -> Result<Self, Failure> {
        let file = File::read()?;
        let named = PROFILE.get().cloned().flatten().map(|name| ("--profile", name));
        let named = named.or_else(|| variable("ONCEBOX_PROFILE").map(|name| ("ONCEBOX_PROFILE", name)));
        let profile = file.profile(named)?;
        Ok(Self { flags, file, profile })
    }

    fn find(&self, setting: &Setting) -> Result<Option<Found>, Failure> {
        if let Some(found) = self.nearer(setting) {
            return Ok(Some(found));
        }
        // Addresses belong together: the file's say nothing beside others.
        let is_elsewhere = |other: &&Setting| other.is_address && self.nearer(other).is_some();
        if setting.is_address && SETTINGS.iter().any(|other| is_elsewhere(&other)) {
            return Ok(None);
        }
        let found = self.file.value(setting, self.profile.as_deref())?;
        Ok(found.map(|(value, profile)| Found { value, from: Source::File(profile) }))
    }

    /// From a flag or the environment.
    fn nearer(&self, setting: &Setting) -> Option<Found> {
        if let Some(flag) = setting.flag
            && let Some(value) = (setting.given)(self.flags)
        {
            return Some(Found { value, from: Source::Flag(flag) });
        }
        let name = setting.variable?;
        variable(name).map(|value| Found { value, from: Source::Variable(name) })
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Sets what flags, this command's own variables and the file say. The official SDKs' variables are read by the builder.
pub(crate) fn apply(flags: &ProviderArgs, mut builder: ClientBuilder) -> Result<ClientBuilder, Failure> {
    let sources = Sources::new(flags)?;
    for setting in &SETTINGS {
        let Some(Found { value, from }) = sources.find(setting)? else { continue };
        let is_the_builders = matches!(&from, Source::Variable(name) if name.starts_with("E2B_"));
        // What is wrong is told in the same words wherever it is from.
        let target = if is_the_builders { ClientBuilder::default() } else { std::mem::take(&mut builder) };
        let set = (setting.set)(target, &value).map_err(|rule| {
            let shown = if setting.is_secret { "its value".to_owned() } else { format!("{value:?}") };
            match &from {
                Source::File(_) => {
                    Failure::usage(format!("{} in {}: {shown}: {rule}", setting.name, sources.file.path.display()))
                }
                from => Failure::usage(format!("{} {shown}: {rule}", from.words())),
            }
        })?;
        if !is_the_builders {
            builder = set;
        }
    }
    Ok(builder)
}

/// What a library says of a setting by its name, said of what the user has given: a flag, a variable or the file.
pub(crate) fn by_its_source(flags: &ProviderArgs, message: &str) -> Option<String> {
    let (name, rest) = message.split_once(": ")?;
    let setting = SETTINGS.iter().find(|setting| setting.name == name)?;
    let sources = Sources::new(flags).ok()?;
    let found = sources.find(setting).ok()??;
    Some(match found.from {
        Source::File(_) => format!("{name} in {}: {rest}", sources.file.path.display()),
        from => format!("{}: {rest}", from.words()),
    })
}

/// Whether anything says what a setting is.
pub(crate) fn says(flags: &ProviderArgs, name: &str) -> Result<bool, Failure> {
    let sources = Sources::new(flags)?;
    match SETTINGS.iter().find(|setting| setting.name == name) {
        Some(setting) => Ok(sources.find(setting)?.is_some()),
        None => Ok(false),
    }
}

/// `oncebox config`
pub(crate) fn run(args: &ConfigArgs) -> Result<u8, Failure> {
    let sources = Sources::new(&args.provider)?;
    let (file, profile) = (&sources.file, sources.profile.as_deref());
    let mut rows = Vec::new();
    for setting in &SETTINGS {
        let found = sources.find(setting)?;
        let found = found.or_else(|| Some(Found { value: setting.default?.to_owned(), from: Source::Default }));
        rows.push((setting, found));
    }
    // A proxy of our own, or none, is instead of the environment's.
    let is_set = rows.iter().any(|(setting, found)| setting.name == "proxy" && found.is_some());
    let proxies = if is_set || args.provider.network.no_proxy {
        Vec::new()
    } else {
        environment::proxies(&|name| std::env::var(name).ok())
    };
    if args.json {
        let settings: Vec<_> = rows
            .iter()
            .map(|(setting, found)| {
                json!({
                    "name": setting.name,
                    "value": found.as_ref().map(|found| setting.shown(&found.value)),
                    "source": found.as_ref().map(|found| found.from.kind()),
                    "from": found.as_ref().map(|found| found.from.words()),
                    "flag": setting.flag,
                    "variable": setting.variable,
                })
            })
            .collect();
        let file = json!({"path": file.path, "exists": file.exists, "profiles": file.profiles()});
        let proxies: Vec<_> = proxies
            .iter()
            .map(|found| json!({"name": found.name, "value": found.value, "from": found.variable}))
            .collect();
        exit::print(json!({"file": file, "profile": profile, "settings": settings, "environment_proxies": proxies}))?;
        return Ok(0);
    }
    let state = if file.exists { String::new() } else { " (there is none)".to_owned() };
    exit::print(format!("file     {}{state}", file.path.display()))?;
    exit::print(format!("profile  {}\n", profile.unwrap_or("none")))?;
    exit::print(crate::style::Colour::Faint.paint(format!("{:<20} {:<36} FROM", "SETTING", "VALUE")))?;
    for (setting, found) in rows {
        let (value, from) = match &found {
            Some(found) => (setting.shown(&found.value), found.from.words()),
            None => ("-".to_owned(), "not set".to_owned()),
        };
        let from =
            if setting.name == "proxy" && args.provider.network.no_proxy { "--no-proxy".to_owned() } else { from };
        exit::print(format!("{:<20} {value:<36} {from}", setting.name))?;
    }
    for environment::Found { name, value, variable } in proxies {
        exit::print(format!("{name:<20} {value:<36} {variable}"))?;
    }
    Ok(0)
}

#[cfg(test)]
mod parity;

/// All settings: name, flag, variable, default.
#[cfg(test)]
pub(crate) fn settings()
-> impl Iterator<Item = (&'static str, Option<&'static str>, Option<&'static str>, Option<&'static str>)> {
    SETTINGS.iter().map(|setting| (setting.name, setting.flag, setting.variable, setting.default))
}

/// Where the file is.
fn path() -> PathBuf {
    if let Some(path) = variable("ONCEBOX_CONFIG") {
        return path.into();
    }
    let base = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.unwrap_or_else(|| PathBuf::from(variable("HOME").unwrap_or_default()).join(".config"));
    base.join("oncebox/config.toml")
}
