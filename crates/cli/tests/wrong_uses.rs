//! Wrong uses of the command: each is told in one line that names the value, the rule and the way out.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};

/// What is typed, and all of what is said.
const USES: [(&str, &str); 68] = [
    (
        "fly",
        "\"fly\" is no command of `oncebox`; there are run, exec, shell, cp, sandbox, snapshot, fleet, template, volume, \
         secret, config, serve, proxy, probe, faults, effects, explain, completions, man; see `oncebox --help`",
    ),
    (
        "sandbox kil",
        "\"kil\" is no command of `oncebox sandbox`, is kill meant?; there are create, list, info, kill, pause, resume, \
         connect, shell, exec, logs, metrics, snapshot; see `oncebox sandbox --help`",
    ),
    (
        "auth login",
        "\"auth\" is no command of `oncebox`: nobody logs in; set E2B_API_KEY, or `api_key` of a profile in the configuration \
         file; `oncebox config` tells which holds, and `oncebox serve` needs none",
    ),
    (
        "tpl migrate",
        "\"migrate\" is no command of `oncebox template`: a Dockerfile is a template as it is: `oncebox template build NAME` \
         builds it, and the packages for Rust, Python and JavaScript build templates that are written as programs",
    ),
    ("fleet", "nothing to do: it is `oncebox fleet run`; see `oncebox fleet --help`"),
    (
        "run --bogus -- true",
        "unknown option or argument \"--bogus\" (a command for the sandbox goes after `--`); see `oncebox run --help`",
    ),
    (
        "run --templat x -- true",
        "unknown option or argument \"--templat\", is --template meant? (a command for the sandbox goes after `--`); see \
         `oncebox run --help`",
    ),
    ("run --local", "the command is empty: give it after `--`, such as `oncebox run --local -- echo hi`"),
    ("exec iabc", "the command is empty: give it after `--`, such as `oncebox exec SANDBOX -- echo hi`"),
    ("run --retries -1 -- true", "--retries \"-1\": it must be a whole number from 0 to 1000"),
    (
        "run --timeout soon -- true",
        "--timeout \"soon\": it must be a number of seconds from 0 to 31536000, such as 30 or 0.5",
    ),
    ("run --env novalue -- true", "--env \"novalue\": it must look like NAME=VALUE, such as LANG=C"),
    (
        "run --env-file /no/such -- true",
        "--env-file \"/no/such\" cannot be read: No such file or directory; give the path of a file that is there",
    ),
    (
        "run --domain https://x -- true",
        "--domain: \"https://x\" is a URL; give the host alone, such as e2b.app, or set api_url",
    ),
    (
        "run --api-url nonsense -- true",
        "--api-url: \"nonsense\" is no URL (relative URL without a base); it should look like http://host:port",
    ),
    (
        "run --sandbox ../x -- true",
        "--sandbox \"../x\": it is no sandbox id, which is of a-z and 0-9; `oncebox sandbox ls` lists them",
    ),
    (
        "run --local --api-url http://x -- true",
        "--local and --api-url exclude each other: leave one of them out; see `oncebox run --help`",
    ),
    (
        "run --no-isolation -- true",
        "--local is missing, which --no-isolation needs (Run on this machine, on an embedded server started for it): give \
         it; see `oncebox run --help`",
    ),
    ("run --http 3 -- true", "--http \"3\": it must be 1.1 or 2"),
    (
        "run --cert /no -- true",
        "--key <FILE> is missing, which --cert needs (The certificate's private key, a PEM file): give it; see `oncebox run \
         --help`",
    ),
    (
        "run --proxy ftp://u:secret@x -- true",
        "--proxy: proxy \"x\" must begin with http://, https://, socks5:// or socks5h://",
    ),
    (
        "exec --local iabc true",
        "--local is no option of `oncebox exec`: a server that is started for one command has nothing in it yet; `oncebox run \
         --local` makes a sandbox in it, and `oncebox serve` starts one that stays, to be named by E2B_API_URL",
    ),
    (
        "template ls --local",
        "--local is no option of `oncebox template list`: a server that is started for one command has nothing in it yet; \
         `oncebox run --local` makes a sandbox in it, and `oncebox serve` starts one that stays, to be named by E2B_API_URL",
    ),
    (
        "sandbox kill",
        "<SANDBOX>... is missing (The sandboxes' ids): give one or more, or --all; see `oncebox sandbox kill --help`",
    ),
    (
        "sandbox kill --all iabc",
        "--all and SANDBOX exclude each other: leave one of them out; see `oncebox sandbox kill --help`",
    ),
    (
        "sandbox kill -s running",
        "--all is missing, which -s needs (Kill all sandboxes that --state and --metadata leave): give it; see `oncebox \
         sandbox kill --help`",
    ),
    (
        "sandbox kill iABC",
        "SANDBOX \"iABC\": it is no sandbox id, which is of a-z and 0-9; `oncebox sandbox ls` lists them",
    ),
    (
        "sandbox kill iabc-typo",
        "SANDBOX \"iabc-typo\": it is no sandbox id: iabc alone may be one, or with a client's id behind it, a hyphen and 8 \
         hex digits; `oncebox sandbox ls` lists them",
    ),
    ("sandbox create --metadata x", "--metadata \"x\": it must look like NAME=VALUE, such as task=42"),
    ("sandbox ls --state asleep", "--state \"asleep\": it must be running or paused"),
    ("sandbox ls --limit 0", "--limit \"0\": it must be a whole number of 1 or more, and not too large"),
    ("sandbox ls --limit -1", "--limit \"-1\": it must be a whole number of 1 or more, and not too large"),
    (
        "sandbox create --lifetime 0",
        "--lifetime \"0\": it must be a number of seconds over 0 and up to 31536000, such as 30 or 0.5",
    ),
    ("sandbox create --volume data", "--volume \"data\": it must look like NAME:/PATH, such as data:/mnt/data"),
    ("sandbox create --intent xyz", "--intent \"xyz\": it must be 32 lower-case hex digits; without it one is minted"),
    ("sandbox logs iabc --level loud", "--level \"loud\": it must be one of debug, info, warn, error"),
    ("config extra", "unknown option or argument \"extra\"; see `oncebox config --help`"),
    ("exec iabc --id A.B -- true", "--id \"A.B\": it must be 1 to 64 of a-z, 0-9 and hyphens"),
    ("run --user a:b -- true", "--user: \"a:b\" is no user name"),
    ("effects --test-id=", "--test-id \"\": it must not be empty"),
    ("serve --port 0 --no-isolation --pids 1", "--pids is 1: it takes a whole number from 32 to 4000000"),
    (
        "cp Cargo.toml iabc-typo:/x",
        "\"Cargo.toml\" and \"iabc-typo:/x\": one of FROM and TO must be in a sandbox, as ID:PATH, and the other on this \
         machine; \"iabc-typo\": it is no sandbox id: iabc alone may be one, or with a client's id behind it, a hyphen and 8 hex \
         digits; `oncebox sandbox ls` lists them",
    ),
    ("cp a b", "\"a\" and \"b\": one of FROM and TO must be in a sandbox, as ID:PATH, and the other on this machine"),
    ("fleet run -n 0 -- true", "--count \"0\": it must be a whole number from 1 to 1000000"),
    ("fleet run -n many -- true", "--count \"many\": it must be a whole number from 1 to 1000000"),
    ("serve --listen here", "--listen \"here\": it must be an IP address, such as 127.0.0.1 or ::1"),
    (
        "serve --listen 0.0.0.0 --port 0",
        "--listen is 0.0.0.0, which lets other machines run programs here: give a token of at least 16 characters by \
         ONCEBOX_TOKEN or --token, or listen on 127.0.0.1",
    ),
    ("serve --cpus some", "--cpus \"some\": it must be a number of processors, such as 1.5"),
    ("serve --port 70000", "--port \"70000\": it must be a whole number from 0 to 65535"),
    (
        "serve --memory 2X",
        "--memory \"2X\": it must be a number of bytes, with K, M, G or T for KiB, MiB, GiB or TiB, or none",
    ),
    ("serve --network web", "--network \"web\": it must be one of auto, none, egress, host"),
    (
        "proxy --listen 0.0.0.0 --port 0",
        "--listen is 0.0.0.0, which lets other machines in: give a token of at least 16 bytes by ONCEBOX_PROXY_TOKEN or \
         --token, or listen on 127.0.0.1",
    ),
    (
        "proxy --token short --port 0",
        "the token of 5 bytes will not do: it must have at least 16, of letters, digits and -._~, so that a header and a \
         URL can hold it",
    ),
    ("proxy --max-calls 0", "--max-calls \"0\": it must be a whole number from 1 to 1048576"),
    (
        "proxy --port 0 --allow-host http://x",
        "allow_host is \"http://x\": it must be a host name without scheme, port or path, such as build-box.internal; addresses \
         are let in by the address to listen on",
    ),
    ("proxy --sandbox-retries 2000", "--sandbox-retries \"2000\": it must be a whole number from 0 to 1000"),
    (
        "template build t -f /no/such",
        "--file \"/no/such\" cannot be read: No such file or directory; give the path of a file that is there",
    ),
    (
        "secret create n --from-env NO_SUCH_VARIABLE",
        "--from-env \"NO_SUCH_VARIABLE\": environment variable not found; set it, or use --from-file or standard input",
    ),
    (
        "explain --operation nope --status 503",
        "--operation \"nope\": there is no such operation; `oncebox explain --list` tells all there are",
    ),
    (
        "explain --operation kilSandbox --status 503",
        "--operation \"kilSandbox\": there is no such operation, is one of these meant: killSandbox?; \
         `oncebox explain --list` tells all there are",
    ),
    (
        "explain",
        "--operation <ID> is missing (The operation's id in the specification, such as createSandbox): give it, or --list, \
         which tells all there are; see `oncebox explain --help`",
    ),
    ("effects --server foo", "--server \"foo\": it must be a URL, such as http://127.0.0.1:3000"),
    (
        "faults set Cargo.toml",
        "FILE \"Cargo.toml\" is no fault document, which is JSON: expected value at line 1 column 2; `{\"rules\": []}` is one \
         without faults, and `oncebox faults get` prints the one in force",
    ),
    (
        "faults serve /dev/zero",
        "SCRIPT is \"/dev/zero\": it is longer than 1048576 bytes; ready to use are: requests-lost-when-connections-retire, \
         refused-under-load, created-twice-after-504, server-disconnected, first-request-after-a-pause-fails, request-hangs, \
         retries-too-soon, download-breaks-off, handshake-fails-now-and-then, errors-during-deploys",
    ),
    (
        "secret create n --from-env EMPTY",
        "--from-env \"EMPTY\": the variable is empty; set it, or use --from-file or standard input",
    ),
    ("probe nonsense", "\"nonsense\" must begin with http:// or https://"),
    ("completions tcsh", "SHELL \"tcsh\": it must be one of bash, elvish, fish, powershell, zsh"),
    (
        "man sandbox nope",
        "COMMAND \"nope\": sandbox has no such command; there are: create, list, info, kill, pause, resume, connect, shell, \
         exec, logs, metrics, snapshot",
    ),
];

