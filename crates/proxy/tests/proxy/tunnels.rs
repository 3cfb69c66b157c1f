//! Connections that change their protocol, and how many of anything there may be at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use oncebox::{Client, HttpVersion};
use oncebox_proxy::{Proxy, ProxyBuilder, StartError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::support::{header, json_of, until};

/// A program in a sandbox, which tells the head of each request. What follows is up to `then`.
struct Program {
    url: String,
    heads: mpsc::UnboundedReceiver<String>,
    requests: Arc<AtomicUsize>,
}

#[derive(Clone, Copy)]
enum Then {
    /// Changes the protocol, greets, and says everything again in upper case.
    Echo,
    /// Closes without an answer.
    Cut,
    /// An ordinary answer.
    Answer,
    /// Never answers.
    Hold,
}

async fn read_head(socket: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap().to_lowercase())
}

impl Program {
    async fn start(then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, heads) = mpsc::unbounded_channel();
        let requests = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let (tell, seen) = (tell.clone(), Arc::clone(&seen));
                tokio::spawn(async move {
                    while let Some(head) = read_head(&mut socket).await {
                        seen.fetch_add(1, Ordering::SeqCst);
                        let _ = tell.send(head);
                        match then {
                            Then::Cut => return,
                            Then::Hold => std::future::pending::<()>().await,
                            Then::Answer => {
                                let answer = b"HTTP/1.1 426 No\r\ncontent-length: 2\r\n\r\nno";
                                socket.write_all(answer).await.unwrap();
                            }
                            Then::Echo => {
                                let answer =
                                    b"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: echo/2\r\nX-Own: 1\r\n\r\nhi ";
                                socket.write_all(answer).await.unwrap();
                                let mut piece = [0; 100];
                                while let Ok(read @ 1..) = socket.read(&mut piece).await {
                                    socket.write_all(&piece[..read].to_ascii_uppercase()).await.unwrap();
                                }
                                let _ = tell.send("ended".to_owned());
                                return;
                            }
                        }
                    }
                });
            }
        });
        Self { url, heads, requests }
    }

    /// A proxy before it, which asks for HTTP/2 where it can.
    async fn proxy(&self, set_up: impl FnOnce(ProxyBuilder) -> ProxyBuilder) -> Proxy {
        let client = Client::builder().api_key("unused").api_url(&self.url).sandbox_url(&self.url);
        let client = client.http_version(HttpVersion::Http2).no_proxy().build().unwrap();
        set_up(Proxy::builder(&client)).start().await.unwrap()
    }

    async fn next(&mut self) -> String {
        tokio::time::timeout(Duration::from_secs(10), self.heads.recv()).await.unwrap().unwrap()
    }
}

