//! A proxy, from what Python says of it.

use http::{HeaderName, HeaderValue};
use oncebox::Proxy;

/// A proxy's URL, the user and password that are not in it, what else it is told, and what is reached without it.
pub(crate) type Arguments = (String, Option<(String, String)>, Vec<(String, String)>, Option<String>);

/// The proxy, or what is wrong with it.
pub(crate) fn new((url, credentials, headers, except): Arguments) -> Result<Proxy, String> {
    let mut proxy = Proxy::new(&url).map_err(|error| error.to_string())?;
    if let Some((user, password)) = credentials {
        proxy = proxy.credentials(&user, &password).map_err(|error| error.to_string())?;
    }
    for (name, value) in headers {
        // The value may be a secret.
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("proxy: {name:?} is no header"))?;
        let value = HeaderValue::from_str(&value).map_err(|_| format!("proxy: the value of {name} is none"))?;
        proxy = proxy.header(name, value);
    }
    Ok(match except {
        Some(hosts) => proxy.except(&hosts),
        None => proxy,
    })
}
