//! Says why a handshake failed, and for which names the certificate is.

use std::io;

use rustls::{CertificateError, Error as TlsError};

/// Names that are shown at most; some certificates hold hundreds.
const SHOWN: usize = 8;

/// Why the handshake with this host failed.
pub(super) fn describe(host: &str, error: &io::Error) -> String {
    let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => format!("{host}: the peer closed the connection during the handshake"),
            _ => format!("{host}: {error} during the handshake"),
        };
    };
    match tls {
        TlsError::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. }) => {
            format!("invalid peer certificate: not for {host}, but for {}", list(presented))
        }
        TlsError::InvalidCertificate(CertificateError::UnknownIssuer) => format!(
            "invalid peer certificate: UnknownIssuer: nobody who is trusted vouches for {host} (add_root_certificates, \
             SSL_CERT_FILE)"
        ),
        TlsError::InvalidCertificate(_) => tls.to_string(),
        TlsError::NoApplicationProtocol | TlsError::AlertReceived(rustls::AlertDescription::NoApplicationProtocol) => {
            format!("{host}: the server speaks none of the HTTP versions offered (http_version)")
        }
        TlsError::AlertReceived(rustls::AlertDescription::CertificateRequired) => {
            format!("{host}: the server wants a client certificate (client_certificate)")
        }
        _ => format!("{host}: {tls}"),
    }
}

/// The names as people write them, rather than `DnsName("example.com")`.
fn list(presented: &[String]) -> String {
    if presented.is_empty() {
        return "no name".to_owned();
    }
    let plain = |name: &String| {
        let inner = name.split_once('(').map_or(name.as_str(), |(_, inner)| inner.trim_end_matches(')'));
        inner.trim_matches('"').to_owned()
    };
    let mut shown = presented.iter().take(SHOWN).map(plain).collect::<Vec<_>>().join(", ");
    if presented.len() > SHOWN {
        shown.push_str(&format!(" and {} more", presented.len() - SHOWN));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_as_they_are_written_and_not_by_the_hundred() {
        let presented = ["DnsName(\"a.example\")", "IpAddress(127.0.0.1)", "plain"].map(str::to_owned);
        assert_eq!(list(&presented), "a.example, 127.0.0.1, plain");
        assert_eq!(list(&[]), "no name");
        let many: Vec<_> = (0..100).map(|n| format!("n{n}")).collect();
        assert!(list(&many).ends_with("n7 and 92 more"), "{}", list(&many));
    }

    #[test]
    fn a_connection_that_was_cut_is_not_blamed_on_a_certificate() {
        let text = describe("h", &io::ErrorKind::UnexpectedEof.into());
        assert_eq!(text, "h: the peer closed the connection during the handshake");
        let text = describe("h", &io::Error::from(io::ErrorKind::ConnectionReset));
        assert!(text.contains("connection reset") && text.contains("handshake"), "{text}");
    }
}
