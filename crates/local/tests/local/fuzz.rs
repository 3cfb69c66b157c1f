//! What nobody meant to send: paths, frames and forms drawn at random. A seed that failed is printed and can be run again
//! with `ONCEBOX_SEED`.

use std::path::Path;

use bytes::Bytes;
use http::Method;
use serde_json::json;

use super::support::{Sandbox, envelope, files, isolated};

/// Inputs of each kind.
const ROUNDS: usize = 150;

/// xorshift64*: the same on every machine.
struct Random(u64);

impl Random {
    fn new(test: &str) -> Self {
        let seed = std::env::var("ONCEBOX_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            u64::from(now.subsec_nanos()) | 1
        });
        println!("{test}: ONCEBOX_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit as u64).unwrap()
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| u8::try_from(self.below(256)).unwrap()).collect()
    }
}

/// The sandbox still does what it is for.
async fn is_well(sandbox: &Sandbox) {
    assert_eq!(sandbox.run("echo well").await.text(), "well\n");
}

#[tokio::test]
async fn no_path_leads_out_of_the_sandbox() {
    let Some(server) = isolated("no_path_leads_out_of_the_sandbox").await else { return };
    let mut random = Random::new("no_path_leads_out_of_the_sandbox");
    let sandbox = server.sandbox().await;
    let secret = server.base.path().join("secret");
    std::fs::write(&secret, "outside").unwrap();
    let outside = server.base.path().to_str().unwrap().trim_start_matches('/').to_owned();
    // Ways out, if paths were put together by text.
    sandbox
        .run(&format!("ln -s / root; ln -s /{outside} link; ln -s ../../../../../.. up; ln -s /proc/1/root init"))
        .await;
    let parts = [
        "..",
        ".",
        "",
        "root",
        "link",
        "up",
        "init",
        "secret",
        "home",
        "user",
        "~",
        "proc/1/cwd",
        "proc/self/root",
        "%2e%2e",
        "..%2f",
        "\\..",
        "a\u{301}",
        "\u{202e}",
        "\n",
        " ",
        "...",
        "tmp",
        &outside,
    ];
    for _ in 0..ROUNDS {
        let count = 1 + random.below(12);
        let mut path: Vec<&str> = (0..count).map(|_| random.pick(&parts)).collect();
        if random.below(2) == 0 {
            path.insert(0, "");
        }
        if random.below(2) == 0 {
            path.push("secret");
        }
        let path = path.join("/");
        let read = sandbox.read(&path).await;
        assert!(read.status.as_u16() < 500, "{path:?}: {read:?}");
        assert!(!read.body.starts_with(b"outside"), "{path:?}");
        let written = sandbox.write(&format!("{path}x"), "from inside").await;
        assert!(written.status.as_u16() < 500, "{path:?}: {written:?}");
        for method in ["Stat", "ListDir", "MakeDir"] {
            let answer = sandbox.call(&format!("filesystem.Filesystem/{method}"), json!({ "path": path })).await;
            if let Err((code, message)) = answer {
                assert_ne!(code, "unknown", "{path:?}: {message}");
            }
        }
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "outside");
    let names: Vec<_> =
        std::fs::read_dir(server.base.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "the secret and the server's folder: {names:?}");
    assert!(!Path::new("/secretx").exists());
    is_well(&sandbox).await;
}

#[tokio::test]
async fn no_frame_ends_the_daemon() {
    let Some(server) = isolated("no_frame_ends_the_daemon").await else { return };
    let mut random = Random::new("no_frame_ends_the_daemon");
    let sandbox = server.sandbox().await;
    let methods = [
        "process.Process/Start",
        "process.Process/Connect",
        "process.Process/StreamInput",
        "filesystem.Filesystem/WatchDir",
    ];
    let unary = [
        "process.Process/List",
        "process.Process/SendInput",
        "process.Process/Update",
        "filesystem.Filesystem/Stat",
        "filesystem.Filesystem/Nothing",
    ];
    let types = [
        "application/connect+json",
        "application/connect+proto",
        "application/json",
        "application/proto",
        "text/plain",
        "",
    ];
    let whole = envelope(&json!({ "process": { "cmd": "true" }, "pty": {} }));
    for _ in 0..ROUNDS {
        let mut body = whole.clone();
        match random.below(7) {
            0 => body.truncate(random.below(body.len())),
            1 => body[0] = u8::try_from(random.below(256)).unwrap(),
            2 => body[1..5].copy_from_slice(&u32::try_from(random.below(1 << 31)).unwrap().to_be_bytes()),
            3 => body = random.bytes(200),
            4 => {
                let at = random.below(body.len());
                body[at] ^= 1 << random.below(8);
            }
            // Says that it is compressed, and is not.
            5 => body[0] = 1,
            _ => body.extend(random.bytes(50)),
        }
        let method = if random.below(2) == 0 { random.pick(&methods) } else { random.pick(&unary) };
        let headers = [
            ("content-type", random.pick(&types)),
            ("connect-timeout-ms", "2000"),
            ("connect-content-encoding", random.pick(&["gzip", "identity", "nonsense", ""])),
        ];
        // The answer comes to an end, whatever it is.
        let reply = sandbox.send(Method::POST, &format!("/{method}"), &headers, body).await;
        assert_ne!(reply.status, 502, "{reply:?}");
    }
    is_well(&sandbox).await;
}

#[tokio::test]
async fn no_form_or_packed_body_ends_the_daemon() {
    let Some(server) = isolated("no_form_or_packed_body_ends_the_daemon").await else { return };
    let mut random = Random::new("no_form_or_packed_body_ends_the_daemon");
    let sandbox = server.sandbox().await;
    let pieces: [&[u8]; 12] = [
        b"--xyz\r\n",
        b"--xyz--\r\n",
        b"\r\n\r\n",
        b"\r\n",
        b"content-disposition: form-data; name=\"file\"; filename=\"",
        b"../../../../../../tmp/f\"",
        b"name=\"file\"",
        b"content-type: text/plain\r\n",
        b"data",
        b"\"",
        b"\0",
        b"--xyz",
    ];
    for round in 0..ROUNDS {
        let mut body = Vec::new();
        for _ in 0..random.below(20) {
            body.extend(random.pick(&pieces));
        }
        body.extend(random.bytes(20));
        let boundary = random.pick(&[
            "multipart/form-data; boundary=xyz",
            "multipart/form-data",
            "multipart/form-data; boundary=",
            "multipart/mixed; boundary=\"xyz",
        ]);
        let packed = if random.below(3) == 0 { "gzip" } else { "" };
        let headers = [("content-type", boundary), ("content-encoding", packed)];
        let path = if random.below(2) == 0 { "/files".to_owned() } else { files(&format!("form-{round}")) };
        let reply = sandbox.send(Method::POST, &path, &headers, Bytes::from(body)).await;
        assert!(reply.status.as_u16() < 500, "{reply:?}");
        let ranges = [(
            "range",
            random.pick(&["bytes=0-", "bytes=-", "bytes=9-1", "x", "bytes=0-0,1-1", "bytes=-99999999999999999999"]),
        )];
        let reply = sandbox.send(Method::GET, &files("/etc/passwd"), &ranges, "").await;
        assert!(reply.status.as_u16() < 500, "{reply:?}");
    }
    // What did not arrive whole left nothing behind.
    assert_eq!(sandbox.run("find / -xdev -name '.oncebox-upload-*' 2>/dev/null").await.text(), "");
    is_well(&sandbox).await;
}
