//! `/files`.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::Method;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::{Sandbox, files, isolated};

fn form(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, data) in parts {
        body.extend(
            format!("--xyz\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n").into_bytes(),
        );
        body.extend(*data);
        body.extend(b"\r\n");
    }
    body.extend(b"--xyz--\r\n");
    body
}

const FORM: (&str, &str) = ("content-type", "multipart/form-data; boundary=xyz");

#[tokio::test]
async fn every_byte_survives_the_round_trip() {
    let Some(server) = isolated("every_byte_survives_the_round_trip").await else { return };
    let sandbox = server.sandbox().await;
    let bytes: Vec<u8> = (0..=255).cycle().take(3_000_001).collect();
    let reply = sandbox.write("a/b/raw.bin", bytes.clone()).await;
    assert_eq!(reply.json(), json!([{ "name": "raw.bin", "path": "/home/user/a/b/raw.bin", "type": "file" }]));
    let reply = sandbox.read("/home/user/a/b/raw.bin").await;
    assert!(reply.body == bytes);
    assert_eq!(reply.headers["content-length"], bytes.len().to_string());
    assert!(reply.headers.contains_key("last-modified") && reply.headers.contains_key("date"));

    let reply = sandbox.send(Method::POST, &files("form.bin"), &[FORM], form(&[("ignored", &bytes)])).await;
    assert_eq!(reply.json()[0]["path"], "/home/user/form.bin");
    assert!(sandbox.read("form.bin").await.body == bytes);
    let sum = sandbox.run("sha256sum < form.bin").await;
    assert!(sum.text().starts_with(&format!("{:x}", Sha256::digest(&bytes))));

    assert_eq!(sandbox.write("empty", "").await.status, 200);
    let reply = sandbox.read("empty").await;
    assert_eq!((reply.status.as_u16(), reply.body.len()), (200, 0));
}

#[tokio::test]
async fn one_form_carries_many_files() {
    let Some(server) = isolated("one_form_carries_many_files").await else { return };
    let sandbox = server.sandbox().await;
    let body = form(&[("/tmp/one", b"1"), ("two words", b"2"), ("deep/er/three", b"3")]);
    let reply = sandbox.send(Method::POST, "/files", &[FORM], body).await;
    let paths: Vec<String> =
        reply.json().as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect();
    assert_eq!(paths, ["/tmp/one", "/home/user/two words", "/home/user/deep/er/three"]);
    assert_eq!(sandbox.read("two words").await.body, "2");
    let twice = form(&[("same", b"1"), ("./same", b"2")]);
    let message = sandbox.send(Method::POST, "/files", &[FORM], twice).await.error(400);
    assert!(message.contains("same path '/home/user/same'"), "{message}");
    assert_eq!(sandbox.read("same").await.body, "1");
}

#[tokio::test]
async fn files_answer_errors_as_json() {
    let Some(server) = isolated("files_answer_errors_as_json").await else { return };
    let sandbox = server.sandbox().await;
    assert!(sandbox.read("none").await.error(404).contains("path '/home/user/none' does not exist"));
    assert!(sandbox.read("/etc").await.error(400).contains("is a directory"));
    assert!(sandbox.read("/dev/zero").await.error(400).contains("not a regular file"));
    sandbox.run("mkfifo pipe").await;
    assert!(sandbox.read("pipe").await.error(400).contains("not a regular file"));
    assert!(sandbox.write("/etc", "x").await.error(400).contains("directory"));
    assert!(sandbox.write("/dev/null", "x").await.error(400).contains("not a regular file"));
    sandbox.write("file", "x").await;
    sandbox.write("file/below", "x").await.error(400);
    sandbox.write("/usr/new", "x").await.error(403);
    sandbox.read("~other/x").await.error(400);
    let raw = [("content-type", "application/octet-stream")];
    assert!(sandbox.send(Method::POST, "/files", &raw, "x").await.error(400).contains("'path' is required"));
    let plain = [("content-type", "text/plain")];
    assert!(sandbox.send(Method::POST, &files("x"), &plain, "x").await.error(400).contains("text/plain"));
    sandbox.send(Method::POST, &files("x"), &[FORM], "no form at all").await.error(400);
    sandbox.send(Method::PUT, &files("x"), &[], "x").await.error(405);
    let brotli = [("content-type", "application/octet-stream"), ("content-encoding", "br")];
    sandbox.send(Method::POST, &files("x"), &brotli, "x").await.error(415);
    let gzip = [("content-type", "application/octet-stream"), ("content-encoding", "gzip")];
    assert!(sandbox.send(Method::POST, &files("x"), &gzip, "x").await.error(400).contains("not whole gzip"));
    sandbox.read("x").await.error(404);
    let identity = [("content-type", "application/octet-stream"), ("content-encoding", "identity")];
    assert_eq!(sandbox.send(Method::POST, &files("x"), &identity, "x").await.status, 200);
    sandbox.send(Method::GET, "/files?path=x&username=bob", &[], "").await.error(401);
    assert_eq!(sandbox.send(Method::GET, "/files?path=x&username=user", &[], "").await.body, "x");
    assert_eq!(sandbox.read("x").await.body, "x");
    for (path, status) in [("/metrics", 405), ("/envs", 405), ("/init", 404), ("/nowhere", 404)] {
        sandbox.send(Method::POST, path, &[], "{}").await.error(status);
    }
    // Files of /proc do not know their size.
    assert!(sandbox.read("/proc/self/status").await.body.starts_with(b"Name:"));
}

