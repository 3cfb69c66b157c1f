//! Files over connections that are cut, to servers that lie, and in memory that does not grow.
#![cfg(feature = "local")]
#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod flaky;

use std::time::Duration;

use bytes::Bytes;
use flaky::{Flaky, Manner};
use futures_util::StreamExt;
use oncebox::local::{Isolation, LocalServer};
use oncebox::transport::policy::Purpose;
use oncebox::{Body, Client, ErrorKind, FileEventKind, HttpVersion, Sandbox};

/// A sandbox of a local server, whose connections can be cut.
async fn sandbox(manner: Manner) -> (LocalServer, Flaky, Sandbox) {
    let local = LocalServer::builder().isolation(Isolation::None).memory(None).start().await.unwrap();
    let flaky = Flaky::start(&local.url(), manner).await;
    let client = Client::builder().api_key("k").api_url(local.url()).sandbox_url(&flaky.url);
    let client = client.http_version(HttpVersion::Http1).build().unwrap();
    let sandbox = Sandbox::create(&client).await.unwrap();
    (local, flaky, sandbox)
}

/// As if it had been written a while ago.
async fn age(sandbox: &Sandbox) {
    assert!(sandbox.commands().run("touch -d '10 minutes ago' data").await.unwrap().success());
}

fn noise(length: usize) -> Bytes {
    let mut state = 0x2545_f491_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..length).map(|_| next()).collect::<Vec<_>>().into()
}

const LENGTH: usize = 3 << 20;

#[tokio::test]
async fn a_download_that_is_cut_five_times_is_what_was_stored() {
    for headers in [&[][..], &["etag"]] {
        // Without the tag, the time of the last change is all there is. It has to be old.
        let manner = Manner { cut_downloads_after: Some(LENGTH / 6), hidden: headers.to_vec(), ..Manner::default() };
        let (local, flaky, sandbox) = sandbox(manner).await;
        let files = sandbox.files();
        let data = noise(LENGTH);
        files.write("data", data.clone()).await.unwrap();
        age(&sandbox).await;
        assert_eq!(files.read("data").await.unwrap(), data, "{headers:?}");
        assert!(flaky.cuts() >= 5, "{headers:?}: {}", flaky.cuts());

        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("here");
        let mut told = Vec::new();
        assert_eq!(files.download("data", &to, |now, of| told.push((now, of))).await.unwrap(), LENGTH as u64);
        assert_eq!(std::fs::read(&to).unwrap(), data);
        assert_eq!(told.last(), Some(&(LENGTH as u64, Some(LENGTH as u64))));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        local.stop().await;
    }
}

#[tokio::test]
async fn what_cannot_be_told_to_be_the_same_is_not_resumed() {
    for (hidden, words) in [(&["etag"][..], "within a minute"), (&["etag", "last-modified"], "neither")] {
        let manner = Manner { cut_downloads_after: Some(LENGTH / 2), hidden: hidden.to_vec(), ..Manner::default() };
        let (local, _flaky, sandbox) = sandbox(manner).await;
        sandbox.files().write("data", noise(LENGTH)).await.unwrap();
        let mut stream = sandbox.files().read_stream("data").await.unwrap();
        let error = loop {
            match stream.next().await {
                Some(Ok(_)) => {}
                end => break end.unwrap().unwrap_err(),
            }
        };
        assert_eq!(error.kind(), ErrorKind::CannotResume);
        assert!(error.to_string().contains(words), "{error}");
        assert!(stream.next().await.is_none());
        local.stop().await;
    }
}

#[tokio::test]
async fn a_file_that_changes_midway_is_an_error_of_the_stream_and_read_anew_by_whoever_can() {
    for hidden in [vec![], vec!["etag"]] {
        let manner = Manner { cut_downloads_after: Some(LENGTH / 2), hidden, ..Manner::default() };
        let (local, flaky, sandbox) = sandbox(manner).await;
        let files = sandbox.files();
        let (first, second) = (noise(LENGTH), noise(LENGTH + 1).slice(1..));
        files.write("data", first.clone()).await.unwrap();
        age(&sandbox).await;
        let mut stream = files.read_stream("data").await.unwrap();
        let mut received = stream.next().await.unwrap().unwrap().to_vec();
        // Same size, another content.
        files.write("data", second.clone()).await.unwrap();
        let error = loop {
            match stream.next().await {
                Some(Ok(piece)) => received.extend_from_slice(&piece),
                end => break end.unwrap().unwrap_err(),
            }
        };
        assert_eq!(error.kind(), ErrorKind::CannotResume, "{error}");
        assert_eq!(received, first[..received.len()], "never the bytes of two files");

        // It is cut for good only so often.
        flaky.stop_cutting_after(1);
        assert_eq!(files.read("data").await.unwrap(), second);
        local.stop().await;
    }
}

