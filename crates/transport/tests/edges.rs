//! The TLS edges that people put in front of their servers, as Debian ships them: few streams a connection, few
//! requests a connection, and reloads under load. Nothing is lost and nothing is doubled.
//!
//! `cargo xtask setup --system` installs them.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::Request;
use oncebox_faults::{Script, Server};
use oncebox_transport::{Body, CallOptions, Client};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use support::load::serve;
use tempfile::TempDir;

const REQUESTS: usize = 20_000;
const AT_ONCE: usize = 64;

/// How often the edge is reloaded while requests are under way.
const RELOADS: usize = 3;

/// Longer than an edge takes to start.
const START: Duration = Duration::from_secs(20);

/// A program in front of the server that counts.
struct Edge {
    child: Child,
    port: u16,
    ca: String,
    reload: &'static str,
    files: TempDir,
}

/// What an edge's configuration is made of.
struct Setting<'a> {
    port: u16,
    backend: u16,
    folder: &'a Path,
}

impl Edge {
    /// `None`, and the reason is printed, where the program is not installed.
    fn start(
        test: &str,
        program: &str,
        reload: &'static str,
        backend: &Server,
        configure: impl FnOnce(&Setting<'_>) -> (String, Vec<String>),
    ) -> Option<Self> {
        let Some(path) = installed(program) else {
            println!("SKIP {test}: {program} is not installed (cargo xtask setup --system)");
            return None;
        };
        let files = tempfile::tempdir().unwrap();
        let ca = certificates(files.path());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let setting = Setting { port, backend: backend.addr().port(), folder: files.path() };
        let (configuration, args) = configure(&setting);
        std::fs::write(files.path().join("conf"), configuration).unwrap();
        // It ends with the test, however that ends.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "--"])
            .arg(path)
            .args(args)
            .current_dir(files.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(files.path().join("stderr")).unwrap())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut edge = Self { child, port, ca, reload, files };
        let started = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", edge.port)).is_err() {
            let ended = edge.child.try_wait().unwrap();
            assert!(ended.is_none() && started.elapsed() < START, "{program} does not start:\n{}", edge.errors());
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(edge)
    }

    fn reload(&self) {
        signal(self.reload, &self.child.id().to_string());
    }

    /// Its processes but the first, which reloads them.
    fn workers(&self) -> HashSet<u32> {
        let group = self.child.id();
        let pids = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| *pid != group && process_group(*pid) == Some(group)).collect()
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.files.path().join("stderr")).unwrap_or_default()
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // Its workers are in its group.
        signal("KILL", &format!("-{}", self.child.id()));
        let _ = self.child.wait();
    }
}

fn process_group(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the program's name, which may hold anything: state, parent, group.
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

fn signal(name: &str, process: &str) {
    let _ = Command::new("sh").args(["-c", &format!("kill -{name} {process}")]).status();
}

fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    // Where Debian puts servers, and not every shell looks.
    let folders = path.split(':').chain(["/usr/sbin"]);
    folders.map(|folder| Path::new(folder).join(program)).find(|file| file.is_file())
}