#[tokio::test]
async fn the_access_token_is_needed_and_must_be_right() {
    let Some(server) = isolated("the_access_token_is_needed_and_must_be_right").await else { return };
    let (sandbox, other) = (server.sandbox().await, server.sandbox().await);
    sandbox.write("x", "x").await;
    for token in ["", "wrong", other.token.as_str()] {
        let header = [("x-access-token", token)];
        sandbox.send(Method::GET, &files("x"), &header, "").await.error(401);
        sandbox.send(Method::POST, "/process.Process/List", &header, "{}").await.error(401);
        sandbox.send(Method::POST, "/filesystem.Filesystem/Stat", &header, "{}").await.error(401);
        assert_eq!(sandbox.send(Method::GET, "/health", &header, "").await.status, 204);
    }
}

fn signed(sandbox: &Sandbox, path: &str, operation: &str, expiration: Option<u64>) -> String {
    let mut text = format!("{path}:{operation}::{}", sandbox.token);
    let mut url = files(path);
    if let Some(expiration) = expiration {
        text.push_str(&format!(":{expiration}"));
        url.push_str(&format!("&signature_expiration={expiration}"));
    }
    let signature = format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text)));
    let signature = percent_encoding::utf8_percent_encode(&signature, percent_encoding::NON_ALPHANUMERIC);
    format!("{url}&signature={signature}")
}

#[tokio::test]
async fn signed_urls_find_their_sandbox() {
    let Some(server) = isolated("signed_urls_find_their_sandbox").await else { return };
    let (sandbox, _other) = (server.sandbox().await, server.sandbox().await);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let raw = [("content-type", "application/octet-stream")];
    let http = &server.http;

    let upload = signed(&sandbox, "/tmp/signed", "write", Some(now + 60));
    assert_eq!(http.send(Method::POST, &upload, &raw, "by signature").await.status, 200);
    let download = signed(&sandbox, "/tmp/signed", "read", None);
    assert_eq!(http.send(Method::GET, &download, &[], "").await.body, "by signature");

    http.send(Method::POST, &download, &raw, "x").await.error(401);
    http.send(Method::GET, &upload, &[], "").await.error(401);
    http.send(Method::GET, &signed(&sandbox, "/tmp/signed", "read", Some(now - 60)), &[], "").await.error(401);
    http.send(Method::GET, &download.replace("signed", "other"), &[], "").await.error(401);
    http.send(Method::GET, &files("/tmp/signed"), &[], "").await.error(401);
    // A wrong token is refused even beside a right signature.
    sandbox.send(Method::GET, &download, &[("x-access-token", "wrong")], "").await.error(401);
    // A signature opens nothing else.
    let list = "/process.Process/List?signature=v1_x";
    sandbox.send(Method::POST, list, &[("x-access-token", "")], "{}").await.error(401);
}

#[tokio::test]
async fn a_cut_upload_leaves_what_was_there() {
    let Some(server) = isolated("a_cut_upload_leaves_what_was_there").await else { return };
    let sandbox = server.sandbox().await;
    sandbox.write("kept", "before").await;
    for path in ["kept", "new"] {
        let mut connection = TcpStream::connect(server.server.addr()).await.unwrap();
        let head = format!(
            "POST /files?path={path} HTTP/1.1\r\nhost: localhost\r\ne2b-sandbox-id: {}\r\nx-access-token: {}\r\n\
             content-type: application/octet-stream\r\ncontent-length: 1000000\r\n\r\n",
            sandbox.id, sandbox.token
        );
        connection.write_all(head.as_bytes()).await.unwrap();
        connection.write_all(&[b'x'; 100_000]).await.unwrap();
        connection.flush().await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        drop(connection);
    }
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(sandbox.read("kept").await.body, "before");
    sandbox.read("new").await.error(404);
    assert_eq!(sandbox.run("ls -A").await.text(), "kept\n");
}