#[tokio::test]
async fn a_download_that_gets_nowhere_ends() {
    let manner = Manner { cut_downloads_after: Some(0), ..Manner::default() };
    let (local, flaky, sandbox) = sandbox(manner).await;
    sandbox.files().write("data", noise(LENGTH)).await.unwrap();
    let error = sandbox.files().read("data").await.unwrap_err();
    assert!(error.kind() == ErrorKind::ConnectionLost, "{error}");
    assert!(error.to_string().contains("5 times in a row") && error.to_string().contains("healthy"), "{error}");
    assert_eq!(flaky.cuts(), 6);
    // The read, its resumes and the probe are one history.
    let purposes: Vec<_> = error.attempts().iter().map(|record| record.purpose).collect();
    assert_eq!(purposes, [[Purpose::Call; 6].as_slice(), &[Purpose::LookUp]].concat(), "{error}");
    local.stop().await;
}

/// The last part comes whole, and of the old file: only a look at its end tells that another one took its place.
#[tokio::test]
async fn a_file_that_changes_while_its_last_part_is_read_is_not_called_whole() {
    let cut_once =
        Manner { cut_downloads_after: Some(LENGTH / 2), cuts_left: Some(1), hidden: vec!["etag"], ..Manner::default() };
    let (local, flaky, sandbox) = sandbox(cut_once).await;
    let files = sandbox.files();
    files.write("data", noise(LENGTH)).await.unwrap();
    age(&sandbox).await;
    let mut stream = files.read_stream("data").await.unwrap();
    let mut received = 0;
    while received <= LENGTH / 2 {
        received += stream.next().await.unwrap().unwrap().len();
    }
    assert_eq!(flaky.cuts(), 1, "it was resumed");
    files.write("data", noise(LENGTH + 1).slice(1..)).await.unwrap();
    let error = loop {
        match stream.next().await {
            Some(Ok(_)) => {}
            end => break end.unwrap().unwrap_err(),
        }
    };
    assert_eq!(error.kind(), ErrorKind::CannotResume, "{error}");
    assert!(error.to_string().contains("it changed while it was read"), "{error}");
    local.stop().await;
}

#[tokio::test]
async fn parts_that_were_joined_without_an_answer_are_found_joined() {
    let (local, flaky, sandbox) = sandbox(Manner { loses_compose: true, ..Manner::default() }).await;
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    let data = noise(17 << 20);
    std::fs::write(&from, &data).unwrap();
    let written = sandbox.files().upload(&from, "dir/large", |_, _| {}).await.unwrap();
    assert_eq!(written.name, "large");
    assert_eq!(sandbox.files().read("dir/large").await.unwrap(), data);
    assert!(flaky.requests() > 0);
    local.stop().await;
}