/// Of the configuration file: what is in it, what is typed, and what is said after its path.
const FILES: [(&str, &str, &str); 4] = [
    (
        "domian = \"x\"",
        "config",
        ": domian: there is no such setting; there are api_key, domain, api_url, sandbox_url, volume_api_url, \
         request_timeout, retries, connection_retries, http_version, max_connections, keepalive_expiry, proxy",
    ),
    ("[profiles.work]\nretries = true", "config", ": profiles.work.retries must be a text or a number"),
    ("retries = \"many\"", "sandbox ls", ": \"many\": it must be a whole number from 0 to 1000"),
    (
        "[profiles.work]\n[profiles.home]",
        "config --profile nope",
        " has no profile \"nope\"; it has home, work. A profile is a table [profiles.NAME]",
    ),
];

/// The exit code, standard output and standard error.
fn run(line: &str, config: &str) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_oncebox"))
        .args(line.split(' '))
        .stdin(Stdio::null())
        .env_clear()
        .envs([("E2B_API_KEY", "k"), ("ONCEBOX_CONFIG", config), ("EMPTY", "")])
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn each_wrong_use_names_the_value_the_rule_and_the_way_out() {
    for (line, said) in USES {
        assert_eq!(run(line, "/no/such/config.toml"), (Some(2), String::new(), format!("oncebox: {said}\n")), "{line}");
    }
}

