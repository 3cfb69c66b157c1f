//! Says why a handshake failed, and for which names the certificate is.

use std::io;

use rustls::{AlertDescription, CertificateError, Error as TlsError};

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
        TlsError::NoApplicationProtocol | TlsError::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            format!("{host}: the server speaks none of the HTTP versions offered (http_version)")
        }
        TlsError::AlertReceived(alert) => match of_client_certificate(*alert) {
            Some(text) => format!("{host}: {text}"),
            None => format!("{host}: {tls}"),
        },
        _ => format!("{host}: {tls}"),
    }
}

/// Says of an error in reading that the server refused the client's certificate, where it did. In TLS 1.3 the client's
/// handshake is over before the server looks at it (RFC 8446, section 4.4), and the alert comes in place of an answer.
pub(crate) fn explain(error: io::Error) -> io::Error {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    match tls {
        Some(TlsError::AlertReceived(alert)) => match of_client_certificate(*alert) {
            Some(text) => io::Error::new(error.kind(), text),
            None => error,
        },
        _ => error,
    }
}

/// What an alert says of the client's certificate. Short enough to be kept whole as evidence.
fn of_client_certificate(alert: AlertDescription) -> Option<String> {
    match alert {
        AlertDescription::CertificateRequired => Some("the server wants a certificate (client_certificate)".to_owned()),
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied
        // Its signature, by which the client shows that the key is its own.
        | AlertDescription::DecryptError => Some(format!("client_certificate refused: {alert:?}")),
        _ => None,
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
    fn what_a_server_says_of_the_clients_certificate_is_kept_whole_and_names_the_option() {
        let of =
            |alert| explain(io::Error::new(io::ErrorKind::InvalidData, TlsError::AlertReceived(alert))).to_string();
        for alert in [
            AlertDescription::CertificateRequired,
            AlertDescription::UnsupportedCertificate,
            AlertDescription::CertificateUnknown,
            AlertDescription::UnknownCA,
        ] {
            let text = of(alert);
            assert!(text.contains("client_certificate"), "{text}");
            assert_eq!(oncebox_policy::ShortText::new(&text).to_string(), text);
        }
        assert_eq!(of(AlertDescription::InternalError), "received fatal alert: InternalError");
        assert_eq!(explain(io::ErrorKind::UnexpectedEof.into()).kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_connection_that_was_cut_is_not_blamed_on_a_certificate() {
        let text = describe("h", &io::ErrorKind::UnexpectedEof.into());
        assert_eq!(text, "h: the peer closed the connection during the handshake");
        let text = describe("h", &io::Error::from(io::ErrorKind::ConnectionReset));
        assert!(text.contains("connection reset") && text.contains("handshake"), "{text}");
    }
}