#[tokio::test]
async fn the_parts_of_an_upload_that_was_given_up_are_removed() {
    let (local, _flaky, sandbox) = sandbox(Manner::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    std::fs::write(&from, noise(40 << 20)).unwrap();
    let (part_is_there, mut is_there) = tokio::sync::mpsc::unbounded_channel();
    let upload = async {
        let files = sandbox.files();
        files
            .upload(&from, "dir/large", move |_, _| {
                let _ = part_is_there.send(());
            })
            .await
    };
    tokio::select! {
        _ = upload => panic!("it was to be given up"),
        _ = is_there.recv() => {}
    }
    let names = async || {
        let left = sandbox.files().list("dir", 1).await.unwrap();
        left.into_iter().map(|entry| entry.name).collect::<Vec<_>>()
    };
    let gone = async {
        while !names().await.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
    local.stop().await;
}

#[tokio::test]
async fn an_upload_of_which_half_is_stored_is_an_error() {
    let (local, flaky, sandbox) = sandbox(Manner { stores_half: true, ..Manner::default() }).await;
    let files = sandbox.files();
    let data = noise(1000);
    let streamed = Body::stream(http_body_util::Full::new(data.clone()));
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    std::fs::write(&from, &data).unwrap();
    for error in [
        files.write("a", data.clone()).await.unwrap_err(),
        files.write("b", streamed).await.unwrap_err(),
        files.upload(&from, "c", |_, _| {}).await.unwrap_err(),
    ] {
        assert!(error.kind() == ErrorKind::Server && error.may_have_been_processed(), "{error}");
        assert!(
            error.to_string().contains("1000 bytes were sent and taken, and /")
                && error.to_string().contains("has 500")
        );
    }
    files.write("a", data.clone()).verify(false).await.unwrap();
    flaky.be(Manner::default());
    files.write("a", data).await.unwrap();
    local.stop().await;
}

#[tokio::test]
async fn what_is_written_is_read_whatever_it_holds_and_is_called() {
    let (local, _flaky, sandbox) = sandbox(Manner::default()).await;
    let files = sandbox.files();
    let all: Bytes = (0..=255_u8).cycle().take(70_000).collect::<Vec<_>>().into();
    let names = ["plain", "with space", "ünï→cödé", "line\nbreak", "100%41&=?#+;", "quo\"te\\s", "deep/er/file"];
    for data in [all.clone(), Bytes::new()] {
        for name in names {
            for (gzip, form) in [(false, false), (true, false), (false, true)] {
                files.write(name, data.clone()).gzip(gzip).form(form).await.unwrap();
                assert_eq!(files.read(name).await.unwrap(), data, "{name:?} {gzip} {form}");
                let streamed = Body::stream(http_body_util::Full::new(data.clone()));
                files.write(name, streamed).gzip(gzip).form(form).await.unwrap();
                assert_eq!(files.read(name).await.unwrap(), data, "{name:?} {gzip} {form}, streamed");
            }
        }
        let many = names.map(|name| (format!("many/{name}"), data.clone()));
        let written = files.write_files(many).await.unwrap();
        for (name, written) in names.iter().zip(&written) {
            assert!(written.path.ends_with(&format!("many/{name}")), "{written:?}");
            assert_eq!(files.read(&format!("many/{name}")).await.unwrap(), data, "{name:?}");
        }
        files.write_reader("read", std::io::Cursor::new(data.clone())).await.unwrap();
        assert_eq!(files.read("read").await.unwrap(), data);
    }
    assert!(files.write_files(Vec::<(String, String)>::new()).await.unwrap().is_empty());
    let twice = files.write_files([("a", "1"), ("a", "2")]).await.unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::InvalidArgument);

    files.write("kept", "x").metadata("Author", "me").await.unwrap();
    let entry = files.info("kept").await.unwrap();
    assert_eq!(entry.metadata["author"], "me");
    assert!(entry.modified.is_some());
    let wrong = files.write("kept", "x").metadata("a b", "c").await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidArgument);
    local.stop().await;
}

#[tokio::test]
async fn many_files_are_one_request() {
    let (local, flaky, sandbox) = sandbox(Manner::default()).await;
    let files = (0..580).map(|n| (format!("d{}/f{n}", n % 5), format!("content {n}")));
    let before = flaky.requests();
    let written = sandbox.files().write_files(files).await.unwrap();
    assert_eq!((written.len(), written[579].name.as_str()), (580, "f579"));
    // One for all, and one a directory that is checked.
    assert_eq!(flaky.requests() - before, 6);
    assert_eq!(sandbox.files().read_text("d4/f579").await.unwrap(), "content 579");
    local.stop().await;
}

#[tokio::test]
async fn a_large_upload_that_is_cut_goes_on_with_the_part_that_was_cut() {
    // Each second part is cut in its middle, as long as there are cuts left.
    let manner = Manner { cut_uploads_after: Some(5 << 20), cuts_left: Some(4), ..Manner::default() };
    let (local, flaky, sandbox) = sandbox(manner).await;
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    let data = noise(40 << 20);
    std::fs::write(&from, &data).unwrap();
    let mut told = Vec::new();
    sandbox.files().upload(&from, "dir/large", |now, of| told.push((now, of))).await.unwrap();
    assert_eq!(flaky.cuts(), 4);
    assert_eq!(told.last(), Some(&(data.len() as u64, data.len() as u64)));
    assert_eq!(told.len(), 3);
    assert_eq!(sandbox.files().read("dir/large").await.unwrap(), data);
    let left = sandbox.files().list("dir", 1).await.unwrap();
    assert_eq!(left.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["large"]);

    // A server that cannot join gets it whole.
    flaky.be(Manner { no_compose: true, ..Manner::default() });
    let again = Sandbox::connect(sandbox_client(&flaky, &local).await, sandbox.id()).await.unwrap();
    again.files().upload(&from, "whole", |_, _| {}).await.unwrap();
    assert_eq!(again.files().info("whole").await.unwrap().size, data.len() as u64);
    local.stop().await;
}

