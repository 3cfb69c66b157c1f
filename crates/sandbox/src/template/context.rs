//! The files that a recipe copies: found, hashed, and packed.

mod hash;
mod ignore;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::NamedTempFile;
use walkdir::WalkDir;

use super::CopyFiles;
use crate::error::Error;

use hash::{Exactly, Hashed, StepHash};
use ignore::{Ignore, itself_and_parents, matcher, plain};

/// The files of one step.
pub(super) struct Files {
    found: Vec<Found>,
    /// Before the first file.
    begun: StepHash,
    /// 64 hexadecimal digits over names, modes and contents.
    pub(super) hash: String,
}

struct Found {
    /// Below the context, with slashes.
    name: String,
    path: PathBuf,
    kind: Kind,
    mode: u32,
    /// The step's hash up to here, by which a file is known to have changed since.
    hashed: [u8; 32],
}

enum Kind {
    File { size: u64 },
    Directory,
    Link { target: PathBuf },
}

/// Finds and hashes what a step copies. Blocks.
///
/// # Errors
///
/// [`InvalidArgument`](crate::ErrorKind::InvalidArgument): that nothing matches, what cannot be read, and what is neither
/// a file nor a directory nor a link.
pub(super) fn find(context: &Path, ignored: &[String], copy: &CopyFiles) -> Result<Files, Error> {
    let ignore = Ignore::read(context, ignored)?;
    let from = plain(&copy.from);
    let wanted = matcher(&from)?;
    let mut found = Vec::new();
    let start = start(context, &from, copy.follow_links);
    let depth = usize::from(start == context);
    let walk =
        WalkDir::new(start).min_depth(depth).follow_links(copy.follow_links).follow_root_links(copy.follow_links);
    let walk = walk.sort_by_file_name();
    let walk = walk.into_iter().filter_entry(|entry| !ignore.prunes(&relative(context, entry.path())));
    for entry in walk {
        let entry = entry.map_err(|error| unreadable(&error))?;
        let name = relative(context, entry.path());
        if !(from.is_empty() || itself_and_parents(&name).any(|path| wanted.is_match(path))) || ignore.excludes(&name) {
            continue;
        }
        let metadata = entry.metadata().map_err(|error| unreadable(&error))?;
        let kind = if metadata.is_symlink() {
            let target = fs::read_link(entry.path());
            Kind::Link { target: target.map_err(|error| unreadable_at(entry.path(), &error))? }
        } else if metadata.is_dir() {
            Kind::Directory
        } else if metadata.is_file() {
            Kind::File { size: metadata.len() }
        } else {
            let path = entry.path().display();
            return Err(Error::invalid(format!("copy: {path} is neither a file nor a directory nor a link")));
        };
        found.push(Found { name, path: entry.into_path(), kind, mode: mode(&metadata), hashed: [0; 32] });
    }
    if found.is_empty() {
        let context = context.display();
        return Err(Error::invalid(format!(
            "copy: nothing in {context} matches {:?}, or all of it is ignored",
            copy.from
        )));
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    // The context itself counts where all of it is copied.
    let root = match from.as_str() {
        "" => Some(fs::metadata(context).map_err(|error| unreadable_at(context, &error))?),
        _ => None,
    };
    let begun = StepHash::begin(copy, root.as_ref());
    let mut hash = begun.clone();
    for found in &mut found {
        hash.add(found);
        if let Kind::File { size } = found.kind {
            let content = File::open(&found.path).and_then(|file| {
                let mut content = Hashed { file: Exactly { file, left: size }, hash: &mut hash };
                io::copy(&mut content, &mut io::sink())
            });
            content.map_err(|error| unreadable_at(&found.path, &error))?;
        }
        found.hashed = hash.so_far();
    }
    let hash = hash.so_far().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Files { found, begun, hash })
}

impl Files {
    /// Packs them into a file that is gone with what is returned. Blocks.
    pub(super) fn pack(&self, gzip: bool) -> Result<(NamedTempFile, u64), Error> {
        let packed = (|| {
            let mut file = NamedTempFile::new()?;
            if gzip {
                let mut encoder = GzEncoder::new(file.as_file_mut(), Compression::default());
                self.write(&mut encoder)?;
                encoder.finish()?;
            } else {
                self.write(file.as_file_mut())?;
            }
            let length = file.as_file().metadata()?.len();
            Ok((file, length))
        })();
        packed.map_err(|error: io::Error| Error::invalid(format!("copy: the files could not be packed: {error}")))
    }

