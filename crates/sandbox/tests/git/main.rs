//! Git over commands, with the real git of this machine in sandboxes that are not isolated from it: they reach the test's
//! server.
#![cfg(feature = "local")]
#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod server;

use oncebox::local::{Isolation, LocalServer, Network, StartError};
use oncebox::{Client, ErrorKind, GitResetMode, GitScope, Sandbox};
use server::{GitServer, git_can_serve};

const USER: &str = "me@example.com";
const PASSWORD: &str = "p%40ss w0rd'\"$(x)\\";

async fn sandbox() -> (Client, Sandbox) {
    let server = LocalServer::builder().isolation(Isolation::None).start().await.unwrap();
    let client = Client::of(server).unwrap();
    let sandbox = Sandbox::create(&client).await.unwrap();
    (client, sandbox)
}

/// An isolated sandbox with the machine's network; `None`, and a line that says why, where this machine has none.
async fn isolated(test: &str) -> Option<(Client, Sandbox)> {
    match LocalServer::builder().network(Network::Host).start().await {
        Ok(server) => {
            let client = Client::of(server).unwrap();
            let sandbox = Sandbox::create(&client).await.unwrap();
            Some((client, sandbox))
        }
        Err(StartError::IsolationUnavailable { why, .. }) => {
            println!("SKIP {test}: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A repository with one commit, in the sandbox's `repo`.
async fn repository(sandbox: &Sandbox) {
    let git = sandbox.git();
    git.init("repo", false, Some("main")).await.unwrap();
    git.configure_user("Me", USER, GitScope::Local("repo")).await.unwrap();
    sandbox.files().write("repo/a", "one\n").await.unwrap();
    git.add_all("repo").await.unwrap();
    git.commit("repo", "first").await.unwrap();
}

#[tokio::test]
async fn a_repository_is_made_changed_and_told_of() {
    let (client, sandbox) = sandbox().await;
    let git = sandbox.git();
    git.init("repo", false, Some("main")).await.unwrap();
    let fresh = git.status("repo").await.unwrap();
    assert_eq!((fresh.current_branch.as_deref(), fresh.is_clean()), (Some("main"), true));
    assert!(git.branches("repo").await.unwrap().branches.is_empty());
    sandbox.files().write("repo/a b ü", "one\n").await.unwrap();
    sandbox.files().write("repo/c", "one\n").await.unwrap();
    git.add("repo", &["a b ü"]).await.unwrap();
    let status = git.status("repo").await.unwrap();
    let told: Vec<_> = status.files.iter().map(|f| (f.path.as_str(), f.is_staged(), f.is_untracked())).collect();
    assert_eq!(told, [("a b ü", true, false), ("c", false, true)]);
    git.commit("repo", "first; it's $HOME").author("Me", USER).await.unwrap();
    let log = async |format: &str| {
        let command = oncebox::Command::new("git").args(["-C", "repo", "log", "-1", format]);
        sandbox.commands().run(command).await.unwrap().stdout_text().trim().to_owned()
    };
    assert_eq!(log("--format=%an <%ae> %s").await, format!("Me <{USER}> first; it's $HOME"));

    git.configure_user("We", USER, GitScope::Local("repo")).await.unwrap();
    let nothing = git.commit("repo", "second").await.unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::CommandFailed, "{nothing}");
    git.commit("repo", "second").allow_empty(true).await.unwrap();
    git.create_branch("repo", "feature/x").await.unwrap();
    git.checkout_branch("repo", "main").await.unwrap();
    let branches = git.branches("repo").await.unwrap();
    assert_eq!(
        (branches.branches, branches.current_branch.as_deref()),
        (vec!["feature/x".into(), "main".into()], Some("main"))
    );
    git.checkout_branch("repo", "feature/x").await.unwrap();
    git.commit("repo", "third").allow_empty(true).await.unwrap();
    git.checkout_branch("repo", "main").await.unwrap();
    assert_eq!(git.delete_branch("repo", "feature/x", false).await.unwrap_err().kind(), ErrorKind::CommandFailed);
    git.delete_branch("repo", "feature/x", true).await.unwrap();

    git.reset("repo").mode(GitResetMode::Soft).target("HEAD~1").await.unwrap();
    assert!(log("--format=%s").await.starts_with("first"));
    sandbox.files().write("repo/a b ü", "two\n").await.unwrap();
    git.add_all("repo").await.unwrap();
    assert_eq!(git.status("repo").await.unwrap().files.iter().filter(|f| f.is_staged()).count(), 2);
    git.reset("repo").paths(["c"]).await.unwrap();
    git.restore("repo", ["a b ü"]).staged(true).await.unwrap();
    assert!(!git.status("repo").await.unwrap().has_staged());
    git.restore("repo", ["a b ü"]).await.unwrap();
    assert_eq!(sandbox.files().read_text("repo/a b ü").await.unwrap(), "one\n");
    let command = oncebox::Command::new("git").args(["-C", "repo", "checkout", "--quiet", "--detach"]);
    sandbox.commands().run(command).await.unwrap();
    let detached = git.status("repo").await.unwrap();
    assert!(detached.detached && detached.current_branch.is_none());

    git.init("bare.git", true, None).await.unwrap();
    assert_eq!(git.get_config("core.bare", GitScope::Local("bare.git")).await.unwrap().as_deref(), Some("true"));
    client.close().await;
}

#[tokio::test]
async fn configuration_is_set_and_read_where_it_is_meant() {
    let (client, sandbox) = sandbox().await;
    repository(&sandbox).await;
    let git = sandbox.git();
    git.set_config("alias.x", "a\n b", GitScope::Global).await.unwrap();
    git.set_config("alias.x", "-c", GitScope::Local("repo")).await.unwrap();
    assert_eq!(git.get_config("alias.x", GitScope::Global).await.unwrap().as_deref(), Some("a\n b"));
    assert_eq!(git.get_config("alias.x", GitScope::Local("repo")).await.unwrap().as_deref(), Some("-c"));
    assert_eq!(git.get_config("alias.y", GitScope::Global).await.unwrap(), None);
    let error = git.get_config("nonsense", GitScope::Global).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommandFailed, "{error}");
    client.close().await;
}

#[tokio::test]
async fn remotes_are_added_read_and_pushed_to() {
    let (client, sandbox) = sandbox().await;
    repository(&sandbox).await;
    let git = sandbox.git();
    let nowhere = git.push("repo").await.unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::GitUpstream, "{nowhere}");
    let nowhere = git.pull("repo").await.unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::GitUpstream, "{nowhere}");
    git.init("bare.git", true, Some("main")).await.unwrap();
    git.remote_add("repo", "origin", "../bare.git").await.unwrap();
    let there = git.remote_add("repo", "origin", "../other.git").await.unwrap_err();
    assert_eq!(there.kind(), ErrorKind::CommandFailed, "{there}");
    git.remote_add("repo", "origin", "../bare.git").overwrite(true).fetch(true).await.unwrap();
    assert_eq!(git.remote_get("repo", "origin").await.unwrap().as_deref(), Some("../bare.git"));
    assert_eq!(git.remote_get("repo", "none").await.unwrap(), None);
    git.push("repo").set_upstream(false).await.unwrap();
    assert_eq!(git.status("repo").await.unwrap().upstream, None);
    git.push("repo").await.unwrap();
    git.commit("repo", "second").allow_empty(true).await.unwrap();
    let status = git.status("repo").await.unwrap();
    assert_eq!((status.upstream.as_deref(), status.ahead, status.behind), (Some("origin/main"), 1, 0));

    git.clone("bare.git").path("copy").branch("main").await.unwrap();
    git.push("repo").await.unwrap();
    git.pull("copy").await.unwrap();
    let pulled = git.cwd("copy").status(".").await.unwrap();
    assert_eq!((pulled.ahead, pulled.behind), (0, 0));
    let shallow =
        oncebox::Command::shell("git clone -q --depth 1 file://$PWD/bare.git s && git -C s log --oneline | wc -l");
    assert_eq!(sandbox.commands().run(shallow).await.unwrap().stdout_text().trim(), "1");
    client.close().await;
}

