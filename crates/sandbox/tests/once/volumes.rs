//! Volumes and their content, against a server that loses answers.

use bytes::Bytes;
use http_body_util::BodyExt;
use oncebox::{Body, CallOptions, Client, ErrorKind, HttpVersion, Volume, VolumeEntryKind};
use oncebox_faults::Script;
use serde_json::{Value, json};

use super::support::{Server, cut, status};

async fn server() -> (Server, Client) {
    let server = Server::start().await;
    let client = server.client();
    (server, client)
}

fn once(operation: &str, fault: Value) -> Value {
    json!({"on": [operation], "times": 1, "fault": fault})
}

/// So many bytes, all different from their neighbours' neighbours'.
fn data(len: usize) -> Bytes {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect::<Vec<_>>().into()
}

#[tokio::test]
async fn a_volume_is_made_found_and_deleted() {
    let (_server, client) = server().await;
    let volume = Volume::create(&client, "data").await.unwrap();
    let other = Volume::create(&client, "other").await.unwrap();
    assert_eq!(Volume::create(&client, "data").await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let mut names: Vec<_> = Volume::list(&client).await.unwrap().into_iter().map(|volume| volume.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["data", "other"]);
    let info = Volume::info(&client, volume.id()).await.unwrap();
    assert_eq!((info.id.as_str(), info.name.as_str()), (volume.id(), "data"));
    volume.write_file("/a", "content").await.unwrap();
    let same = Volume::connect(&client, volume.id()).await.unwrap();
    assert_eq!((same.name(), same.read_text("/a").await.unwrap().as_str()), ("data", "content"));
    assert!(Volume::destroy(&client, volume.id()).await.unwrap());
    assert!(!Volume::destroy(&client, volume.id()).await.unwrap());
    assert_eq!(Volume::connect(&client, volume.id()).await.unwrap_err().kind(), ErrorKind::NotFound);
    // The token of a volume that is gone opens nothing.
    assert_eq!(same.read_file("/a").await.unwrap_err().kind(), ErrorKind::Authentication);
    assert_eq!(Volume::list(&client).await.unwrap()[0].id, other.id());
}

#[tokio::test]
async fn what_cannot_be_right_is_refused_before_any_request() {
    let (server, client) = server().await;
    let volume = Volume::create(&client, "data").await.unwrap();
    server.faults(json!({"rules": [{"fault": status(500, "before")}]})).await;
    for error in [
        Volume::create(&client, "").await.unwrap_err(),
        Volume::create(&client, "a/b").await.unwrap_err(),
        Volume::connect(&client, "..").await.unwrap_err(),
        Volume::destroy(&client, "").await.unwrap_err(),
        volume.read_file("").await.unwrap_err(),
        volume.list_dir("/", 0).await.unwrap_err(),
        volume.write_file("a\0b", "x").await.unwrap_err(),
        volume.update_metadata("/a").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.attempts().is_empty(), "{error}");
    }
}

