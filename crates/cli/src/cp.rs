//! `oncebox cp`: files and directories into a sandbox, and out of it.

use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use oncebox::{Client, EntryKind, Error, ErrorKind, Files, Sandbox, TransferProgress, Transferred};
use serde_json::json;

use crate::args::sandbox_id;
use crate::connection::ProviderArgs;
use crate::exit::{self, Failure};
use crate::signals::Signals;

/// One of the two is in a sandbox: ID:PATH. A path of this machine that looks so is written with ./ before it.
#[derive(Debug, Args)]
pub(crate) struct CpArgs {
    /// What to copy: a file, or a directory with all that is below it
    #[arg(value_name = "FROM")]
    from: String,
    /// Where to; into it, where it is a directory that exists, or ends with a slash
    #[arg(value_name = "TO")]
    to: String,
    /// Of a directory copy only files that match this glob, such as **/*.py; may be repeated
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Of a directory leave out what matches this glob, with all below it; may be repeated
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// As which user of the sandbox
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Print one JSON object when it is done
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    provider: ProviderArgs,
}

/// Where one end is.
enum Place<'a> {
    Here(&'a Path),
    In { sandbox: &'a str, path: &'a str },
}

impl<'a> Place<'a> {
    fn of(text: &'a str) -> Self {
        match text.split_once(':') {
            // Drives of Windows have one letter.
            Some((sandbox, path)) if sandbox.len() > 1 && sandbox_id(sandbox).is_ok() => Self::In { sandbox, path },
            _ => Self::Here(Path::new(text)),
        }
    }
}

