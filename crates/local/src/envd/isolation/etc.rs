//! The few files of `/etc` a sandbox has: some written for it, some shown from the host.

use std::fs;
use std::path::Path;

use super::mounts::show_read_only;
use super::{IsolationError, Step, own};

/// Files and folders shown as the host has them, where it has them: what programs in `/usr` need to run, and nothing that
/// says who uses the machine. `/etc/ssl` as a whole is not among them, because it may hold private keys.
const SHOWN: [&str; 16] = [
    "alternatives",
    "bash.bashrc",
    "ca-certificates.conf",
    "debian_version",
    "fonts",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "os-release",
    "protocols",
    "services",
    "terminfo",
];

/// The same, below `/etc/ssl` and `/etc/pki`: certificates of authorities only.
const SHOWN_CERTIFICATES: [&str; 4] = ["ssl/certs", "ssl/openssl.cnf", "pki/tls/certs", "pki/ca-trust/extracted"];

/// Fills `etc`, the sandbox's `/etc`.
pub(super) fn fill(etc: &Path, hostname: &str) -> Result<(), IsolationError> {
    for (name, text) in written(hostname) {
        let file = etc.join(name);
        own::file(&file, text.as_bytes()).step(|| format!("writing {}", file.display()))?;
    }
    for name in SHOWN.iter().chain(&SHOWN_CERTIFICATES) {
        if let Some((parents, _)) = name.rsplit_once('/') {
            own::folder_below(etc, parents).step(|| format!("making room for /etc/{name} in the sandbox"))?;
        }
        show(&Path::new("/etc").join(name), &etc.join(name))?;
    }
    Ok(())
}

/// Names the machine's resolvers instead of none. Resolvers that the sandbox has chosen itself stay.
pub(super) fn resolvers(etc: &Path) -> Result<(), IsolationError> {
    let file = etc.join("resolv.conf");
    let what = || format!("writing {}", file.display());
    let is_file = fs::symlink_metadata(&file).is_ok_and(|metadata| metadata.is_file());
    if is_file && fs::read(&file).is_ok_and(|text| text == NO_RESOLVER.as_bytes()) {
        let text = fs::read("/etc/resolv.conf").unwrap_or_default();
        fs::write(&file, text).step(what)?;
    }
    Ok(())
}

/// Shows one path of the host, if it has it: a link as a link, a file or folder as a read-only mount.
fn show(source: &Path, target: &Path) -> Result<(), IsolationError> {
    let Ok(metadata) = fs::symlink_metadata(source) else { return Ok(()) };
    let what = || format!("making room for {} in the sandbox", source.display());
    if metadata.is_symlink() {
        let leads_to = fs::read_link(source).step(what)?;
        return own::link(&leads_to, target).step(what);
    }
    if metadata.is_dir() {
        own::folder(target).step(what)?;
    } else if metadata.is_file() {
        own::file(target, b"").step(what)?;
    } else {
        return Ok(());
    }
    show_read_only(source, target)
}

/// The files that are the same in every sandbox, but for its name.
///
/// One user exists. It is called `user` when asked for its name, because that is what commands run as by default.
fn written(hostname: &str) -> [(&'static str, String); 8] {
    [
        ("passwd", "user:x:0:0:user:/home/user:/bin/bash\nroot:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n".to_owned()),
        ("group", "user:x:0:\nroot:x:0:\nnogroup:x:65534:\n".to_owned()),
        ("hostname", format!("{hostname}\n")),
        ("hosts", format!("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 {hostname}\n")),
        ("nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n".to_owned()),
        ("resolv.conf", NO_RESOLVER.to_owned()),
        ("profile", PROFILE.to_owned()),
        ("shells", "/bin/sh\n/bin/bash\n".to_owned()),
    ]
}

const NO_RESOLVER: &str = "# This sandbox has a loopback interface only.\n";

/// Leaves PATH alone: commands bring theirs along, and login shells must keep it.
const PROFILE: &str = "\
umask 022
if [ -n \"${BASH_VERSION-}\" ] && [ \"${PS1-}\" ]; then
  [ -r /etc/bash.bashrc ] && . /etc/bash.bashrc
  PS1='\\u@\\h:\\w\\$ '
fi
if [ -d /etc/profile.d ]; then
  for script in /etc/profile.d/*.sh; do
    [ -r \"$script\" ] && . \"$script\"
  done
  unset script
fi
true
";