#[tokio::test]
async fn files_are_written_read_listed_changed_and_removed() {
    let (_server, client) = server().await;
    let volume = Volume::create(&client, "data").await.unwrap();
    assert_eq!(volume.write_file("/a/b", "x").await.unwrap_err().kind(), ErrorKind::NotFound);
    let made = volume.make_dir("/a").mode(0o750).await.unwrap();
    assert_eq!((made.kind, made.path.as_str(), made.mode & 0o777), (VolumeEntryKind::Directory, "/a", 0o750));
    assert_eq!(volume.make_dir("/a").await.unwrap_err().kind(), ErrorKind::Conflict);
    volume.make_dir("/a").force(true).await.unwrap();
    volume.make_dir("/deep/er").force(true).await.unwrap();

    let bytes = data(300_000);
    let written = volume.write_file("/a/b ü&?", bytes.clone()).mode(0o600).await.unwrap();
    assert_eq!((written.kind, written.size, written.mode & 0o777), (VolumeEntryKind::File, 300_000, 0o600));
    assert_eq!(volume.read_file("/a/b ü&?").await.unwrap(), bytes);
    assert_eq!(volume.entry("/a/b ü&?").await.unwrap().path, "/a/b ü&?");
    let mut stream = volume.read_stream("/a/b ü&?").await.unwrap();
    let (mut total, mut largest) = (0, 0);
    while let Some(frame) = stream.frame().await {
        let part = frame.unwrap().into_data().unwrap();
        assert_eq!(part, bytes[total..total + part.len()]);
        (total, largest) = (total + part.len(), largest.max(part.len()));
    }
    assert!(total == 300_000 && largest < total, "{total} {largest}");

    volume
        .write_file("/new/streamed", Body::stream(http_body_util::Full::new(bytes.clone())))
        .force(true)
        .await
        .unwrap();
    assert_eq!(volume.read_file("/new/streamed").await.unwrap(), bytes);
    volume.write_reader("/new/streamed", std::io::Cursor::new("from a reader")).await.unwrap();
    assert_eq!(volume.read_text("/new/streamed").await.unwrap(), "from a reader");
    volume.write_file("/raw", vec![0xff]).await.unwrap();
    assert_eq!(volume.read_text("/raw").await.unwrap_err().kind(), ErrorKind::Server);

    let paths = |entries: Vec<oncebox::VolumeEntry>| {
        let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path).collect();
        paths.sort_unstable();
        paths
    };
    assert_eq!(paths(volume.list_dir("/", 1).await.unwrap()), ["/a", "/deep", "/new", "/raw"]);
    let deep = paths(volume.list_dir("/", 2).await.unwrap());
    assert_eq!(deep, ["/a", "/a/b ü&?", "/deep", "/deep/er", "/new", "/new/streamed", "/raw"]);
    let changed = volume.update_metadata("/raw").mode(0o640).await.unwrap();
    assert_eq!(changed.mode & 0o777, 0o640);
    volume.remove("/new").await.unwrap();
    assert!(!volume.exists("/new").await.unwrap() && volume.exists("/raw").await.unwrap());
    let error = volume.remove("/new").await.unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::NotFound, Some(404)));
    assert!(error.to_string().contains("could not remove the volume's path"), "{error}");
}

#[tokio::test]
async fn a_create_whose_answer_was_lost_is_found_by_its_name() {
    for fault in [cut("after"), status(504, "after"), json!({"late": {"seconds": 0.4}}), cut("before")] {
        let (server, client) = server().await;
        Volume::create(&client, "other").await.unwrap();
        server.faults(json!({"rules": [once("createVolume", fault.clone())]})).await;
        let volume = Volume::create(&client, "data").await.unwrap();
        assert_eq!(volume.name(), "data", "{fault}");
        // It has its token.
        volume.write_file("/a", "x").await.unwrap();
        assert_eq!(Volume::list(&client).await.unwrap().len(), 2);
    }
}