#[test]
fn a_wrong_configuration_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    let path = file.to_str().unwrap();
    for (content, line, said) in FILES {
        std::fs::write(&file, content).unwrap();
        let (code, out, error) = run(line, path);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{line}");
        assert!(error.ends_with(&format!("{path}{said}\n")), "{line}: {error}");
    }
}

#[test]
fn a_configuration_file_without_end_is_read_to_its_bound() {
    let (code, out, error) = run("sandbox ls", "/dev/zero");
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(error.contains("/dev/zero: it is longer than 1048576 bytes"), "{error}");
}

#[test]
fn without_a_key_the_ways_to_give_one_are_told() {
    let output = Command::new(env!("CARGO_BIN_EXE_oncebox")).args(["sandbox", "ls"]).env_clear().output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), error.as_str()),
        (
            Some(2),
            "oncebox: no API key: set E2B_API_KEY, or api_key in the configuration file (`oncebox config` tells where it \
             is)\n"
        )
    );
}

/// Of the environment: a variable, its value, and what is said.
const VARIABLES: [(&str, &str, &str); 4] = [
    ("E2B_CONNECTION_RETRIES", "many", "E2B_CONNECTION_RETRIES \"many\": it must be a whole number from 0 to 1000"),
    ("E2B_MAX_CONNECTIONS", "0", "E2B_MAX_CONNECTIONS \"0\": it must be a whole number of 1 or more"),
    ("E2B_HTTP_VERSION", "9", "E2B_HTTP_VERSION \"9\": it must be 1.1 or 2"),
    (
        "E2B_API_URL",
        "foo",
        "E2B_API_URL: \"foo\" is no URL (relative URL without a base); it should look like http://host:port",
    ),
];

