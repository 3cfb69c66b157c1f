//! `oncebox cp`, as a user runs it, against a server that `oncebox serve` would be.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

use std::path::Path;
use std::process::{Output, Stdio};

use oncebox::local::{Helper, Isolation, LocalServer};
use oncebox::{Client, HttpVersion, Sandbox};

async fn cp(url: &str, folder: &Path, args: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_oncebox"));
    for name in ["E2B_DOMAIN", "E2B_DEBUG", "RUST_LOG", "HTTP_PROXY", "http_proxy"] {
        command.env_remove(name);
    }
    command.envs([("E2B_API_URL", url), ("E2B_SANDBOX_URL", url), ("E2B_API_KEY", "k")]);
    command.current_dir(folder).arg("cp").args(args).stdin(Stdio::null()).output().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_directories_go_both_ways() {
    let helper = Helper::new(env!("CARGO_BIN_EXE_oncebox")).arg("envd-helper");
    let server = LocalServer::builder().helper(helper).isolation(Isolation::None).start().await.unwrap();
    let url = server.url();
    let client = Client::builder().api_key("k").api_url(&url).sandbox_url(&url).http_version(HttpVersion::Http1);
    let sandbox = Sandbox::create(&client.build().unwrap()).await.unwrap();
    let files = sandbox.files();
    let here = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = here.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("dir/a.txt", "a");
    write("dir/below/b.py", "b");
    let there = |path: &str| format!("{}:{path}", sandbox.id());
    let run = async |args: &[&str]| {
        let output = cp(&url, here.path(), args).await;
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };

    run(&["dir/a.txt", &there("named.txt")]).await;
    assert_eq!(files.read_text("named.txt").await.unwrap(), "a");
    run(&["dir/a.txt", &there("")]).await;
    assert_eq!(files.read_text("a.txt").await.unwrap(), "a");
    let told = run(&["--json", "dir", &there("up")]).await;
    assert_eq!(serde_json::from_str::<serde_json::Value>(&told).unwrap()["files"], 2);
    // Into it, once it is there.
    run(&["dir", &there("up"), "--exclude", "*.txt"]).await;
    assert_eq!(files.read_text("up/dir/below/b.py").await.unwrap(), "b");
    assert!(!files.exists("up/dir/a.txt").await.unwrap());

    run(&[&there("up/a.txt"), "back.txt"]).await;
    assert_eq!(std::fs::read_to_string(here.path().join("back.txt")).unwrap(), "a");
    run(&[&there("up"), "down", "--include", "below/*"]).await;
    assert_eq!(std::fs::read_to_string(here.path().join("down/below/b.py")).unwrap(), "b");
    assert!(!here.path().join("down/a.txt").exists());

    for (args, code, words) in [
        (["dir", "other"], 2, "ID:PATH"),
        (["nothing", &*there("x")], 2, "nothing"),
        ([&*there("nothing"), "x"], 125, "not_found"),
        (["dir", "i0gone:x"], 125, "sandbox"),
    ] {
        let output = cp(&url, here.path(), &args).await;
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && stderr.contains(words), "{args:?}: {:?} {stderr}", output.status);
    }
    server.stop().await;
}
