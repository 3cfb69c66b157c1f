//! TLS with certificates made for the occasion.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::script::Protocol;

/// What a server needs to speak TLS.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) acceptor: TlsAcceptor,
    /// The certificate of the authority that a client has to trust.
    pub(crate) ca_pem: Arc<str>,
}

impl Identity {
    /// A new authority, and a certificate of its making for `localhost`, `*.localhost`, 127.0.0.1 and ::1.
    pub(crate) fn new(protocol: Protocol) -> Result<Self, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let mut ca = rcgen::CertificateParams::new(Vec::new()).map_err(|error| text(&error))?;
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
        ca.distinguished_name.push(rcgen::DnType::CommonName, "oncebox-faults test authority");
        let ca_key = rcgen::KeyPair::generate().map_err(|error| text(&error))?;
        let ca_cert = ca.self_signed(&ca_key).map_err(|error| text(&error))?;
        let issuer = rcgen::Issuer::new(ca, ca_key);
        let names = ["localhost", "*.localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let mut leaf = rcgen::CertificateParams::new(names).map_err(|error| text(&error))?;
        leaf.distinguished_name.push(rcgen::DnType::CommonName, "localhost");
        let key = rcgen::KeyPair::generate().map_err(|error| text(&error))?;
        let cert = leaf.signed_by(&key, &issuer).map_err(|error| text(&error))?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .map_err(|error| text(&error))?;
        config.alpn_protocols = match protocol {
            Protocol::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Protocol::Http1 => vec![b"http/1.1".to_vec()],
            Protocol::Http2 => vec![b"h2".to_vec()],
        };
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), ca_pem: ca_cert.pem().into() })
    }
}

/// For a proxy's upstream: trusts what the system trusts.
pub(crate) fn connector() -> io::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(io::Error::other("no root certificates were found on this system"));
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// A stream that breaks after so many written bytes, so that a handshake breaks inside the server's flight.
pub(crate) struct Cut<T> {
    inner: T,
    left: Option<u64>,
}

impl<T> Cut<T> {
    pub(crate) fn new(inner: T, after: Option<u64>) -> Self {
        Self { inner, left: after }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Cut<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Cut<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Some(left) = self.left else { return Pin::new(&mut self.inner).poll_write(cx, bytes) };
        let most = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if most == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let written = Pin::new(&mut self.inner).poll_write(cx, &bytes[..most]);
        if let Poll::Ready(Ok(written)) = written {
            self.left = Some(left - written as u64);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
