//! SOCKS version 5 (RFC 1928), with user and password (RFC 1929).
//!
//! Not hyper-util's `SocksV5`: it resolves names on the async thread, reads on behind the proxy's answer, and does not
//! tell what an I/O error was.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Proxy;

const VERSION: u8 = 5;
const NO_CREDENTIALS: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
const NONE_ACCEPTABLE: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Asks the proxy for a connection: to the address where there is one, else to the host. The stream leads there
/// afterwards.
pub(crate) async fn open<S>(
    stream: &mut S,
    proxy: &Proxy,
    host: &str,
    port: u16,
    address: Option<SocketAddr>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let opened = negotiate(stream, proxy, host, port, address).await;
    opened.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other("it closed the connection during the SOCKS handshake"),
        _ => error,
    })
}

async fn negotiate<S>(
    stream: &mut S,
    proxy: &Proxy,
    host: &str,
    port: u16,
    address: Option<SocketAddr>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let target = target(host, port, address)?;
    let methods: &[u8] = match proxy.user() {
        Some(_) => &[VERSION, 2, NO_CREDENTIALS, USER_AND_PASSWORD],
        None => &[VERSION, 1, NO_CREDENTIALS],
    };
    say(stream, methods).await?;
    let [version, method] = read(stream).await?;
    is_version(version, VERSION)?;
    match (method, proxy.user()) {
        (NO_CREDENTIALS, _) => {}
        (USER_AND_PASSWORD, Some(credentials)) => {
            let (user, password) = (credentials.user.as_bytes(), credentials.password.as_bytes());
            // Both were found to be short enough when the proxy was made.
            let mut message = vec![1, user.len() as u8];
            message.extend_from_slice(user);
            message.push(password.len() as u8);
            message.extend_from_slice(password);
            say(stream, &message).await?;
            let [version, status] = read(stream).await?;
            is_version(version, 1)?;
            if status != 0 {
                return Err(io::Error::other("it refuses the credentials (proxy)"));
            }
        }
        (NONE_ACCEPTABLE, None) => return Err(io::Error::other("it wants credentials (proxy)")),
        (NONE_ACCEPTABLE, Some(_)) => return Err(io::Error::other("it takes no credentials of this kind (proxy)")),
        (method, _) => return Err(io::Error::other(format!("it chose method {method}, which was not offered"))),
    }

    say(stream, &target).await?;
    let [version, reply, _, kind] = read(stream).await?;
    is_version(version, VERSION)?;
    if reply != 0 {
        return Err(io::Error::other(reason(reply)));
    }
    // The address that it connected from, which nobody needs.
    let length = match kind {
        IPV4 => 4,
        IPV6 => 16,
        NAME => usize::from(read::<1>(stream).await?[0]),
        kind => return Err(io::Error::other(format!("its answer holds an address of kind {kind}"))),
    };
    let mut bound = [0; 255 + 2];
    stream.read_exact(&mut bound[..length + 2]).await?;
    Ok(())
}

fn target(host: &str, port: u16, address: Option<SocketAddr>) -> io::Result<Vec<u8>> {
    let mut message = vec![VERSION, CONNECT, 0];
    match address.map(|address| address.ip()).or_else(|| host.parse().ok()) {
        Some(IpAddr::V4(ip)) => {
            message.push(IPV4);
            message.extend_from_slice(&ip.octets());
        }
        Some(IpAddr::V6(ip)) => {
            message.push(IPV6);
            message.extend_from_slice(&ip.octets());
        }
        None => {
            let length =
                u8::try_from(host.len()).map_err(|_| io::Error::other("SOCKS has no room for so long a name"))?;
            message.extend_from_slice(&[NAME, length]);
            message.extend_from_slice(host.as_bytes());
        }
    }
    message.extend_from_slice(&port.to_be_bytes());
    Ok(message)
}