/// Lists that lag longer than `settle` have the create sent again, into the way of what the first one made.
#[tokio::test]
async fn what_the_first_attempt_made_is_found_when_it_is_in_the_way_of_the_second() {
    let (server, client) = server().await;
    let nothing = json!({"on": ["listVolumes"], "times": 8, "fault": {"status": {"code": 200, "body": []}}});
    server.faults(json!({"rules": [nothing, once("createVolume", cut("after"))]})).await;
    let volume = Volume::create(&client, "data").await.unwrap();
    volume.write_file("/a", "x").await.unwrap();
    assert_eq!(Volume::list(&client).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_volume_that_holds_something_is_nobodys_new_one() {
    let (server, client) = server().await;
    server.faults(json!({"rules": [once("createVolume", json!({"late": {"seconds": 0.8}}))]})).await;
    // Another process makes one of this name, and uses it, after ours was sent and before it has its effect.
    let other = server.client();
    let (ours, theirs) = tokio::join!(Volume::create(&client, "data"), async {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        server.faults(json!({"rules": [{"on": ["listVolumes"], "times": 3, "fault": status(503, "before")}]})).await;
        let volume = Volume::create(&other, "data").await.unwrap();
        volume.write_file("/theirs", "x").await.unwrap();
        volume
    });
    let error = ours.unwrap_err();
    assert!(error.outcome_unknown(), "{error}");
    assert_eq!(error.candidates(), [theirs.id()]);
}

#[tokio::test]
async fn content_is_sent_again_only_where_that_is_asked_for() {
    let (server, client) = server().await;
    let volume = Volume::create(&client, "data").await.unwrap();
    server
        .faults(json!({"rules": [{"on": ["writeVolumeFile", "readVolumeFile"], "fault": status(503, "before")}]}))
        .await;
    let error = volume.write_file("/a", "x").await.unwrap_err();
    assert!(error.is_busy() && error.attempts().len() == 1, "{error}");
    let error = volume.read_file("/a").await.unwrap_err();
    assert!(error.is_busy() && error.attempts().len() == 1, "{error}");
    let busy = json!({"status": {"code": 503, "headers": {"Retry-After": "0"}}});
    let rules = json!([
        once("writeVolumeFile", busy),
        once("writeVolumeFile", cut("after")),
        once("writeVolumeFile", cut("before"))
    ]);
    server.faults(json!({ "rules": rules })).await;
    let patient = volume.with(CallOptions::new().retries(3)).unwrap();
    let bytes = data(3 << 20);
    let again = bytes.clone();
    let body = Body::rewindable(Some(3 << 20), move || http_body_util::Full::new(again.clone()));
    patient.write_file("/a", body).await.unwrap();
    assert_eq!(volume.read_file("/a").await.unwrap(), bytes);
    // Without force a second make would be refused: an answer that was lost is for the caller to judge.
    server.faults(json!({"rules": [once("makeVolumeDir", cut("after"))]})).await;
    let error = patient.make_dir("/d").await.unwrap_err();
    assert!(error.outcome_unknown() && error.attempts().len() == 1, "{error}");
    server.faults(json!({"rules": [once("makeVolumeDir", cut("after"))]})).await;
    patient.make_dir("/d").force(true).await.unwrap();
}

/// Each connection is retired after four requests, some requests are refused, a 503 comes in between, and one upload is cut
/// half-way.
#[tokio::test]
async fn transfers_survive_connections_that_retire_and_a_busy_server() {
    const SIZE: usize = 2 << 20;
    let server = Server::start().await;
    let script = json!({"rules": [
        {"name": "retire", "at": "request", "when": {"nth": 4}, "do": [{"goaway": {"debug": "max_age"}}]},
        {"name": "refuse", "at": "request", "when": {"method": "PUT", "count": 2}, "do": ["refuse"]},
        {"name": "busy", "at": "received", "when": {"method": "PUT", "count": 3},
            "do": [{"answer": {"status": 503, "headers": {"retry-after": "0"}}}]},
        {"name": "cut", "at": {"request_body": SIZE / 2}, "when": {"method": "PUT", "count": 5}, "do": ["close"]},
        {"name": "refuse-read", "at": "request", "when": {"method": "GET", "path": "/volumecontent/*", "count": 2}, "do": ["refuse"]},
    ]});
    let script = Script::from_json(&script.to_string()).unwrap();
    let proxy = oncebox_faults::Server::builder(script).proxy_to(&server.local.url()).start().await.unwrap();
    let client = server.client_at(&proxy.url(""), |builder| builder.http_version(HttpVersion::Http2));
    let volume = Volume::create(&client, "data").await.unwrap();
    let volume = volume.with(CallOptions::new().retries(3)).unwrap();
    for number in 0..6 {
        let bytes = data(SIZE + number);
        let again = bytes.clone();
        let body = Body::rewindable(Some(bytes.len() as u64), move || http_body_util::Full::new(again.clone()));
        let path = format!("/f{number}");
        let written = volume.write_file(&path, body).await.unwrap();
        assert_eq!(written.size, bytes.len() as u64);
        assert_eq!(volume.read_file(&path).await.unwrap(), bytes, "{path}");
    }
    let totals = proxy.log().totals();
    println!("{totals:?}");
    for rule in ["retire", "refuse", "busy", "cut", "refuse-read"] {
        assert!(proxy.log().fired(rule) > 0, "{rule} never fired: {totals:?}");
    }
}