/// Asks to change the protocol; the answer's head, and the connection.
async fn ask(proxy: &Proxy, protocol: &str) -> (String, TcpStream) {
    let mut socket = TcpStream::connect(proxy.addr()).await.unwrap();
    let head = format!(
        "GET /socket?a=b HTTP/1.1\r\nHost: 8000-iabc.localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: {protocol}\r\n\
         Sec-WebSocket-Key: k\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    (read_head(&mut socket).await.unwrap(), socket)
}

async fn hear(socket: &mut TcpStream, words: &str) {
    let mut heard = vec![0; words.len()];
    socket.read_exact(&mut heard).await.unwrap();
    assert_eq!(String::from_utf8(heard).unwrap(), words);
}

#[tokio::test]
async fn a_connection_that_changes_its_protocol_is_carried_both_ways_until_either_side_ends() {
    let mut program = Program::start(Then::Echo).await;
    let proxy = program.proxy(|builder| builder).await;
    let (answer, mut socket) = ask(&proxy, "echo").await;
    assert!(answer.starts_with("http/1.1 101 ") && answer.contains("\r\nconnection: upgrade\r\n"), "{answer}");
    assert!(answer.contains("\r\nupgrade: echo/2\r\n") && answer.contains("\r\nx-own: 1\r\n"), "{answer}");
    let asked = program.next().await;
    assert!(asked.starts_with("get /socket?a=b http/1.1\r\n"), "{asked}");
    for line in ["connection: upgrade", "upgrade: echo", "sec-websocket-key: k"] {
        assert!(asked.contains(&format!("\r\n{line}\r\n")), "{asked}");
    }
    hear(&mut socket, "hi ").await;
    for _ in 0..3 {
        socket.write_all(b"hello").await.unwrap();
        hear(&mut socket, "HELLO").await;
    }
    assert_eq!(proxy.status().counts.tunnels, 1);
    socket.shutdown().await.unwrap();
    assert_eq!(program.next().await, "ended");
    assert_eq!(socket.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    until("the tunnel's end", || async { proxy.status().counts.tunnels == 0 }).await;

    // It ends with the proxy, too.
    let (_, mut socket) = ask(&proxy, "echo").await;
    hear(&mut socket, "hi ").await;
    program.next().await;
    assert!(proxy.stop().await.is_empty());
    assert_eq!(program.next().await, "ended");
    assert!(matches!(socket.read(&mut [0; 1]).await, Ok(0) | Err(_)));
}

#[tokio::test]
async fn a_wish_to_change_the_protocol_that_may_have_been_seen_is_not_repeated() {
    let program = Program::start(Then::Cut).await;
    let proxy = program.proxy(|builder| builder.sandbox_retries(3)).await;
    let (answer, _) = ask(&proxy, "websocket").await;
    assert!(answer.starts_with("http/1.1 502 ") && answer.contains("\r\nshould-retry: false\r\n"), "{answer}");
    assert_eq!(program.requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_program_may_decline_and_h2c_is_no_wish_to_it() {
    let mut program = Program::start(Then::Answer).await;
    let proxy = program.proxy(|builder| builder).await;
    let (answer, mut socket) = ask(&proxy, "websocket").await;
    assert!(answer.starts_with("http/1.1 426 ") && !answer.contains("upgrade:"), "{answer}");
    hear(&mut socket, "no").await;
    assert!(program.next().await.contains("\r\nupgrade: websocket\r\n"));
    // The connection goes on.
    socket.write_all(b"GET / HTTP/1.1\r\nHost: 8000-iabc.localhost\r\n\r\n").await.unwrap();
    assert!(read_head(&mut socket).await.unwrap().starts_with("http/1.1 502 "), "this program speaks no HTTP/2");
    let http1 = Client::builder().api_key("unused").api_url(&program.url).sandbox_url(&program.url);
    let proxy =
        Proxy::builder(&http1.http_version(HttpVersion::Http1).no_proxy().build().unwrap()).start().await.unwrap();
    while program.heads.try_recv().is_ok() {}
    assert!(ask(&proxy, "h2c").await.0.starts_with("http/1.1 426 "));
    let asked = program.next().await;
    assert!(asked.starts_with("get /socket") && !asked.contains("upgrade"), "{asked}");
}

async fn plain(proxy: &Proxy, version: HttpVersion) -> http::Response<bytes::Bytes> {
    let http = oncebox_transport::Client::builder().retries(0).connection_retries(0).http_version(version).no_proxy();
    let request = http::Request::builder().method(Method::GET).uri(format!("{}/v2/sandboxes", proxy.url()));
    let request = request.body(oncebox::Body::empty()).unwrap();
    http.build().send_collected(request, oncebox_transport::CallOptions::new()).await.unwrap().into_http()
}

fn assert_is_turned_away(answer: &http::Response<bytes::Bytes>, option: &str) {
    assert_eq!((answer.status().as_u16(), header(answer, "should-retry").as_deref()), (503, Some("true")));
    assert_eq!(header(answer, "retry-after").as_deref(), Some("1"));
    let told = json_of(answer);
    assert_eq!(told["error_code"], "oncebox_crowded");
    assert!(told["message"].as_str().unwrap().contains(option), "{told}");
}

#[tokio::test]
async fn a_connection_too_many_is_told_so_and_a_tunnel_is_one() {
    let program = Program::start(Then::Echo).await;
    let proxy = program.proxy(|builder| builder.max_clients(2)).await;
    let (_, socket) = ask(&proxy, "echo").await;
    let idle = TcpStream::connect(proxy.addr()).await.unwrap();
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        assert_is_turned_away(&plain(&proxy, version).await, "max_clients (--max-clients)");
    }
    assert_eq!((program.requests.load(Ordering::SeqCst), proxy.status().counts.crowded), (1, 2));
    drop((socket, idle));
    until("room", || async { ask(&proxy, "echo").await.0.starts_with("http/1.1 101 ") }).await;
}

#[tokio::test]
async fn a_call_too_many_is_told_so() {
    let mut program = Program::start(Then::Hold).await;
    let proxy = program.proxy(|builder| builder.max_calls(1)).await;
    let mut held = TcpStream::connect(proxy.addr()).await.unwrap();
    let head = b"GET / HTTP/1.1\r\nHost: 8000-iabc.localhost\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    held.write_all(head).await.unwrap();
    program.next().await;
    assert_is_turned_away(&plain(&proxy, HttpVersion::Http2).await, "max_calls (--max-calls)");
    drop(held);
    until("room", || async { proxy.status().counts.under_way == 0 }).await;
    let mut next = TcpStream::connect(proxy.addr()).await.unwrap();
    next.write_all(head).await.unwrap();
    program.next().await;
}

#[tokio::test]
async fn what_is_no_name_and_room_for_nothing_are_refused_at_the_start() {
    let program = Program::start(Then::Cut).await;
    let client = Client::builder().api_key("unused").api_url(&program.url).build().unwrap();
    for wrong in ["", "http://box", "box:3100", "box/", "*.box", "a..b", "-a", ".a", "a.", "10.0.0.1", "a b"] {
        let refused = Proxy::builder(&client).allow_host(wrong).start().await.unwrap_err();
        assert!(matches!(&refused, StartError::Host { name } if name == wrong), "{refused}");
    }
    let proxy = Proxy::builder(&client).allow_host("Build-Box.internal").start().await.unwrap();
    drop(proxy);
    let refused = Proxy::builder(&client).max_calls(0).start().await.unwrap_err();
    assert!(refused.to_string().starts_with("max_calls is 0: "), "{refused}");
}
