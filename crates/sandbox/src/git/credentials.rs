//! Credentials on their way to git: by its standard input into a pipe that its credential helper reads.
//!
//! They are in no argument and in no environment variable, since both are told by the sandbox's process list, and in no file.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use oncebox_protocol::SecretString;
use url::Url;

use super::Git;
use crate::commands::CommandOutput;
use crate::error::{Error, ErrorKind};

/// Reads a name and a password, and becomes the program that its arguments are. As often as that asks, descriptor 9 gives both.
const FEED: &str = r#"IFS= read -r u && IFS= read -r p || exit 125
exec 9< <(exec 2>/dev/null; while printf 'username=%s\npassword=%s\n\n' "$u" "$p"; do :; done) || exit 125
exec "$@" < /dev/null"#;

/// What git asks: gives what descriptor 9 has, up to an empty line.
const HELPER: &str =
    r#"!f() { [ "$1" = get ] || return 0; while IFS= read -r l <&9 && [ -n "$l" ]; do printf '%s\n' "$l"; done; }; f"#;

/// Has git's own helper store them, in the file that is the first argument, or where it does by itself for an empty one.
const STORE: &str = r#"IFS= read -r u && IFS= read -r p || exit 125
printf 'protocol=%s\nhost=%s\nusername=%s\npassword=%s\n' "$2" "$3" "$u" "$p" |
git credential-store ${1:+--file "$1"} store"#;

/// A user name and a password, or a token in its place.
#[derive(Clone)]
pub(super) struct Credentials {
    username: String,
    password: SecretString,
}

impl Credentials {
    pub(super) fn new(username: &str, password: &str) -> Result<Self, Error> {
        for (what, text) in [("username", username), ("password", password)] {
            if text.is_empty() {
                return Err(Error::invalid(format!("{what}: it is empty; give both, or none")));
            }
            if text.contains(['\n', '\r', '\0']) {
                // The text itself stays out of the message.
                return Err(Error::invalid(format!("{what}: it holds a line break or NUL, which git cannot be told")));
            }
        }
        Ok(Self { username: username.to_owned(), password: password.into() })
    }

    /// An error that does not tell them: as they are, or as they are sent to git's input.
    fn out_of(&self, error: Error) -> Error {
        error.without(self.password.expose()).without(&BASE64_STANDARD.encode(self.lines()))
    }

    pub(super) fn lines(&self) -> String {
        format!("{}\n{}\n", self.username, self.password.expose())
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Git<'_> {
    /// Runs git with credentials for the server of `url`, and for no other.
    pub(super) async fn run_as(
        &self,
        action: &str,
        credentials: Option<&Credentials>,
        url: Option<&Url>,
        args: &[&str],
    ) -> Result<CommandOutput, Error> {
        let (Some(credentials), Some(url)) = (credentials, url) else { return self.run(action, args).await };
        let helper = format!("credential.{}.helper={HELPER}", origin(url));
        let command = self.command("/bin/bash").args(["-c", FEED, "git"]);
        // The first one takes away those that are configured: they would be told the password, and keep it.
        let command = command.args(["git", "-c", "credential.helper=", "-c", &helper]).args(args.iter().copied());
        let run = async {
            let output = self.to_end(action, command, Some(credentials)).await?;
            match output.exit_code() {
                0 => Ok(output),
                125 | 127 => Err(no_feed(action, &output)),
                _ => Err(super::run::failed(action, &output)),
            }
        };
        run.await.map_err(|error: Error| credentials.out_of(error))
    }

    /// Has git's own helper keep credentials in the user's home.
    pub(super) async fn store_credentials(
        &self,
        credentials: &Credentials,
        host: &str,
        protocol: &str,
    ) -> Result<(), Error> {
        self.set_config("credential.helper", "store", super::GitScope::Global).await?;
        self.store_in("", credentials, host, protocol).await.map_err(Error::partly)
    }

    /// Has git's own helper keep credentials in the folder of a repository, and use them there.
    pub(super) async fn store_in_repository(
        &self,
        path: &str,
        credentials: &Credentials,
        url: &Url,
    ) -> Result<(), Error> {
        let git =
            self.run("find the repository's folder", &super::at(path, &["rev-parse", "--absolute-git-dir"])?).await?;
        let file = format!("{}/credentials", git.stdout_text().trim_end_matches('\n'));
        self.store_in(&file, credentials, &host(url), url.scheme()).await?;
        let helper = format!("store --file={}", crate::shell::quote(&file));
        let key = format!("credential.{}.helper", origin(url));
        self.set_config(&key, &helper, super::GitScope::Local(path)).await.map(drop).map_err(Error::partly)
    }

    async fn store_in(&self, file: &str, credentials: &Credentials, host: &str, protocol: &str) -> Result<(), Error> {
        const ACTION: &str = "store the credentials";
        let command = self.command("/bin/bash").args(["-c", STORE, "git", file, protocol, host]);
        let stored = self.to_end(ACTION, command, Some(credentials)).await;
        let stored = stored.and_then(|output| match output.exit_code() {
            0 => Ok(()),
            125 | 127 => Err(no_feed(ACTION, &output)),
            _ => Err(super::run::failed(ACTION, &output)),
        });
        stored.map_err(|error| credentials.out_of(error))
    }
}

fn no_feed(action: &str, output: &CommandOutput) -> Error {
    let message = format!("git could not be given the credentials: {}", output.stderr_text().trim());
    Error::new(ErrorKind::Unsupported, action, message)
}

/// Scheme, host and port.
fn origin(url: &Url) -> String {
    format!("{}://{}", url.scheme(), host(url))
}

fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn is_http(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, _)| {
        let scheme = scheme.trim_start();
        scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
    })
}