async fn say(stream: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> io::Result<()> {
    stream.write_all(message).await?;
    stream.flush().await
}

async fn read<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn is_version(got: u8, expected: u8) -> io::Result<()> {
    if got == expected { Ok(()) } else { Err(io::Error::other("it does not speak SOCKS version 5")) }
}

/// The replies of RFC 1928 §6.
fn reason(reply: u8) -> String {
    let text = match reply {
        1 => "general failure",
        2 => "not allowed by its rules",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "TTL expired",
        7 => "command not supported",
        8 => "address type not supported",
        reply => return format!("SOCKS reply {reply}"),
    };
    format!("SOCKS reply {reply}: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a proxy reads, and what it answers.
    type Exchange<'a> = (&'a [u8], &'a [u8]);

    async fn opened(
        url: &str,
        host: &str,
        address: Option<&str>,
        script: &[Exchange<'_>],
    ) -> (io::Result<()>, Vec<u8>) {
        let (mut client, mut server) = tokio::io::duplex(4096);
        let script: Vec<_> = script.iter().map(|(read, answer)| (read.to_vec(), answer.to_vec())).collect();
        let server = tokio::spawn(async move {
            for (expected, answer) in script {
                let mut got = vec![0; expected.len()];
                server.read_exact(&mut got).await.unwrap();
                assert_eq!(got, expected);
                server.write_all(&answer).await.unwrap();
            }
        });
        let proxy = Proxy::new(url).unwrap();
        let result = open(&mut client, &proxy, host, 443, address.map(|a| a.parse().unwrap())).await;
        server.await.unwrap();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        (result, rest)
    }

    const HELLO: Exchange<'_> = (&[5, 1, 0], &[5, 0]);

    #[tokio::test]
    async fn a_name_is_passed_on_and_what_comes_behind_the_answer_is_the_targets() {
        let request = b"\x05\x01\x00\x03\x04host\x01\xbb";
        let (result, rest) =
            opened("socks5h://p", "host", None, &[HELLO, (request, b"\x05\0\0\x03\x02me\0\x01SETTINGS")]).await;
        result.unwrap();
        assert_eq!(rest, b"SETTINGS");
    }

    #[tokio::test]
    async fn an_address_is_passed_as_one() {
        let v4 = b"\x05\x01\x00\x01\x0a\x00\x00\x01\x01\xbb";
        let answer = b"\x05\0\0\x01\0\0\0\0\0\0";
        opened("socks5://p", "host", Some("10.0.0.1:443"), &[HELLO, (v4, answer)]).await.0.unwrap();
        opened("socks5h://p", "10.0.0.1", None, &[HELLO, (v4, answer)]).await.0.unwrap();
        let v6 = b"\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x01\xbb";
        let answer = b"\x05\0\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        opened("socks5://p", "host", Some("[::1]:443"), &[HELLO, (v6, answer)]).await.0.unwrap();
    }

    #[tokio::test]
    async fn credentials_are_given_when_they_are_asked_for() {
        let offer: Exchange<'_> = (&[5, 2, 0, 2], &[5, 2]);
        let request: Exchange<'_> = (b"\x05\x01\x00\x03\x01h\x01\xbb", b"\x05\0\0\x01\0\0\0\0\0\0");
        let login = b"\x01\x01u\x06secret";
        opened("socks5h://u:secret@p", "h", None, &[offer, (login, &[1, 0]), request]).await.0.unwrap();
        opened("socks5h://u:secret@p", "h", None, &[(&[5, 2, 0, 2], &[5, 0]), request]).await.0.unwrap();
        let refused = opened("socks5h://u:secret@p", "h", None, &[offer, (login, &[1, 1])]).await.0.unwrap_err();
        assert_eq!(refused.to_string(), "it refuses the credentials (proxy)");
    }

    #[tokio::test]
    async fn a_refusal_says_why() {
        let request = b"\x05\x01\x00\x03\x01h\x01\xbb";
        for (script, expected) in [
            (vec![HELLO, (&request[..], &b"\x05\x05\0\x01\0\0\0\0\0\0"[..])], "SOCKS reply 5: connection refused"),
            (vec![HELLO, (request, b"\x05\x63\0\x01")], "SOCKS reply 99"),
            (vec![(&[5, 1, 0], &[5, 0xff])], "it wants credentials"),
            (vec![(&[5, 1, 0], b"HTTP")], "does not speak SOCKS"),
            (vec![HELLO, (request, b"")], "closed the connection"),
            (vec![HELLO, (request, b"\x05\0\0\x09")], "address of kind 9"),
        ] {
            let text = opened("socks5h://p", "h", None, &script).await.0.unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
        }
    }
}