#[test]
fn a_wrong_variable_is_named_with_its_rule() {
    for (name, value, said) in VARIABLES {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oncebox"));
        command.args(["sandbox", "ls"]).env_clear().envs([("E2B_API_KEY", "k"), ("ONCEBOX_CONFIG", "/no/such")]);
        let output = command.env(name, value).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), error), (Some(2), format!("oncebox: {said}\n")));
    }
}

#[test]
fn with_json_a_wrong_use_is_one_object_on_standard_error() {
    for (line, words) in [
        ("sandbox kill --json", "--all"),
        ("sandbox kill iABC --json", "no sandbox id"),
        ("sandbox ls --json --bogus", "--bogus"),
        ("run --json --env-file /no/such -- true", "--env-file"),
        ("sandbox ls --json --api-url foo", "--api-url"),
        ("serve --json --listen 0.0.0.0 --port 0", "--token"),
        ("secret create n --json --from-env EMPTY", "EMPTY"),
        ("explain --operation nope --status 503 --json", "--list"),
    ] {
        let (code, out, error) = run(line, "/no/such/config.toml");
        assert_eq!((code, out.as_str(), error.lines().count()), (Some(2), "", 1), "{line}: {error}");
        let told: serde_json::Value = serde_json::from_str(&error).unwrap_or_else(|_| panic!("{line}: {error}"));
        let told = &told["error"];
        assert_eq!(told["kind"], "InvalidArgument", "{line}");
        assert!(told["message"].as_str().unwrap().contains(words), "{line}: {error}");
        assert_eq!((&told["attempts"], &told["may_have_been_processed"]), (&serde_json::json!([]), &false.into()));
    }
    // What follows `--` is the command's own.
    let (code, _, error) = run("run --bogus -- x --json", "/no/such/config.toml");
    assert!(code == Some(2) && error.starts_with("oncebox: unknown option"), "{error}");
}