/// What is wrong with what looks like a sandbox's id and is none.
fn slip(args: &CpArgs) -> String {
    let before = [&args.from, &args.to].into_iter().filter_map(|text| text.split_once(':')).map(|(before, _)| before);
    let near = before.filter(|id| id.len() > 1 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
    let wrong = near.filter_map(|id| Some(format!("; {id:?}: {}", sandbox_id(id).err()?))).next();
    wrong.unwrap_or_default()
}

pub(crate) async fn run(args: CpArgs) -> Result<u8, Failure> {
    let rule = "one of FROM and TO must be in a sandbox, as ID:PATH, and the other on this machine";
    let (sandbox, up) = match (Place::of(&args.from), Place::of(&args.to)) {
        (Place::Here(from), Place::In { sandbox, path }) => (sandbox, Some((from, path))),
        (Place::In { sandbox, .. }, Place::Here(_)) => (sandbox, None),
        _ => return Err(Failure::usage(format!("{:?} and {:?}: {rule}{}", args.from, args.to, slip(&args)))),
    };
    if let Some((from, _)) = up
        && let Err(error) = std::fs::metadata(from)
    {
        return Err(Failure::unreadable("FROM", from, &error));
    }
    let mut signals = Signals::new()?;
    let client = args.provider.client(args.json)?;
    let bar = bar(&args);
    let done = tokio::select! {
        done = copy(&client, sandbox, up, &args, &bar) => done,
        signal = signals.next() => {
            bar.finish_and_clear();
            return Ok(exit::SIGNAL.saturating_add(signal));
        }
    };
    bar.finish_and_clear();
    let done = done.map_err(|error| Failure::of(&error, args.json))?;
    if args.json {
        exit::print(json!({"files": done.files, "bytes": done.bytes, "skipped": done.skipped}))?;
    } else {
        for skipped in &done.skipped {
            exit::say(format!("{}: left out, since it is neither a file nor a directory", skipped.display()));
        }
    }
    Ok(0)
}

async fn copy(
    client: &Client,
    sandbox: &str,
    up: Option<(&Path, &str)>,
    args: &CpArgs,
    bar: &ProgressBar,
) -> Result<Transferred, Error> {
    let sandbox = Sandbox::connect(client, sandbox).await?;
    let mut files = sandbox.files();
    if let Some(user) = &args.user {
        files = files.user(user);
    }
    match (up, Place::of(&args.from), Place::of(&args.to)) {
        (Some((from, to)), ..) => copy_up(&files, from, to, args, bar).await,
        (None, Place::In { path, .. }, Place::Here(to)) => copy_down(&files, path, to, args, bar).await,
        _ => Ok(Transferred::default()),
    }
}

async fn copy_up(
    files: &Files<'_>,
    from: &Path,
    to: &str,
    args: &CpArgs,
    bar: &ProgressBar,
) -> Result<Transferred, Error> {
    let name = from.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let into = to.is_empty() || to.ends_with('/') || is_directory(files, to).await?;
    let to = match name.filter(|_| into) {
        Some(name) => format!("{to}{}{name}", if to.is_empty() || to.ends_with('/') { "" } else { "/" }),
        None => to.to_owned(),
    };
    if from.is_dir() {
        let shown = bar.clone();
        let mut upload = files.upload_dir(from, to).progress(move |progress| show(&shown, progress));
        for glob in &args.include {
            upload = upload.include(glob);
        }
        for glob in &args.exclude {
            upload = upload.exclude(glob);
        }
        return upload.await;
    }
    let mut bytes = 0;
    files
        .upload(from, &to, |now, of| {
            bytes = of;
            show_bytes(bar, now, Some(of));
        })
        .await?;
    Ok(one(bytes))
}

async fn copy_down(
    files: &Files<'_>,
    from: &str,
    to: &Path,
    args: &CpArgs,
    bar: &ProgressBar,
) -> Result<Transferred, Error> {
    let from = if from.is_empty() { "." } else { from };
    let entry = files.info(from).await?;
    let into = to.is_dir() || to.as_os_str().to_string_lossy().ends_with('/');
    let to: PathBuf = if into { to.join(&entry.name) } else { to.to_owned() };
    if entry.kind == EntryKind::Directory {
        let shown = bar.clone();
        let mut download = files.download_dir(entry.path, to).progress(move |progress| show(&shown, progress));
        for glob in &args.include {
            download = download.include(glob);
        }
        for glob in &args.exclude {
            download = download.exclude(glob);
        }
        return download.await;
    }
    files.download(from, &to, |now, of| show_bytes(bar, now, of)).await.map(one)
}

async fn is_directory(files: &Files<'_>, path: &str) -> Result<bool, Error> {
    match files.info(path).await {
        Ok(entry) => Ok(entry.kind == EntryKind::Directory),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn one(bytes: u64) -> Transferred {
    let mut done = Transferred::default();
    (done.files, done.bytes) = (1, bytes);
    done
}

/// On a terminal only: `indicatif` draws nothing elsewhere.
fn bar(args: &CpArgs) -> ProgressBar {
    if args.json {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {msg} {eta}") {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, progress: &TransferProgress) {
    show_bytes(bar, progress.bytes, progress.total_bytes);
    if let Some(total) = progress.total_files {
        bar.set_message(format!("{}/{total} files", progress.files));
    }
}

fn show_bytes(bar: &ProgressBar, now: u64, of: Option<u64>) {
    if let Some(of) = of {
        bar.set_length(of);
    }
    bar.set_position(now);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_named_before_its_path() {
        for (text, expected) in [
            ("i1abc:x/y", Some(("i1abc", "x/y"))),
            ("i1:", Some(("i1", ""))),
            ("i1:a:b", Some(("i1", "a:b"))),
            ("i1-6532622b:x", Some(("i1-6532622b", "x"))),
        ] {
            let Place::In { sandbox, path } = Place::of(text) else { panic!("{text}") };
            assert_eq!(Some((sandbox, path)), expected);
        }
        for here in ["x", "./i1:x", "/a:b", "c:\\x", "A1:x", "../i1:x", "i1-copy:x"] {
            assert!(matches!(Place::of(here), Place::Here(path) if path == Path::new(here)), "{here}");
        }
    }
}