#[tokio::test]
async fn what_cannot_be_right_is_refused_before_any_request() {
    let (client, sandbox) = sandbox().await;
    client.close().await;
    let git = sandbox.git();
    for error in [
        git.init("", false, None).await.unwrap_err(),
        git.init("a", false, Some("--x")).await.unwrap_err(),
        git.clone("--upload-pack=x").await.unwrap_err(),
        git.clone("https://h/r").credentials("me", "hunter2\n").await.unwrap_err(),
        git.clone("git@h:r").credentials("me", "hunter2").await.unwrap_err(),
        git.clone("https://h/r").depth(0).await.unwrap_err(),
        git.remote_add("a", "o", "https://me:hunter2@h/r").await.unwrap_err(),
        git.checkout_branch("a", "-f").await.unwrap_err(),
        git.push("a").remote("--mirror").await.unwrap_err(),
        git.push("a").credentials("", "hunter2").await.unwrap_err(),
        git.commit("a", " ").await.unwrap_err(),
        git.add("a", &[]).await.unwrap_err(),
        git.restore("a", [""; 0]).await.unwrap_err(),
        git.reset("a").mode(GitResetMode::Hard).paths(["x"]).await.unwrap_err(),
        git.set_config("-x", "y", GitScope::Global).await.unwrap_err(),
        git.dangerously_authenticate("me", "hunter2\n", None, None).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_wants_a_password_is_given_it_and_nobody_else_is() {
    if !git_can_serve("a_server_that_wants_a_password_is_given_it_and_nobody_else_is") {
        return;
    }
    let server = GitServer::start(USER, PASSWORD).await;
    let (client, sandbox) = sandbox().await;
    repository(&sandbox).await;
    let git = sandbox.git();
    git.remote_add("repo", "origin", server.url()).await.unwrap();
    for refused in [
        git.push("repo").await.unwrap_err(),
        git.push("repo").credentials(USER, "wrong").await.unwrap_err(),
        git.clone(server.url()).await.unwrap_err(),
        git.clone(server.url()).credentials("other", PASSWORD).await.unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::GitAuthentication, "{refused}");
    }
    assert_eq!(server.seen().0, 0);
    git.push("repo").credentials(USER, PASSWORD).await.unwrap();
    assert_eq!(server.latest(), "first");
    git.clone(server.url()).path("copy").credentials(USER, PASSWORD).await.unwrap();
    git.commit("repo", "second").allow_empty(true).await.unwrap();
    git.push("repo").credentials(USER, PASSWORD).await.unwrap();
    git.pull("copy").credentials(USER, PASSWORD).await.unwrap();
    assert_eq!(git.status("copy").await.unwrap().behind, 0);
    // A URL is as good as a remote's name.
    git.pull("copy").remote(server.url()).branch("main").credentials(USER, PASSWORD).await.unwrap();
    git.push("copy").remote(server.url()).branch("main").set_upstream(false).credentials(USER, PASSWORD).await.unwrap();
    // Nothing of them is left anywhere.
    assert_eq!(git.pull("copy").await.unwrap_err().kind(), ErrorKind::GitAuthentication);
    assert_eq!(git.remote_get("copy", "origin").await.unwrap(), Some(server.url()));
    // A password in the URL is taken out of it.
    let encode = |text| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string();
    let with_password = format!("http://{}:{}@{}", encode(USER), encode(PASSWORD), &server.url()["http://".len()..]);
    git.clone(with_password).path("third").await.unwrap();
    assert_eq!(git.remote_get("third", "origin").await.unwrap(), Some(server.url()));
    let token = sandbox.git().env("TOKEN", PASSWORD);
    let clone = token.clone(format!("http://{USER}:{PASSWORD}@h/r")).path("fourth");
    let remote = token.remote_add("repo", "other", format!("http://{USER}:{PASSWORD}@h/r"));
    let printed = format!("{clone:?} {remote:?}");
    assert!(printed.contains("fourth") && printed.contains("other") && printed.contains("TOKEN"), "{printed}");
    assert!(!printed.contains(PASSWORD), "{printed}");
    let left =
        sandbox.commands().run("grep -rF 'ss w0rd' . ; git config --list --show-origin | grep -F 'ss w0rd'").await;
    assert_eq!(left.unwrap().stdout_text(), "");
    client.close().await;
}

#[tokio::test]
async fn credentials_are_stored_where_that_is_asked_for() {
    if !git_can_serve("credentials_are_stored_where_that_is_asked_for") {
        return;
    }
    let server = GitServer::start(USER, PASSWORD).await;
    let (client, sandbox) = sandbox().await;
    repository(&sandbox).await;
    let git = sandbox.git();
    git.remote_add("repo", "origin", server.url()).await.unwrap();
    git.push("repo").credentials(USER, PASSWORD).await.unwrap();
    let clone = git.clone(server.url()).path("it's mine").credentials(USER, PASSWORD);
    clone.dangerously_store_credentials(true).await.unwrap();
    git.pull("it's mine").await.unwrap();
    // There, and nowhere else.
    assert_eq!(git.pull("repo").await.unwrap_err().kind(), ErrorKind::GitAuthentication);
    let host = format!("127.0.0.1:{}", server.port);
    git.dangerously_authenticate(USER, PASSWORD, Some(&host), Some("http")).await.unwrap();
    git.pull("repo").await.unwrap();
    git.clone(server.url()).path("again").await.unwrap();
    client.close().await;
}

#[tokio::test]
async fn credentials_reach_git_in_an_isolated_sandbox() {
    let test = "credentials_reach_git_in_an_isolated_sandbox";
    if !git_can_serve(test) {
        return;
    }
    let Some((client, sandbox)) = isolated(test).await else { return };
    let server = GitServer::start(USER, PASSWORD).await;
    repository(&sandbox).await;
    let git = sandbox.git();
    git.remote_add("repo", "origin", server.url()).await.unwrap();
    git.push("repo").credentials(USER, PASSWORD).await.unwrap();
    git.clone(server.url()).path("copy").credentials(USER, PASSWORD).await.unwrap();
    assert_eq!(git.pull("copy").await.unwrap_err().kind(), ErrorKind::GitAuthentication);
    assert_eq!(server.latest(), "first");
    client.close().await;
}
