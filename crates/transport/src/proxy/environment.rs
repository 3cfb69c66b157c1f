//! What the environment says of proxies.

use std::net::IpAddr;
use std::sync::Arc;

use http::Uri;

use super::Proxy;
use super::no_proxy::NoProxy;
use crate::error::Error;

/// `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, as they were when the client was built.
///
/// Lower case wins over upper case, as in curl and Python. Loopback addresses and `localhost` are reached without a
/// proxy, as in Go: a proxy elsewhere could not reach them.
#[derive(Debug)]
pub(crate) struct Environment {
    http: Option<Result<Arc<Proxy>, String>>,
    https: Option<Result<Arc<Proxy>, String>>,
    except: NoProxy,
}

impl Environment {
    /// `variable` looks one up.
    pub(crate) fn read(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let is_set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        // A web server passes a client's header `Proxy` to a CGI program as HTTP_PROXY (httpoxy).
        let is_cgi = variable("REQUEST_METHOD").is_some();
        let either = |lower: &'static str, upper: &'static str| {
            let upper = || is_set(upper).filter(|_| !(is_cgi && upper == "HTTP_PROXY")).map(|url| (upper, url));
            is_set(lower).map(|url| (lower, url)).or_else(upper)
        };
        let read = |(name, url): (&str, String)| {
            // Kept until somebody wants to use it: a wrong variable is no reason to refuse a target that it is not for.
            Proxy::new(url.trim()).map(Arc::new).map_err(|error| format!("{name}: {error}"))
        };
        let all = either("all_proxy", "ALL_PROXY").map(read);
        Self {
            http: either("http_proxy", "HTTP_PROXY").map(read).or_else(|| all.clone()),
            https: either("https_proxy", "HTTPS_PROXY").map(read).or(all),
            except: NoProxy::new(&either("no_proxy", "NO_PROXY").map_or_else(String::new, |(_, hosts)| hosts)),
        }
    }

    pub(super) fn proxy_for(&self, uri: &Uri) -> Result<Option<Arc<Proxy>>, Error> {
        let proxy = match uri.scheme_str() {
            Some("http") => &self.http,
            Some("https") => &self.https,
            _ => &None,
        };
        match proxy {
            Some(proxy) if !is_loopback(uri) && !self.except.contains(uri) => {
                proxy.clone().map(Some).map_err(Error::invalid)
            }
            _ => Ok(None),
        }
    }
}

fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_named = host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost");
    is_named || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(variables: &[(&str, &str)], uri: &str) -> Result<Option<String>, String> {
        let environment = Environment::read(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        });
        let proxy = environment.proxy_for(&uri.parse().unwrap()).map_err(|error| error.to_string())?;
        Ok(proxy.map(|proxy| proxy.address()))
    }

    fn address(variables: &[(&str, &str)], uri: &str) -> Option<String> {
        chosen(variables, uri).unwrap()
    }

    #[test]
    fn each_scheme_has_its_variable_and_all_proxy_is_for_the_rest() {
        let variables = [("HTTP_PROXY", "http://a:1"), ("HTTPS_PROXY", "http://b:1"), ("ALL_PROXY", "socks5://c:1")];
        assert_eq!(address(&variables, "http://x/").as_deref(), Some("a:1"));
        assert_eq!(address(&variables, "https://x/").as_deref(), Some("b:1"));
        assert_eq!(address(&variables[1..], "http://x/").as_deref(), Some("c:1"));
        assert_eq!(address(&variables[..1], "https://x/"), None);
        assert_eq!(address(&[], "https://x/"), None);
        assert_eq!(address(&[("HTTPS_PROXY", " ")], "https://x/"), None);
    }

    #[test]
    fn lower_case_wins() {
        let variables = [("https_proxy", "http://lower:1"), ("HTTPS_PROXY", "http://upper:1")];
        assert_eq!(address(&variables, "https://x/").as_deref(), Some("lower:1"));
    }

    #[test]
    fn a_cgi_program_does_not_take_its_proxy_from_a_clients_header() {
        let variables = [("REQUEST_METHOD", "GET"), ("HTTP_PROXY", "http://evil:1"), ("HTTPS_PROXY", "http://good:1")];
        assert_eq!(address(&variables, "http://x/"), None);
        assert_eq!(address(&variables, "https://x/").as_deref(), Some("good:1"));
        let variables = [("REQUEST_METHOD", "GET"), ("http_proxy", "http://good:1")];
        assert_eq!(address(&variables, "http://x/").as_deref(), Some("good:1"));
    }

    #[test]
    fn exceptions_and_this_host_go_past_it() {
        let variables = [("ALL_PROXY", "http://a:1"), ("NO_PROXY", "example.com,10.0.0.0/8")];
        for uri in [
            "https://api.example.com/",
            "http://10.1.1.1/",
            "http://localhost:3000/",
            "http://3000-x.localhost/",
            "http://127.0.0.1:80/",
            "http://[::1]/",
        ] {
            assert_eq!(address(&variables, uri), None, "{uri}");
        }
        assert_eq!(address(&variables, "https://e2b.app/").as_deref(), Some("a:1"));
        assert_eq!(address(&[("ALL_PROXY", "http://a:1"), ("no_proxy", "*")], "https://e2b.app/"), None);
    }

    #[test]
    fn a_wrong_variable_is_named_once_it_would_be_used() {
        let variables = [("HTTPS_PROXY", "ftp://u:secret@h:1")];
        assert_eq!(chosen(&variables, "http://x/"), Ok(None));
        assert_eq!(chosen(&variables, "https://localhost/"), Ok(None));
        let text = chosen(&variables, "https://x/").unwrap_err();
        assert!(text.starts_with("HTTPS_PROXY: ") && text.contains("must begin with"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}
