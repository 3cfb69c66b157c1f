//! A git server over HTTP that wants a password: `git http-backend` behind the least of an HTTP server.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use base64::Engine;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

/// Called for each request that has the right password, before it is answered.
pub(crate) type Hook = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

pub(crate) struct GitServer {
    pub(crate) port: u16,
    root: PathBuf,
    shared: Arc<Shared>,
}

struct Shared {
    root: PathBuf,
    authorization: String,
    hook: Mutex<Option<Hook>>,
    /// Whether each request had the right password.
    seen: Mutex<Vec<bool>>,
}

/// `None`, and a line that says so, where this machine has no git that can serve.
pub(crate) fn git_can_serve(test: &str) -> bool {
    let path = std::process::Command::new("git").arg("--exec-path").output();
    let can = path.is_ok_and(|out| {
        out.status.success() && Path::new(String::from_utf8_lossy(&out.stdout).trim()).join("git-http-backend").exists()
    });
    if !can {
        println!("SKIP {test}: git http-backend is not installed");
    }
    can
}

impl GitServer {
    /// A server of one empty repository, `project.git`.
    pub(crate) async fn start(username: &str, password: &str) -> Self {
        let mut random = [0; 8];
        getrandom::fill(&mut random).unwrap();
        let root = std::env::temp_dir().join(format!("oncebox-git-{:016x}", u64::from_ne_bytes(random)));
        std::fs::create_dir(&root).unwrap();
        git(&root, &["init", "--quiet", "--bare", "--initial-branch", "main", "project.git"]);
        let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{username}:{password}"));
        let shared = Arc::new(Shared {
            root: root.clone(),
            authorization: format!("Basic {encoded}"),
            hook: Mutex::default(),
            seen: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let for_all = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&for_all)));
            }
        });
        Self { port, root, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/project.git", self.port)
    }

    #[allow(dead_code)] // Of the test of what is told.
    pub(crate) fn hook(&self, hook: Hook) {
        *self.shared.hook.lock().unwrap() = Some(hook);
    }

    #[allow(dead_code)]
    /// The latest commit's subject, as the server has it.
    pub(crate) fn latest(&self) -> String {
        git(&self.root.join("project.git"), &["log", "-1", "--format=%s", "main"])
    }

    #[allow(dead_code)]
    /// Requests with the right password, and without.
    pub(crate) fn seen(&self) -> (usize, usize) {
        let seen = self.shared.seen.lock().unwrap();
        let right = seen.iter().filter(|right| **right).count();
        (right, seen.len() - right)
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

fn git(folder: &Path, args: &[&str]) -> String {
    let output = std::process::Command::new("git").current_dir(folder).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

async fn serve(socket: TcpStream, shared: Arc<Shared>) {
    let mut socket = BufReader::new(socket);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if socket.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_owned());
    }
    let header = |name: &str| {
        let of = |line: &String| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        };
        head.iter().find_map(of).unwrap_or_default()
    };
    let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
    socket.read_exact(&mut body).await.unwrap();
    let right = header("authorization") == shared.authorization;
    shared.seen.lock().unwrap().push(right);
    if !right {
        let refusal = "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Basic realm=\"test\"\r\ncontent-length: 0\r\n\
                       connection: close\r\n\r\n";
        let _ = socket.write_all(refusal.as_bytes()).await;
        return;
    }
    let hook = shared.hook.lock().unwrap().clone();
    if let Some(hook) = hook {
        hook().await;
    }
    let mut request = head[0].split(' ');
    let (method, target) = (request.next().unwrap().to_owned(), request.next().unwrap().to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut backend = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", &shared.root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REMOTE_USER", "tester")
        .env("REQUEST_METHOD", method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = backend.stdin.take().unwrap();
    tokio::spawn(async move { stdin.write_all(&body).await });
    let output = backend.wait_with_output().await.unwrap().stdout;
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let cgi = String::from_utf8_lossy(&output[..end]).into_owned();
    let status = cgi.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let headers: String =
        cgi.lines().filter(|line| !line.starts_with("Status:")).map(|line| format!("{line}\r\n")).collect();
    let answer = &output[end + 4..];
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n", answer.len());
    let _ = socket.write_all(head.as_bytes()).await;
    let _ = socket.write_all(answer).await;
    let _ = socket.shutdown().await;
}