/// Writes `cert.pem`, `key.pem`, and `both.pem`, for `localhost`. Returns the authority that vouches for them.
fn certificates(folder: &Path) -> String {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
    let (leaf, key) = (leaf.pem(), key.serialize_pem());
    std::fs::write(folder.join("cert.pem"), &leaf).unwrap();
    std::fs::write(folder.join("key.pem"), &key).unwrap();
    std::fs::write(folder.join("both.pem"), format!("{leaf}{key}")).unwrap();
    ca.pem()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_loses_and_doubles_nothing() {
    let backend = serve(Script::new()).await;
    let edge = Edge::start("nginx_loses_and_doubles_nothing", "nginx", "HUP", &backend, |setting| {
        let Setting { port, backend, folder } = setting;
        let mut conf = format!(
            "daemon off; worker_processes 1; error_log stderr; pid {folder}/pid; events {{ worker_connections 1024; }}
            http {{ access_log off; http2_max_concurrent_streams 10; keepalive_requests 50;
            upstream backend {{ server 127.0.0.1:{backend}; keepalive 32; }}
            server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {folder}/cert.pem;
            ssl_certificate_key {folder}/key.pem; location / {{ proxy_pass http://backend; proxy_http_version 1.1;
            proxy_set_header Connection ''; }} }}\n",
            folder = folder.display(),
        );
        for what in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            writeln!(conf, "{what}_temp_path {}/temp;", folder.display()).unwrap();
        }
        conf.push('}');
        let args = ["-e", "stderr", "-p", ".", "-c"].map(str::to_owned).into_iter();
        (conf, args.chain([folder.join("conf").display().to_string()]).collect())
    });
    if let Some(edge) = edge {
        loses_and_doubles_nothing(&edge, &backend).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn haproxy_loses_and_doubles_nothing() {
    let backend = serve(Script::new()).await;
    let edge = Edge::start("haproxy_loses_and_doubles_nothing", "haproxy", "USR2", &backend, |setting| {
        let Setting { port, backend, .. } = setting;
        let conf = format!(
            "global\n  tune.h2.max-concurrent-streams 10\n  hard-stop-after 20s\ndefaults\n  mode http\n  \
             timeout connect 5s\n  timeout client 30s\n  timeout server 30s\nfrontend f\n  \
             bind 127.0.0.1:{port} ssl crt both.pem alpn h2,http/1.1\n  default_backend b\nbackend b\n  \
             server s 127.0.0.1:{backend}\n",
        );
        (conf, ["-W", "-f", "conf"].map(str::to_owned).to_vec())
    });
    if let Some(edge) = edge {
        loses_and_doubles_nothing(&edge, &backend).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nghttpx_loses_and_doubles_nothing() {
    let backend = serve(Script::new()).await;
    let edge = Edge::start("nghttpx_loses_and_doubles_nothing", "nghttpx", "HUP", &backend, |setting| {
        let Setting { port, backend, folder } = setting;
        let folder = folder.display();
        let conf = format!(
            "frontend=127.0.0.1,{port}\nbackend=127.0.0.1,{backend}\nprivate-key-file={folder}/key.pem\n\
             certificate-file={folder}/cert.pem\nfrontend-http2-max-concurrent-streams=10\nworkers=1\n\
             errorlog-file=/dev/stderr\n",
        );
        (conf, vec![format!("--conf={folder}/conf")])
    });
    if let Some(edge) = edge {
        loses_and_doubles_nothing(&edge, &backend).await;
    }
}

async fn loses_and_doubles_nothing(edge: &Edge, backend: &Server) {
    let client = Client::builder().add_root_certificates(edge.ca.as_bytes()).unwrap().build();
    let next = Arc::new(AtomicUsize::new(0));
    let url = format!("https://localhost:{}/", edge.port);
    let workers: Vec<_> = (0..AT_ONCE).map(|_| tokio::spawn(work(client.clone(), url.clone(), next.clone()))).collect();
    let before = edge.workers();
    for reload in 1..=RELOADS {
        while next.load(Ordering::Relaxed) < REQUESTS * reload / (RELOADS + 1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        edge.reload();
    }
    let mut failed = Vec::new();
    for worker in workers {
        failed.extend(worker.await.unwrap());
    }
    assert!(!edge.workers().is_subset(&before), "it was not reloaded");
    assert!(failed.is_empty(), "{} failed; one: {}\n{}", failed.len(), failed[0], edge.errors());
    assert_eq!(backend.log().doubled(), []);
    assert_eq!(backend.log().totals().processed, REQUESTS as u64);
}

async fn work(client: Client, url: String, next: Arc<AtomicUsize>) -> Vec<String> {
    let mut failed = Vec::new();
    loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        if n >= REQUESTS {
            return failed;
        }
        let request = Request::post(&url).header("x-request-id", format!("r{n}"));
        let request = request.body(Body::from(vec![b'x'; 100])).unwrap();
        match client.send_collected(request, CallOptions::new()).await {
            Ok(response) if response.status() == 200 && response.version() == http::Version::HTTP_2 => {}
            Ok(response) => failed.push(format!("r{n}: {} over {:?}", response.status(), response.version())),
            Err(error) => failed.push(format!("r{n}: {error}")),
        }
    }
}