#[tokio::test]
async fn transfers_take_bounded_memory() {
    let Some(server) = isolated("transfers_take_bounded_memory").await else { return };
    let sandbox = server.sandbox().await;
    const SIZE: usize = 150 << 20;
    let head = form(&[("large", b"")]);
    let (head, tail) = head.split_at(head.len() - "\r\n--xyz--\r\n".len());
    for (kind, head, tail) in [("application/octet-stream", &b""[..], &b""[..]), (FORM.1, head, tail)] {
        let mut connection = TcpStream::connect(server.server.addr()).await.unwrap();
        let request = format!(
            "POST /files?path=large HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ne2b-sandbox-id: {}\r\n\
             x-access-token: {}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            sandbox.id,
            sandbox.token,
            head.len() + SIZE + tail.len()
        );
        connection.write_all(request.as_bytes()).await.unwrap();
        connection.write_all(head).await.unwrap();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..SIZE / chunk.len() {
            connection.write_all(&chunk).await.unwrap();
        }
        connection.write_all(tail).await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(sandbox.run("stat -c %s large").await.text(), format!("{SIZE}\n"));
    }
    assert_eq!(sandbox.read("large").await.body.len(), SIZE);
    let peak = sandbox.run("grep VmHWM /proc/1/status | tr -dc 0-9").await;
    let peak: usize = peak.text().parse().unwrap();
    assert!(peak < 48 << 10, "{peak} KiB");
}

#[tokio::test]
async fn an_upload_keeps_the_mode_and_goes_through_links() {
    let Some(server) = isolated("an_upload_keeps_the_mode_and_goes_through_links").await else { return };
    let sandbox = server.sandbox().await;
    sandbox.run("echo old >script; chmod 750 script; ln -s script link; ln -s nowhere broken").await;
    assert_eq!(sandbox.write("link", "new").await.json()[0]["path"], "/home/user/link");
    assert_eq!(sandbox.run("cat script; stat -c %a script; readlink link").await.text(), "new750\nscript\n");
    sandbox.write("broken", "x").await.error(400);
    sandbox.write("fresh", "x").await;
    assert_eq!(sandbox.run("stat -c %a fresh").await.text(), "644\n");
}

#[tokio::test]
async fn paths_cannot_leave_the_sandbox() {
    let Some(server) = isolated("paths_cannot_leave_the_sandbox").await else { return };
    let sandbox = server.sandbox().await;
    let secret = server.base.path().join("secret");
    std::fs::write(&secret, "host's").unwrap();
    let secret = secret.to_str().unwrap();

    for path in ["../../../../../etc/hostname", "/home/user/../../etc/hostname", "/proc/self/root/etc/hostname"] {
        assert_eq!(sandbox.read(path).await.body, "e2b\n", "{path}");
    }
    sandbox.read(secret).await.error(404);
    sandbox.read(&format!("../../../../..{secret}")).await.error(404);
    sandbox.read(&format!("/proc/1/root{secret}")).await.error(404);

    // Links are followed within the sandbox's root, whatever they say.
    sandbox.run(&format!("ln -s {secret} file; ln -s / root; ln -s ../../../../../../.. up; ln -s loop loop")).await;
    sandbox.read("file").await.error(404);
    sandbox.read(&format!("root{secret}")).await.error(404);
    sandbox.read(&format!("up{secret}")).await.error(404);
    assert!(sandbox.read("loop").await.status.is_server_error());
    sandbox.write("file", "planted").await.error(400);
    sandbox.write(&format!("up{secret}.new"), "planted").await;
    assert!(!std::path::Path::new(&format!("{secret}.new")).exists());
    assert_eq!(std::fs::read_to_string(secret).unwrap(), "host's");

    // Raw request targets that no client library would send.
    for target in ["/files?path=%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fshadow", "/files?path=%00", "/../../files", "//files"]
    {
        let mut connection = TcpStream::connect(server.server.addr()).await.unwrap();
        let head = format!(
            "GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ne2b-sandbox-id: {}\r\nx-access-token: {}\r\n\r\n",
            sandbox.id, sandbox.token
        );
        connection.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 40"), "{target}: {answer}");
        assert!(!answer.contains("root:"), "{target}");
    }
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, data).unwrap();
    encoder.finish().unwrap()
}