async fn sandbox_client(flaky: &Flaky, local: &LocalServer) -> &'static Client {
    let client = Client::builder().api_key("k").api_url(local.url()).sandbox_url(&flaky.url);
    Box::leak(Box::new(client.http_version(HttpVersion::Http1).build().unwrap()))
}

#[tokio::test]
async fn changes_are_told_as_they_come_and_when_they_are_asked_for() {
    let (local, _flaky, sandbox) = sandbox(Manner::default()).await;
    let files = sandbox.files();
    files.make_dir("watched/below").await.unwrap();
    let mut changes = files.watch("watched").recursive(true).entries(true).await.unwrap();
    let watcher = files.watch("watched").poll().await.unwrap();
    files.write("watched/below/new", "x").await.unwrap();
    files.write("watched/top", "x").await.unwrap();
    let mut seen = Vec::new();
    while !seen.iter().any(|(name, _)| name == "top") {
        let change = tokio::time::timeout(Duration::from_secs(20), changes.next()).await.unwrap().unwrap().unwrap();
        if change.name == "below/new" && change.kind != FileEventKind::Remove {
            assert!(change.entry.as_ref().is_none_or(|entry| entry.path.ends_with("watched/below/new")), "{change:?}");
        }
        seen.push((change.name, change.kind));
    }
    assert!(seen.iter().any(|(name, _)| name == "below/new"), "{seen:?}");
    let mut polled = Vec::new();
    while !polled.iter().any(|name| name == "top") {
        polled.extend(watcher.events().await.unwrap().into_iter().map(|event| event.name));
        tokio::task::yield_now().await;
    }
    assert!(!polled.iter().any(|name| name.contains("new")), "it does not look below: {polled:?}");
    watcher.clone().stop().await.unwrap();
    watcher.stop().await.unwrap();
    let error = files.watch("nowhere").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    sandbox.kill().await.unwrap();
    let ends: Vec<_> = changes.collect().await;
    assert!(
        ends.iter().all(|end| end.as_ref().err().is_none_or(|error| error.kind() != ErrorKind::Timeout)),
        "{ends:?}"
    );
    local.stop().await;
}

#[tokio::test]
async fn directories_go_up_and_down_with_what_is_wanted_of_them() {
    let (local, _flaky, sandbox) = sandbox(Manner::default()).await;
    let files = sandbox.files();
    let here = tempfile::tempdir().unwrap();
    let from = here.path().join("from");
    let write = |path: &str, data: &[u8]| {
        let path = from.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
    };
    let large = noise(3 << 20);
    write("a.py", b"print(1)");
    write("src/b ü%.py", b"");
    write("src/deep/large.bin", &large);
    write("target/out", b"not wanted");
    std::fs::create_dir_all(from.join("empty/folder")).unwrap();
    std::os::unix::fs::symlink("a.py", from.join("link")).unwrap();

    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = std::sync::Arc::clone(&told);
    let up = files.upload_dir(&from, "up").exclude("target").progress(move |now| kept.lock().unwrap().push(*now));
    let up = up.await.unwrap();
    let bytes = large.len() as u64 + 8;
    assert_eq!((up.files, up.bytes, up.skipped), (3, bytes, vec!["link".into()]));
    let last = *told.lock().unwrap().last().unwrap();
    assert_eq!((last.files, last.bytes, last.total_files, last.total_bytes), (3, bytes, Some(3), Some(bytes)));
    assert!(!files.exists("up/target").await.unwrap() && files.exists("up/empty/folder").await.unwrap());
    assert_eq!(files.read("up/src/b ü%.py").await.unwrap(), "");

    let down = here.path().join("down");
    sandbox.commands().run("ln -s /etc up/out").await.unwrap();
    let done = files.download_dir("up", &down).await.unwrap();
    assert_eq!((done.files, done.bytes, done.skipped), (3, bytes, vec!["out".into()]));
    assert_eq!(std::fs::read(down.join("src/deep/large.bin")).unwrap(), large);
    assert!(down.join("empty/folder").is_dir() && !down.join("out").exists());
    let chosen = here.path().join("chosen");
    assert_eq!(files.download_dir("up", &chosen).include("**/*.py").await.unwrap().files, 2);
    assert!(
        chosen.join("src/b ü%.py").is_file() && !chosen.join("empty").exists() && !chosen.join("src/deep").exists()
    );
    for error in [
        files.upload_dir(from.join("a.py"), "x").await.unwrap_err(),
        files.upload_dir(&from, "x").include("a[").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    local.stop().await;
}
