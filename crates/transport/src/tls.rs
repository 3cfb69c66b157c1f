//! TLS: whom to trust, and which HTTP version to agree on.

mod names;
mod trust;

pub(crate) use names::explain;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use oncebox_policy::Phase;
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsConnector;

use crate::conn::Failure;
use crate::dial::DialError;
use crate::error::Error;
use crate::io::{Below, Stream};

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
    client: Option<ClientCertificate>,
}

/// Who the client is, in DER.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ClientCertificate {
    chain: Vec<Vec<u8>>,
    key: Vec<u8>,
}

impl ClientCertificate {
    fn parts(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
        let chain = self.chain.iter().cloned().map(CertificateDer::from).collect();
        Ok((chain, PrivateKeyDer::try_from(self.key.clone())?))
    }
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
            let certificate =
                certificate.map_err(|error| Error::invalid(format!("it holds no readable certificate: {error}")))?;
            options.roots.push(certificate.to_vec());
        }
        if options.roots.len() == before {
            return Err(Error::invalid("it holds no certificate in PEM form"));
        }
        self.replace(options);
        Ok(())
    }

    /// Trusts anybody. For tests only: whoever sits in between can read and change everything.
    pub(crate) fn accept_invalid(&mut self, accept: bool) {
        let options = Options { accept_invalid: accept, ..Options::clone(&self.options) };
        self.replace(options);
    }

    /// Shows this certificate to servers that ask for one.
    pub(crate) fn client_certificate(&mut self, chain: &[u8], key: &[u8]) -> Result<(), Error> {
        let wrong = |what: &str| Error::invalid(what.to_owned());
        let chain: Vec<Vec<u8>> = CertificateDer::pem_slice_iter(chain)
            .map(|certificate| certificate.map(|certificate| certificate.to_vec()))
            .collect::<Result<_, _>>()
            .map_err(|error| wrong(&format!("the chain holds no readable certificate: {error}")))?;
        if chain.is_empty() {
            return Err(wrong("the chain holds no certificate in PEM form"));
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| wrong("the key is no private key in PEM form, or is encrypted"))?;
        let client = ClientCertificate { chain, key: key.secret_der().to_vec() };
        let (chain, key) = client.parts().map_err(|error| wrong(&error))?;
        CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
            .map_err(|error| wrong(&format!("certificate and key do not go together: {error}")))?;
        let options = Options { client: Some(client), ..Options::clone(&self.options) };
        self.replace(options);
        Ok(())
    }

    fn replace(&mut self, options: Options) {
        *self = Self { options: Arc::new(options), configs: Arc::default() };
    }

    /// The handshake. Tells whether the server chose HTTP/2.
    pub(crate) async fn connect(&self, stream: Stream, host: &str, offer: Offer) -> Result<(Stream, bool), Failure> {
        let wrong = |text: String| Failure::dial(Phase::Tls, DialError::new(text));
        let configs = self.configs.get_or_init(|| Configs::new(&self.options)).as_ref();
        let configs = configs.map_err(|error| wrong(error.clone()))?;
        let config = match offer {
            Offer::Http1 => &configs.http1,
            Offer::Http2 => &configs.http2,
            Offer::Either => &configs.either,
        };
        let name = ServerName::try_from(host.to_owned()).map_err(|error| wrong(format!("{host}: {error}")))?;
        let connector = TlsConnector::from(config.clone());
        let described = |error| wrong(names::describe(host, &error));
        let chose_http2 = |session: &rustls::ClientConnection| session.alpn_protocol() == Some(HTTP2);
        Ok(match stream {
            Stream::Plain(socket) => {
                let stream = connector.connect(name, Below::new(socket)).await.map_err(described)?;
                let chose_http2 = chose_http2(stream.get_ref().1);
                (Stream::Tls(Box::new(stream)), chose_http2)
            }
            other => {
                let stream = connector.connect(name, Below::new(other)).await.map_err(described)?;
                let chose_http2 = chose_http2(stream.get_ref().1);
                (Stream::Nested(Box::new(stream)), chose_http2)
            }
        })
    }
}

impl Configs {
    fn new(options: &Options) -> Result<Self, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(trust::verifier(&options.roots, options.accept_invalid, provider)?);
        let config = match &options.client {
            None => builder.with_no_client_auth(),
            Some(client) => {
                let (chain, key) = client.parts()?;
                builder.with_client_auth_cert(chain, key).map_err(|error| format!("client certificate: {error}"))?
            }
        };
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
            .field("client_certificate", &self.options.client.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused() {
        for pem in ["", "nonsense", "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n"] {
            let error = Tls::default().add_roots(pem.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("holds no"), "{error}");
        }
    }

    #[test]
    fn a_client_certificate_is_checked_when_it_is_given_and_its_key_is_never_shown() {
        let made = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        let (one, other) = (made("one"), made("other"));
        let (chain, key) = (one.cert.pem(), one.signing_key.serialize_pem());
        let mut tls = Tls::default();
        tls.client_certificate(chain.as_bytes(), key.as_bytes()).unwrap();
        assert_ne!(tls, Tls::default());
        assert!(!format!("{tls:?}").contains("PRIVATE"), "{tls:?}");
        for (chain, key, rule) in [
            ("", key.as_str(), "no certificate in PEM form"),
            (&chain, "", "no private key in PEM form"),
            (&chain, &other.signing_key.serialize_pem(), "do not go together"),
        ] {
            let error = Tls::default().client_certificate(chain.as_bytes(), key.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(rule), "{error}");
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