fn gunzip(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(data), &mut out).unwrap();
    out
}

#[tokio::test]
async fn gzip_goes_both_ways() {
    let Some(server) = isolated("gzip_goes_both_ways").await else { return };
    let sandbox = server.sandbox().await;
    let text = b"the same again ".repeat(100_000);
    let packed = [("content-type", "application/octet-stream"), ("content-encoding", "gzip")];
    assert_eq!(sandbox.send(Method::POST, &files("raw"), &packed, gzip(&text)).await.status, 200);
    let packed = [FORM, ("content-encoding", "gzip")];
    assert_eq!(sandbox.send(Method::POST, "/files", &packed, gzip(&form(&[("form", &text)]))).await.status, 200);
    for name in ["raw", "form"] {
        assert!(sandbox.read(name).await.body == text, "{name}");
        let reply = sandbox.send(Method::GET, &files(name), &[("accept-encoding", "gzip, deflate")], "").await;
        assert_eq!((reply.headers["content-encoding"].as_bytes(), reply.body.len() < 100_000), (&b"gzip"[..], true));
        assert!(gunzip(&reply.body) == text);
        assert_ne!(reply.headers["etag"], sandbox.read(name).await.headers["etag"]);
    }
    sandbox.send(Method::GET, &files("raw"), &[("accept-encoding", "identity;q=0")], "").await.error(406);
    // A body cut short leaves what was there.
    let mut cut = gzip(b"new");
    cut.truncate(cut.len() - 4);
    let packed = [("content-type", "application/octet-stream"), ("content-encoding", "gzip")];
    sandbox.send(Method::POST, &files("raw"), &packed, cut).await.error(400);
    assert!(sandbox.read("raw").await.body == text);
}

#[tokio::test]
async fn parts_of_a_file_are_read_while_it_stays_the_same() {
    let Some(server) = isolated("parts_of_a_file_are_read_while_it_stays_the_same").await else { return };
    let sandbox = server.sandbox().await;
    sandbox.write("f", "0123456789").await;
    let get = async |headers: &[(&str, &str)]| sandbox.send(Method::GET, &files("f"), headers, "").await;
    let whole = get(&[]).await;
    let etag = whole.headers["etag"].to_str().unwrap().to_owned();
    let modified = whole.headers["last-modified"].to_str().unwrap().to_owned();
    assert!(etag.starts_with('"') && whole.headers["accept-ranges"] == "bytes");

    let part = get(&[("range", "bytes=3-5"), ("accept-encoding", "gzip")]).await;
    assert_eq!((part.status.as_u16(), &part.body[..]), (206, &b"345"[..]));
    assert_eq!(
        (&part.headers["content-range"], &part.headers["content-length"]),
        (&"bytes 3-5/10".parse().unwrap(), &"3".parse().unwrap())
    );
    assert_eq!(part.headers["etag"], etag);
    assert_eq!(get(&[("range", "bytes=-2"), ("if-range", &etag)]).await.body, "89");
    assert_eq!(get(&[("range", "bytes=8-"), ("if-match", &etag)]).await.body, "89");
    let beyond = get(&[("range", "bytes=10-")]).await;
    beyond.error(416);
    assert_eq!(beyond.headers["content-range"], "bytes */10");
    let same = get(&[("if-none-match", &etag)]).await;
    assert_eq!((same.status.as_u16(), same.body.len(), &same.headers["etag"]), (304, 0, &etag.parse().unwrap()));
    assert_eq!(get(&[("if-modified-since", &modified)]).await.status, 304);

    // Written in place, in the same second and to the same length.
    sandbox.run("printf abcdefghij >f").await;
    assert_ne!(get(&[]).await.headers["etag"], etag);
    let other = get(&[("range", "bytes=8-"), ("if-range", &etag)]).await;
    assert_eq!((other.status.as_u16(), &other.body[..]), (200, &b"abcdefghij"[..]));
    assert!(get(&[("if-match", &etag)]).await.error(412).contains("entity tag is"));
    assert_eq!(sandbox.send(Method::HEAD, &files("f"), &[], "").await.headers["content-length"], "10");
}