    fn write(&self, to: impl Write) -> io::Result<()> {
        let mut archive = tar::Builder::new(to);
        let mut hash = self.begun.clone();
        for found in &self.found {
            hash.add(found);
            let mut header = tar::Header::new_gnu();
            header.set_mode(found.mode);
            // Nothing of this machine: whose they are is for the step to say.
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(0);
            match &found.kind {
                Kind::File { size } => {
                    header.set_entry_type(tar::EntryType::Regular);
                    header.set_size(*size);
                    // Not more than was hashed, and an error if it is less.
                    let file = Exactly { file: File::open(&found.path)?, left: *size };
                    archive.append_data(&mut header, &found.name, Hashed { file, hash: &mut hash })?;
                }
                Kind::Directory => {
                    header.set_entry_type(tar::EntryType::Directory);
                    header.set_size(0);
                    archive.append_data(&mut header, &found.name, io::empty())?;
                }
                Kind::Link { target } => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    header.set_size(0);
                    archive.append_link(&mut header, &found.name, target)?;
                }
            }
            // The server keeps it under the hash, for all that is built later.
            if hash.so_far() != found.hashed {
                let path = found.path.display();
                return Err(io::Error::other(format!("{path} has changed since it was looked at; build again")));
            }
        }
        archive.finish()
    }
}

/// Where to begin, so that a context's other directories are not walked through for one file. Never beyond a link that is not
/// followed.
fn start(context: &Path, from: &str, follow_links: bool) -> PathBuf {
    let mut start = context.to_owned();
    for part in from.split('/').take_while(|part| !part.is_empty() && !part.contains(['*', '?', '[', '{', '\\'])) {
        let is_link = fs::symlink_metadata(&start).is_ok_and(|metadata| metadata.is_symlink());
        if is_link && !follow_links && start != context {
            break;
        }
        let next = start.join(part);
        if fs::symlink_metadata(&next).is_err() {
            break;
        }
        start = next;
    }
    start
}