/// Whether its host may stand behind what ends one: what is taken for a port is then the beginning of a password.
fn goes_on_behind(url: &Url) -> bool {
    [url.fragment(), url.query()].into_iter().flatten().any(|rest| rest.contains('@'))
}

/// Whether it names a scheme, and a password before its host.
fn has_password(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else { return false };
    match Url::parse(text.trim()) {
        Ok(url) => url.password().is_some_and(|password| !password.is_empty()) || goes_on_behind(&url),
        // Up to the last @: it may hold what ends a host.
        Err(_) => rest.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')),
    }
}

/// What git pushes to or pulls from: a remote's name, or a URL without credentials.
pub(super) fn check_remote(remote: &str) -> Result<&str, Error> {
    match split(remote) {
        Ok((_, _, None)) => super::run::check("remote", remote),
        _ => Err(Error::invalid(
            "remote: it holds a password or a token, which would be in the sandbox's list of processes; give credentials",
        )),
    }
}

fn unreadable() -> Error {
    Error::invalid(
        "url: it cannot be read as a URL; in a name or a password \"#\" is %23, \"/\" is %2F, \"?\" is %3F, \"@\" is %40",
    )
}

/// A remote's URL, and the credentials that it holds, which are taken out of it.
pub(super) fn split(text: &str) -> Result<(String, Option<Url>, Option<Credentials>), Error> {
    let url = match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => url,
        // It may hold a password, which git would be given, and repeat.
        Err(_) if is_http(text) => return Err(unreadable()),
        // Of no other scheme is it known how git could be given it otherwise than in an argument.
        _ if has_password(text) => {
            return Err(Error::invalid(
                "url: a password can be used with http and https alone; it would be in the sandbox's list of processes and in \
                 its configuration",
            ));
        }
        // A path, an ssh URL, or what git alone understands.
        _ => return Ok((text.to_owned(), None, None)),
    };
    if goes_on_behind(&url) {
        return Err(unreadable());
    }
    let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let name = decode(url.username());
    let credentials = match (url.password(), user_of_token(&name)) {
        (Some(password), _) => Credentials::new(&name, &decode(password))?,
        // Git would keep it, as it keeps names.
        (None, Some(user)) => Credentials::new(user, &name)?,
        (None, None) => return Ok((text.to_owned(), Some(url), None)),
    };
    let mut plain = url.clone();
    // Fails only for URLs without a host.
    let _ = plain.set_username("");
    let _ = plain.set_password(None);
    Ok((plain.to_string(), Some(plain), Some(credentials)))
}

/// What tokens begin with, and the user that a server takes them from, where they are passwords.
const TOKENS: [(&str, &str); 11] = [
    ("ghp_", "x-access-token"),
    ("gho_", "x-access-token"),
    ("ghu_", "x-access-token"),
    ("ghs_", "x-access-token"),
    ("github_pat_", "x-access-token"),
    ("glpat-", "oauth2"),
    ("gloas-", "oauth2"),
    ("gldt-", "oauth2"),
    ("glcbt-", "oauth2"),
    ("ATBB", "x-token-auth"),
    ("ATCTT3", "x-token-auth"),
];

/// The least that follows such a beginning; names of people that begin so are shorter.
const SHORTEST_TOKEN: usize = 16;