#[tokio::test]
async fn metadata_is_kept_with_a_file_until_it_is_written_again() {
    let Some(server) = isolated("metadata_is_kept_with_a_file_until_it_is_written_again").await else { return };
    let sandbox = server.sandbox().await;
    let headers = [FORM, ("x-metadata-Author", "me"), ("x-metadata-kind", "a b")];
    let reply = sandbox.send(Method::POST, "/files", &headers, form(&[("f", b"1"), ("g", b"2")])).await;
    if reply.status == 500 && reply.error(500).contains("keeps no metadata") {
        println!("SKIP metadata_is_kept_with_a_file_until_it_is_written_again: {}", reply.error(500));
        return;
    }
    let kept = json!({ "author": "me", "kind": "a b" });
    assert_eq!((&reply.json()[0]["metadata"], &reply.json()[1]["metadata"]), (&kept, &kept));
    let stat = async |path: &str| sandbox.call("filesystem.Filesystem/Stat", json!({ "path": path })).await.unwrap();
    assert_eq!(stat("g").await["entry"]["metadata"], kept);
    let list = sandbox.call("filesystem.Filesystem/ListDir", json!({ "path": "" })).await.unwrap();
    assert_eq!(list["entries"][0]["metadata"], kept);
    sandbox.write("g", "3").await;
    assert!(stat("g").await["entry"]["metadata"].is_null());
    let bad = [("content-type", "application/octet-stream"), ("x-metadata-", "x")];
    sandbox.send(Method::POST, &files("h"), &bad, "x").await.error(400);
    sandbox.read("h").await.error(404);
}

#[tokio::test]
async fn files_are_joined_into_one_and_are_gone() {
    let Some(server) = isolated("files_are_joined_into_one_and_are_gone").await else { return };
    let sandbox = server.sandbox().await;
    for (name, data) in [("p0", "one "), ("p1", "two "), ("p2", "three")] {
        sandbox.write(name, data).await;
    }
    let compose = async |body: serde_json::Value| {
        sandbox.send(Method::POST, "/files/compose", &[("content-type", "application/json")], body.to_string()).await
    };
    let missing = json!({ "source_paths": ["p0", "none"], "destination": "new/all" });
    assert!(compose(missing).await.error(404).contains("/home/user/none"));
    assert_eq!(sandbox.run("ls").await.text(), "p0\np1\np2\n");
    let reply = compose(json!({ "source_paths": ["p0", "p1", "p2"], "destination": "new/all" })).await;
    assert_eq!(reply.json(), json!({ "name": "all", "path": "/home/user/new/all", "type": "file" }));
    assert_eq!(sandbox.read("new/all").await.body, "one two three");
    assert_eq!(sandbox.run("ls").await.text(), "new\n");
    // The destination may be a part.
    sandbox.write("tail", "!").await;
    compose(json!({ "source_paths": ["new/all", "tail"], "destination": "new/all" })).await;
    assert_eq!(sandbox.read("new/all").await.body, "one two three!");
    for wrong in [
        json!({ "source_paths": [], "destination": "x" }),
        json!({ "source_paths": ["new"], "destination": "x" }),
        json!([]),
    ] {
        compose(wrong).await.error(400);
    }
    let other = json!({ "source_paths": ["new/all"], "destination": "x", "username": "bob" });
    compose(other).await.error(401);
}

#[tokio::test]
async fn metrics_and_variables_are_told_to_whoever_has_the_token() {
    let test = "metrics_and_variables_are_told_to_whoever_has_the_token";
    let Some(server) = isolated(test).await else { return };
    let sandbox = server.http.create(json!({ "templateID": "base", "envVars": { "GREETING": "hi" } })).await;
    let envs = sandbox.send(Method::GET, "/envs", &[], "").await.json();
    assert_eq!((envs["GREETING"].as_str(), envs["E2B_SANDBOX"].as_str()), (Some("hi"), Some("true")));
    let metrics = sandbox.send(Method::GET, "/metrics", &[], "").await.json();
    for name in ["ts", "cpu_count", "mem_total", "mem_used", "disk_used", "disk_total", "mem_total_mib"] {
        assert!(metrics[name].as_i64().unwrap() > 0, "{name}: {metrics}");
    }
    assert!(metrics["cpu_used_pct"].is_number());
    for path in ["/envs", "/metrics"] {
        sandbox.send(Method::GET, path, &[("x-access-token", "")], "").await.error(401);
    }
}