fn relative(context: &Path, path: &Path) -> String {
    let parts = path.strip_prefix(context).unwrap_or(path).components();
    parts.map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

#[cfg(unix)]
fn mode(metadata: &fs::Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o7777
}

#[cfg(not(unix))]
fn mode(metadata: &fs::Metadata) -> u32 {
    if metadata.is_dir() { 0o755 } else { 0o644 }
}

fn unreadable(error: &walkdir::Error) -> Error {
    Error::invalid(format!("copy: {error}"))
}

fn unreadable_at(path: &Path, error: &io::Error) -> Error {
    Error::invalid(format!("copy: {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use sha2::{Digest, Sha256};

    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        directory
    }

    fn names(directory: &tempfile::TempDir, from: &str, ignored: &[&str]) -> Vec<String> {
        let ignored: Vec<String> = ignored.iter().map(|&pattern| pattern.to_owned()).collect();
        let files = find(directory.path(), &ignored, &CopyFiles::new(from, "/to")).unwrap();
        files.found.iter().map(|found| found.name.clone()).collect()
    }

    #[test]
    fn what_matches_is_found_with_all_below_it() {
        let tree = tree(&[("a.txt", "1"), ("b.rs", "2"), ("d/a.txt", "3"), ("d/e/f", "4")]);
        assert_eq!(names(&tree, "a.txt", &[]), ["a.txt"]);
        assert_eq!(names(&tree, "./d/", &[]), ["d", "d/a.txt", "d/e", "d/e/f"]);
        assert_eq!(names(&tree, "*.txt", &[]), ["a.txt"]);
        assert_eq!(names(&tree, "**/*.txt", &[]), ["a.txt", "d/a.txt"]);
        assert_eq!(names(&tree, ".", &[]).len(), 6);
        let error = find(tree.path(), &[], &CopyFiles::new("none", "/to")).err().unwrap().to_string();
        assert!(error.contains("matches \"none\""), "{error}");
    }

    #[test]
    fn what_is_ignored_is_left_out_and_the_last_pattern_decides() {
        let tree = tree(&[
            (".dockerignore", "# comment\n\n.dockerignore\n*.log\n/d/\n!d/keep\n"),
            ("x.log", ""),
            ("y", ""),
            ("d/a", ""),
            ("d/keep", ""),
            ("n/x.log", ""),
        ]);
        // As in Docker, `*.log` is of the root only, and a kept file's directory goes without saying.
        assert_eq!(names(&tree, ".", &[]), ["d/keep", "n", "n/x.log", "y"]);
        assert_eq!(names(&tree, ".", &["**/*.log", "d"]), ["n", "y"]);
    }

    #[test]
    fn a_hash_tells_names_modes_contents_and_targets_apart() {
        let one = tree(&[("a", "1")]);
        let hash =
            |tree: &tempfile::TempDir, from: &str| find(tree.path(), &[], &CopyFiles::new(from, "/t")).unwrap().hash;
        let before = hash(&one, "a");
        assert_eq!((before.len(), &before), (64, &hash(&one, "a")));
        assert_ne!(before, hash(&tree(&[("a", "2")]), "a"));
        assert_ne!(before, hash(&tree(&[("b", "1")]), "b"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::{PermissionsExt, symlink};
            fs::set_permissions(one.path().join("a"), fs::Permissions::from_mode(0o700)).unwrap();
            assert_ne!(before, hash(&one, "a"));
            symlink("x", one.path().join("l")).unwrap();
            let to_x = hash(&one, "l");
            fs::remove_file(one.path().join("l")).unwrap();
            symlink("y", one.path().join("l")).unwrap();
            assert_ne!(to_x, hash(&one, "l"));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_hash_is_the_official_one() {
        use std::os::unix::fs::PermissionsExt;
        let tree = tree(&[("a.txt", "content")]);
        fs::set_permissions(tree.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(tree.path().join("a.txt"), fs::Permissions::from_mode(0o640)).unwrap();
        let file = "a.txt331847content";
        for (from, hashed) in [("a.txt", format!("COPY a.txt /t{file}")), (".", format!("COPY . /t.16877{file}"))] {
            let expected: String = Sha256::digest(&hashed).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(find(tree.path(), &[], &CopyFiles::new(from, "/t")).unwrap().hash, expected, "{from}");
        }
    }

    #[test]
    fn an_archive_holds_what_was_found_under_the_same_names() {
        let tree = tree(&[("d/a b", "content"), ("d/e/f", "")]);
        for gzip in [true, false] {
            let files = find(tree.path(), &[], &CopyFiles::new("d", "/to")).unwrap();
            let (packed, length) = files.pack(gzip).unwrap();
            let bytes = fs::read(packed.path()).unwrap();
            assert_eq!(bytes.len() as u64, length);
            let plain: Box<dyn Read> = match gzip {
                true => Box::new(flate2::read::GzDecoder::new(&bytes[..])),
                false => Box::new(&bytes[..]),
            };
            let mut archive = tar::Archive::new(plain);
            let mut held = Vec::new();
            for entry in archive.entries().unwrap() {
                let mut entry = entry.unwrap();
                let mut content = String::new();
                entry.read_to_string(&mut content).unwrap();
                held.push((entry.path().unwrap().display().to_string(), content));
            }
            let expected = [("d", ""), ("d/a b", "content"), ("d/e", ""), ("d/e/f", "")];
            assert_eq!(held, expected.map(|(name, content)| (name.to_owned(), content.to_owned())));
        }
    }

    #[test]
    fn a_file_that_changes_between_its_hash_and_its_packing_is_not_sent_under_the_old_hash() {
        let tree = tree(&[("d/a", "12345"), ("d/b", "12345"), ("d/c", "12345")]);
        let files = find(tree.path(), &[], &CopyFiles::new("d", "/to")).unwrap();
        assert!(files.pack(true).is_ok());
        for (changed, words) in [("12346", "d/b has changed since"), ("123", "shorter while it was read")] {
            fs::write(tree.path().join("d/b"), changed).unwrap();
            let error = files.pack(true).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        // What was added behind it is not sent.
        fs::write(tree.path().join("d/b"), "123456").unwrap();
        assert!(files.pack(false).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_kept_or_followed_and_a_pipe_is_refused() {
        use std::os::unix::fs::symlink;
        let tree = tree(&[("a", "1")]);
        symlink("a", tree.path().join("l")).unwrap();
        let find = |follow| find(tree.path(), &[], &CopyFiles::new("l", "/to").resolve_symlinks(follow)).unwrap();
        assert!(matches!(&find(false).found[0].kind, Kind::Link { target } if target == Path::new("a")));
        assert!(matches!(find(true).found[0].kind, Kind::File { size: 1 }));
        let socket = std::os::unix::net::UnixListener::bind(tree.path().join("s")).unwrap();
        let error = super::find(tree.path(), &[], &CopyFiles::new("s", "/to")).err().unwrap().to_string();
        assert!(error.contains("neither a file"), "{error}");
        drop(socket);
    }
}