/// Whether a user's name is a token, in one of the forms that servers give theirs: the user to name in its place.
fn user_of_token(name: &str) -> Option<&'static str> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.=-".contains(&byte);
    // Gitea's, and GitHub's before 2021.
    if name.len() == 40 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Some("x-access-token");
    }
    let of = |&(begin, _): &(&str, &str)| {
        name.strip_prefix(begin).is_some_and(|rest| rest.len() >= SHORTEST_TOKEN && rest.bytes().all(is_letter))
    };
    TOKENS.iter().copied().find(of).map(|(_, user)| user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_in_no_error_as_they_were_sent_either() {
        let credentials = Credentials::new("me", "hunter2secret").unwrap();
        let sent = r#"bad request {"stdin":"bWUKaHVudGVyMnNlY3JldAo="} for hunter2secret"#;
        let error = credentials.out_of(Error::new(ErrorKind::InvalidArgument, "clone", sent)).to_string();
        assert!(error.contains(r#"{"stdin":"…"} for …"#), "{error}");
    }

    #[test]
    fn tokens_in_the_place_of_a_name_are_taken_out_of_urls() {
        let hex = "0123456789abcdef0123456789abcdef01234567";
        for (token, lines) in [
            ("ghp_0123456789abcdef0123", "x-access-token\nghp_0123456789abcdef0123\n"),
            ("github_pat_11AAAAAAA0_abcdefgh", "x-access-token\ngithub_pat_11AAAAAAA0_abcdefgh\n"),
            ("glpat-%30123456789abcdefABCD", "oauth2\nglpat-0123456789abcdefABCD\n"),
            ("ATCTT3xFfGN0123456789abc=", "x-token-auth\nATCTT3xFfGN0123456789abc=\n"),
            (hex, &format!("x-access-token\n{hex}\n")),
        ] {
            let (plain, url, credentials) = split(&format!("https://{token}@git.example/a.git")).unwrap();
            assert_eq!(
                (plain.as_str(), url.unwrap().as_str()),
                ("https://git.example/a.git", "https://git.example/a.git")
            );
            assert_eq!(credentials.unwrap().lines(), lines);
        }
        for name in ["me", "ghp_me", "glpat-of-the-team", "ghp_0123456789%20bcdef0123", &hex[1..], &hex.to_uppercase()]
        {
            let text = format!("https://{name}@git.example/a.git");
            let (same, _, credentials) = split(&text).unwrap();
            assert!(same == text && credentials.is_none(), "{name}");
        }
    }

    #[test]
    fn a_password_that_ends_a_url_before_its_host_is_not_handed_to_git() {
        for password in ["pa#ss", "pa/ss", "pa?ss", "12#3"] {
            for scheme in ["https", "HTTP", " https"] {
                let error = split(&format!("{scheme}://me:{password}@git.example/a.git")).unwrap_err().to_string();
                assert!(error.contains("url: it cannot be read as a URL") && !error.contains(password), "{error}");
            }
        }
    }

    #[test]
    fn a_password_in_a_url_of_another_scheme_is_not_handed_to_git() {
        for url in [
            "ftp://me:hunter2@h/r.git",
            "ftps://me:hunter2@h/r.git",
            "ssh://me:hunter2@h/r.git",
            "git+ssh://me:hunter2@h/r.git",
            "ssh://me:hunter2@[/r.git",
            "ssh://me:12?hunter2@h/r.git",
            " ftp://me:hunter2@h/r.git",
        ] {
            let error = split(url).unwrap_err().to_string();
            assert!(error.contains("http and https alone") && !error.contains("hunter2"), "{url}: {error}");
        }
        for remote in ["https://me:hunter2@h/r", "ssh://me:hunter2@h/r", "https://me:12?3@h/r"] {
            let error = check_remote(remote).unwrap_err().to_string();
            assert!(
                error.contains("give credentials") && !error.contains('3') && !error.contains("hunter2"),
                "{error}"
            );
        }
        assert_eq!(check_remote("origin").unwrap(), "origin");
        assert!(split("https://me:12?3@h/r").is_err() && split("https://h:8080/@scope/r").is_ok());
        for url in ["ssh://git@host:22/a", "git@host:a.git", "/srv/a:b@c.git", "file:///srv/a:b@c.git", "ext::a b@c"] {
            assert_eq!(split(url).unwrap().0, url);
        }
    }

    #[test]
    fn credentials_are_taken_out_of_urls() {
        let (plain, url, credentials) = split("https://me:p%40ss@git.example:8443/a.git").unwrap();
        assert_eq!(
            (plain.as_str(), origin(&url.unwrap())),
            ("https://git.example:8443/a.git", "https://git.example:8443".into())
        );
        let credentials = credentials.unwrap();
        assert_eq!(credentials.lines(), "me\np@ss\n");
        assert!(!format!("{credentials:?}").contains("p@ss"));
        for plain in ["/srv/a.git", "git@host:a.git", "ssh://git@host/a", "https://git.example/a"] {
            let (same, _, credentials) = split(plain).unwrap();
            assert!(same == plain && credentials.is_none(), "{plain}");
        }
    }

    #[test]
    fn what_git_cannot_be_told_is_refused_and_not_repeated() {
        for (username, password) in [("", "hunter2"), ("me", ""), ("me", "hunter2\nx"), ("m\0e", "hunter2")] {
            let error = Credentials::new(username, password).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
