//! Whom to trust.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error as TlsError, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// Whether the platform's verifier leaves `SSL_CERT_FILE` and `SSL_CERT_DIR` unread. Elsewhere they stand in for the
/// platform's certificates, as they do with OpenSSL.
const READS_NO_FILES: bool = cfg!(any(target_vendor = "apple", windows));

/// Who decides about certificates.
pub(super) fn verifier(
    roots: &[Vec<u8>],
    accept_invalid: bool,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    if accept_invalid {
        return Ok(Arc::new(AcceptAny(provider)));
    }
    let mut roots: Vec<_> = roots.iter().cloned().map(CertificateDer::from).collect();
    if READS_NO_FILES {
        roots.extend(from_files(&|name| std::env::var_os(name).map(Into::into)));
    }
    let verifier = Verifier::new_with_extra_roots(roots, provider).map_err(|error| {
        format!("the certificates to trust could not be read: {error} (SSL_CERT_FILE, SSL_CERT_DIR)")
    })?;
    Ok(Arc::new(verifier))
}

/// What `SSL_CERT_FILE` and the files of `SSL_CERT_DIR` hold. What cannot be read is logged and left out.
fn from_files(variable: &dyn Fn(&str) -> Option<std::path::PathBuf>) -> Vec<CertificateDer<'static>> {
    let mut files: Vec<_> = variable("SSL_CERT_FILE").into_iter().collect();
    if let Some(Ok(entries)) = variable("SSL_CERT_DIR").map(std::fs::read_dir) {
        files.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
    }
    files.iter().flat_map(|file| from_file(file)).collect()
}

fn from_file(file: &Path) -> Vec<CertificateDer<'static>> {
    match CertificateDer::pem_file_iter(file).and_then(Iterator::collect) {
        Ok(certificates) => certificates,
        Err(error) => {
            tracing::warn!(file = %file.display(), %error, "no certificates were read");
            Vec::new()
        }
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
    use std::path::PathBuf;

    #[test]
    fn files_and_folders_are_read_and_what_is_none_is_left_out() {
        let certificate = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap().cert.pem();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("both.pem");
        std::fs::write(&file, certificate("a") + &certificate("b")).unwrap();
        std::fs::write(folder.path().join("nonsense.pem"), "-----BEGIN CERTIFICATE-----\n!\n").unwrap();
        let found = |name: &'static str, path: PathBuf| from_files(&move |n| (n == name).then(|| path.clone())).len();
        assert_eq!(found("SSL_CERT_FILE", file), 2);
        assert_eq!(found("SSL_CERT_DIR", folder.path().to_owned()), 2);
        assert_eq!(found("SSL_CERT_FILE", folder.path().join("none")), 0);
        assert_eq!(from_files(&|_| None).len(), 0);
    }
}
