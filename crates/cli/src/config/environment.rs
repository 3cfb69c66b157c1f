//! What the environment says of proxies, by the rules of the transport's own reader.

use super::table::without_password;

/// A proxy of the environment, as it may be shown.
pub(super) struct Found {
    /// What it is for.
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) variable: &'static str,
}

/// What there is, lower case before upper case. Only what holds: `ALL_PROXY` does for what has none of its own, and
/// `NO_PROXY` where there is any. `variable` looks one up.
pub(super) fn proxies(variable: &dyn Fn(&str) -> Option<String>) -> Vec<Found> {
    // A web server passes a client's header `Proxy` to a CGI program as HTTP_PROXY.
    let is_cgi = variable("REQUEST_METHOD").is_some();
    let find = |names: [&'static str; 2]| {
        let names = names.into_iter().filter(|name| !(is_cgi && *name == "HTTP_PROXY"));
        let set = |name| variable(name).filter(|value| !value.trim().is_empty()).map(|value| (name, value));
        names.filter_map(set).next()
    };
    let all = find(["all_proxy", "ALL_PROXY"]);
    let mut found = Vec::new();
    for (name, names) in
        [("proxy for http", ["http_proxy", "HTTP_PROXY"]), ("proxy for https", ["https_proxy", "HTTPS_PROXY"])]
    {
        if let Some((variable, value)) = find(names).or_else(|| all.clone()) {
            found.push(Found { name, value: without_password(value.trim()), variable });
        }
    }
    if let Some((variable, value)) = find(["no_proxy", "NO_PROXY"]).filter(|_| !found.is_empty()) {
        found.push(Found { name: "no proxy for", value: value.trim().to_owned(), variable });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_is_told_with_its_variable_and_without_passwords() {
        let told = |variables: &[(&str, &str)]| {
            let look_up =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            let found = proxies(&look_up).into_iter();
            found.map(|Found { name, value, variable }| format!("{name}={value} {variable}")).collect::<Vec<_>>()
        };
        assert_eq!(
            told(&[
                ("HTTPS_PROXY", "http://u:p@b:1"),
                ("https_proxy", " "),
                ("ALL_PROXY", "socks5://c"),
                ("no_proxy", "x")
            ]),
            [
                "proxy for http=socks5://c ALL_PROXY",
                "proxy for https=http://…@b:1 HTTPS_PROXY",
                "no proxy for=x no_proxy"
            ]
        );
        assert_eq!(told(&[("http_proxy", "a"), ("HTTP_PROXY", "b")]), ["proxy for http=a http_proxy"]);
        assert_eq!(told(&[("HTTP_PROXY", "b"), ("REQUEST_METHOD", "GET"), ("NO_PROXY", "x")]), [""; 0]);
    }
}
