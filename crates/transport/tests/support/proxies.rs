//! Proxies for tests, written by hand, which share nothing with the client: HTTP (absolute form and CONNECT) and SOCKS
//! version 5 on one port, told apart by the first byte.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::NoClientAuth;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;

/// A proxy on loopback that reaches every name at 127.0.0.1. It stops when it is dropped.
pub struct Proxy {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    /// What was asked for on each connection, in one line.
    asked: Vec<String>,
    /// The heads of what was asked for over HTTP.
    heads: Vec<String>,
}

/// How a proxy is.
#[derive(Clone, Default)]
pub struct Manner {
    /// Speaks TLS to its clients.
    pub tls: Option<TlsAcceptor>,
    /// Wants this user and password.
    pub login: Option<(&'static str, &'static str)>,
    /// Refuses what it is asked for: a status over HTTP, a reply of SOCKS.
    pub refuses: Option<(u16, u8)>,
    /// Never answers.
    pub is_silent: bool,
}

impl Proxy {
    pub async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let kept = seen.clone();
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (manner, seen) = (manner.clone(), kept.clone());
                tokio::spawn(async move {
                    // A connection that ends in an error is what some tests are about.
                    let _ = match &manner.tls {
                        None => serve(socket, &manner, &seen).await,
                        Some(tls) => match tls.accept(socket).await {
                            Ok(stream) => serve(stream, &manner, &seen).await,
                            Err(error) => Err(error),
                        },
                    };
                });
            }
        });
        Self { address, seen, task }
    }

    /// What was asked for, in order.
    pub fn asked(&self) -> Vec<String> {
        self.seen.lock().asked.clone()
    }

    /// The heads of what was asked for over HTTP.
    pub fn heads(&self) -> Vec<String> {
        self.seen.lock().heads.clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve<S>(mut client: S, manner: &Manner, seen: &Mutex<Seen>) -> std::io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let first = client.read_u8().await?;
    if manner.is_silent {
        seen.lock().asked.push("silence".to_owned());
        let mut ignored = Vec::new();
        client.read_to_end(&mut ignored).await?;
        return Ok(());
    }
    if first == 5 { socks(client, manner, seen).await } else { http(client, first, manner, seen).await }
}

async fn http<S>(mut client: S, first: u8, manner: &Manner, seen: &Mutex<Seen>) -> std::io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut head = vec![first];
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let text = String::from_utf8(head.clone()).unwrap();
    let mut words = text.split(' ');
    let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
    {
        let mut seen = seen.lock();
        seen.asked.push(format!("{method} {target}"));
        seen.heads.push(text.clone());
    }
    if let Some((user, password)) = manner.login {
        let expected = format!("proxy-authorization: Basic {}\r\n", base64(&format!("{user}:{password}")));
        if !text.contains(&expected) {
            return client.write_all(b"HTTP/1.1 407 Who?\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        }
    }
    if let Some((status, _)) = manner.refuses {
        return client.write_all(format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n").as_bytes()).await;
    }
    let authority = target.strip_prefix("http://").unwrap_or(&target).split('/').next().unwrap();
    let port = authority.rsplit(':').next().unwrap().parse().unwrap();
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else {
        return client.write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n").await;
    };
    if method == "CONNECT" {
        client.write_all(b"HTTP/1.1 200 Connected\r\nvia: test\r\n\r\n").await?;
    } else {
        // Servers take requests in absolute form as well (RFC 9112 §3.2.2), so that they pass as they are.
        server.write_all(&head).await?;
    }
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

async fn socks<S>(mut client: S, manner: &Manner, seen: &Mutex<Seen>) -> std::io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let count = client.read_u8().await?;
    let methods = bytes(&mut client, count).await?;
    match manner.login {
        None => client.write_all(&[5, 0]).await?,
        Some(_) if !methods.contains(&2) => return client.write_all(&[5, 0xff]).await,
        Some((user, password)) => {
            client.write_all(&[5, 2]).await?;
            assert_eq!(client.read_u8().await?, 1);
            let length = client.read_u8().await?;
            let given_user = bytes(&mut client, length).await?;
            let length = client.read_u8().await?;
            let given_password = bytes(&mut client, length).await?;
            let is_known = given_user == user.as_bytes() && given_password == password.as_bytes();
            client.write_all(&[1, u8::from(!is_known)]).await?;
            if !is_known {
                return Ok(());
            }
        }
    }
    assert_eq!(bytes(&mut client, 3).await?, [5, 1, 0]);
    let asked = match client.read_u8().await? {
        1 => {
            let ip: [u8; 4] = bytes(&mut client, 4).await?.try_into().unwrap();
            format!("address {}", std::net::Ipv4Addr::from(ip))
        }
        3 => {
            let length = client.read_u8().await?;
            format!("name {}", String::from_utf8(bytes(&mut client, length).await?).unwrap())
        }
        4 => {
            let ip: [u8; 16] = bytes(&mut client, 16).await?.try_into().unwrap();
            format!("address {}", std::net::Ipv6Addr::from(ip))
        }
        kind => panic!("an address of kind {kind}"),
    };
    let port = client.read_u16().await?;
    seen.lock().asked.push(format!("{asked} {port}"));
    if let Some((_, reply)) = manner.refuses {
        return client.write_all(&[5, reply, 0, 1, 0, 0, 0, 0, 0, 0]).await;
    }
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else {
        return client.write_all(&[5, 5, 0, 1, 0, 0, 0, 0, 0, 0]).await;
    };
    client.write_all(&[5, 0, 0, 3, 2, b'm', b'e', 0, 1]).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

async fn bytes(client: &mut (impl AsyncRead + Unpin), count: u8) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::from(count)];
    client.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// RFC 4648 §4, by hand.
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in text.as_bytes().chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for n in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * n) & 63) as usize];
            out.push(if n <= group.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

/// An authority, and what it vouches for.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for these names, and its key, both in PEM.
    pub fn vouch(&self, names: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        (leaf.pem(), key.serialize_pem())
    }

    /// What a server with a certificate for these names needs.
    pub fn server(&self, names: &[&str]) -> ServerConfig {
        self.server_asking(names, Arc::new(NoClientAuth))
    }

    /// The same, for a server that asks clients for a certificate.
    pub fn server_asking(&self, names: &[&str], verifier: Arc<dyn ClientCertVerifier>) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let chain = vec![CertificateDer::from(leaf.der().to_vec())];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        ServerConfig::builder().with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap()
    }
}
