//! TLS: whom to trust, and which HTTP version to agree on.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use oncebox_policy::Phase;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error as TlsError, SignatureScheme};
use rustls_platform_verifier::Verifier;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::conn::Failure;
use crate::error::Error;

const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

/// What is offered to the server (RFC 7301).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    Http1,
    Http2,
    /// The server chooses.
    Either,
}

/// Whom to trust. Two with the same options are equal, and share connections.
#[derive(Clone, Default)]
pub(crate) struct Tls {
    options: Arc<Options>,
    /// Built when the first connection needs it; sessions are resumed through it.
    configs: Arc<OnceLock<Result<Configs, String>>>,
}

#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Options {
    roots: Vec<Vec<u8>>,
    accept_invalid: bool,
}

struct Configs {
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
    either: Arc<ClientConfig>,
}

impl Tls {
    /// Trusts these certificates besides the platform's. `pem` may hold several.
    pub(crate) fn add_roots(&mut self, pem: &[u8]) -> Result<(), Error> {
        let mut options = Options::clone(&self.options);
        let before = options.roots.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate
                .map_err(|error| Error::invalid(format!("the CA file holds no readable certificate: {error}")))?;
            options.roots.push(certificate.to_vec());
        }
        if options.roots.len() == before {
            return Err(Error::invalid("the CA file holds no certificate in PEM form"));
        }
        self.replace(options);
        Ok(())
    }

    /// Trusts anybody. For tests only: whoever sits in between can read and change everything.
    pub(crate) fn accept_invalid(&mut self, accept: bool) {
        let options = Options { accept_invalid: accept, ..Options::clone(&self.options) };
        self.replace(options);
    }

    fn replace(&mut self, options: Options) {
        *self = Self { options: Arc::new(options), configs: Arc::default() };
    }

    /// The handshake.
    pub(crate) async fn connect(
        &self,
        socket: TcpStream,
        host: &str,
        offer: Offer,
    ) -> Result<TlsStream<TcpStream>, Failure> {
        let configs = self.configs.get_or_init(|| Configs::new(&self.options)).as_ref();
        let configs = configs.map_err(|error| Failure::dial(Phase::Tls, error.clone()))?;
        let config = match offer {
            Offer::Http1 => &configs.http1,
            Offer::Http2 => &configs.http2,
            Offer::Either => &configs.either,
        };
        let name = ServerName::try_from(host.to_owned()).map_err(|error| Failure::dial(Phase::Tls, error))?;
        TlsConnector::from(config.clone()).connect(name, socket).await.map_err(|error| Failure::dial(Phase::Tls, error))
    }
}

/// Whether the server chose HTTP/2.
pub(crate) fn chose_http2(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP2)
}

impl Configs {
    fn new(options: &Options) -> Result<Self, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous();
        let builder = if options.accept_invalid {
            builder.with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
        } else {
            let roots = options.roots.iter().cloned().map(CertificateDer::from);
            let verifier = Verifier::new_with_extra_roots(roots, provider)
                .map_err(|error| format!("the certificates to trust could not be read: {error}"))?;
            builder.with_custom_certificate_verifier(Arc::new(verifier))
        };
        let config = builder.with_no_client_auth();
        let offering = |protocols: &[&[u8]]| {
            let mut config = config.clone();
            config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
            Arc::new(config)
        };
        Ok(Self { http1: offering(&[HTTP1]), http2: offering(&[HTTP2]), either: offering(&[HTTP2, HTTP1]) })
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        self.options == other.options
    }
}

impl Eq for Tls {}

impl Hash for Tls {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.options.hash(state);
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("extra_roots", &self.options.roots.len())
            .field("accept_invalid", &self.options.accept_invalid)
            .finish()
    }
}

/// Checks that the server holds the key of its certificate, and not who it is.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused() {
        for pem in ["", "nonsense", "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n"] {
            let error = Tls::default().add_roots(pem.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("CA file"), "{error}");
        }
    }

    #[test]
    fn the_same_trust_is_the_same_identity() {
        let (mut a, mut b) = (Tls::default(), Tls::default());
        assert_eq!(a, b);
        a.accept_invalid(true);
        assert_ne!(a, b);
        b.accept_invalid(true);
        assert_eq!(a, b);
    }
}
