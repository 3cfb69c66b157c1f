//! The transport, as Python's HTTP layers see it.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use oncebox_policy::{Permit, Policy};
use oncebox_protocol::Table;
use oncebox_transport::{Body, CallOptions, Client, ClientBuilder, HttpVersion};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyString, PyTuple};

use super::failure::HttpFailure;
use super::operations::OperationTable;
use super::request_body::RequestBody;
use super::response::HttpResponse;
use crate::pending::{self, Pending};
use crate::proxy;

/// Makes calls. All transports of a process share connections, as far as their options agree.
#[pyclass(frozen, module = "oncebox._core")]
pub(crate) struct HttpTransport {
    client: Client,
    operations: Option<Arc<Table>>,
    /// What stands before the paths of `operations`, without a slash at its end.
    base_path: String,
}

#[pymethods]
impl HttpTransport {
    #[new]
    #[pyo3(signature = (
        *, policy, operations = None, http_version = None, proxy = None, trust_env = true, verify = true,
        ca_certificates = None, client_certificate = None, unix_socket = None, max_connections = None,
        keepalive_expiry = None, replay_buffer_limit = None, connect_timeout = None,
    ))]
    #[allow(clippy::too_many_arguments)] // They are the options; Python's side names and checks each.
    fn new(
        policy: &str,
        operations: Option<PyRef<'_, OperationTable>>,
        http_version: Option<&str>,
        proxy: Option<proxy::Arguments>,
        trust_env: bool,
        verify: bool,
        ca_certificates: Option<&[u8]>,
        client_certificate: Option<(Vec<u8>, Vec<u8>)>,
        unix_socket: Option<std::path::PathBuf>,
        max_connections: Option<usize>,
        keepalive_expiry: Option<f64>,
        replay_buffer_limit: Option<usize>,
        connect_timeout: Option<f64>,
    ) -> PyResult<Self> {
        let mut builder = Client::builder().policy(read_policy(policy)?).http_version(match http_version {
            None => HttpVersion::Auto,
            Some("1.1") => HttpVersion::Http1,
            Some("2") => HttpVersion::Http2,
            Some(other) => return Err(invalid(format!("http_version: {other:?} is none of \"1.1\", \"2\""))),
        });
        builder = proxied(builder, proxy, trust_env)?.danger_accept_invalid_certificates(!verify);
        if let Some(pem) = ca_certificates {
            builder =
                builder.add_root_certificates(pem).map_err(|error| invalid(format!("ca_certificates: {error}")))?;
        }
        if let Some((chain, key)) = client_certificate {
            builder = builder.client_certificate(&chain, &key).map_err(|error| invalid(format!("cert: {error}")))?;
        }
        if let Some(path) = unix_socket {
            builder = unix(builder, path)?;
        }
        if let Some(connections) = max_connections {
            builder = builder.max_connections(connections);
        }
        if let Some(expiry) = keepalive_expiry {
            builder = builder.keepalive_expiry(duration("keepalive_expiry", expiry)?);
        }
        if let Some(bytes) = replay_buffer_limit {
            builder = builder.replay_buffer_limit(bytes);
        }
        if let Some(limit) = connect_timeout {
            builder = builder.connect_timeout(duration("connect_timeout", limit)?);
        }
        let (operations, base_path) = operations.map(|table| table.parts()).unzip();
        Ok(Self { client: builder.build(), operations, base_path: base_path.unwrap_or_default() })
    }

    /// Begins a call. `headers` are pairs of bytes or of text; `body` is bytes, an [`RequestBody`] or nothing. The times are in
    /// seconds, and `None` means none: until the response's head, between two pieces of the response, until the server takes
    /// a piece of a streamed body. The result is an [`HttpResponse`] or an [`HttpFailure`].
    #[pyo3(signature = (method, url, headers, body, deadline, read_idle, write_idle))]
    #[allow(clippy::too_many_arguments)] // One call across the border is cheaper than several.
    fn send(
        &self,
        py: Python<'_>,
        method: &str,
        url: &str,
        headers: &Bound<'_, PyAny>,
        body: &Bound<'_, PyAny>,
        deadline: Option<f64>,
        read_idle: Option<f64>,
        write_idle: Option<f64>,
    ) -> PyResult<Pending> {
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| invalid(format!("{method:?} is no method")))?;
        let uri: Uri = url.parse().map_err(|error| invalid(format!("the URL is none: {error}")))?;
        let mut options = CallOptions::new()
            .request_timeout(limit("timeout", deadline)?)
            .read_idle_timeout(limit("timeout", read_idle)?)
            .write_idle_timeout(limit("timeout", write_idle)?);
        let headers = read_headers(headers, &uri)?;
        if let Some((permit, mints)) = self.facts(&method, uri.path(), &headers) {
            options = options.mints(mints);
            if let Some(permit) = permit {
                options = options.permit(permit);
            }
        }
        let (body, shared) = if body.is_none() {
            (Body::empty(), None)
        } else if let Ok(bytes) = body.cast::<PyBytes>() {
            // Shared with Python, not copied.
            (Body::from(bytes::Bytes::from_owner(PyBackedBytes::from(bytes.clone()))), None)
        } else {
            let upload = body.cast::<RequestBody>()?.get();
            (Body::stream(upload.body()), Some(upload.shared()))
        };
        let mut request = Request::new(body);
        (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri, headers);
        let client = self.client.clone();
        let operation = async move {
            // Made here, where the runtime is.
            let answer = client.send(request, options).await;
            let uploads = shared.as_ref().is_some_and(|shared| shared.is_open());
            if let Some(shared) = shared {
                shared.answered();
            }
            match answer {
                Ok(response) => Ok(HttpResponse::begin(response).await),
                Err(error) => Err(HttpFailure::of_call(&error, uploads)),
            }
        };
        pending::begin_with(py, operation, |py, ended| match ended {
            Ok(response) => Ok(Py::new(py, response)?.into_any()),
            Err(failure) => Ok(Py::new(py, failure)?.into_any()),
        })
    }
}

impl HttpTransport {
    /// What the table says of a request: why it may be repeated, and whether it makes something new. `None`: it is not listed.
    fn facts(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<(Option<Permit>, bool)> {
        super::operations::facts(self.operations.as_deref()?, &self.base_path, method, path, headers)
    }
}

/// The options of a preset, as JSON.
#[pyfunction]
pub(crate) fn policy_preset(name: &str) -> PyResult<String> {
    let policy = match name {
        "default" => Policy::default(),
        "e2b_2_52" => Policy::e2b_2_52(),
        "e2b_2_63" => Policy::e2b_2_63(),
        other => return Err(invalid(format!("{other:?} is no preset"))),
    };
    serde_json::to_string(&policy).map_err(invalid)
}

/// The seconds that a `Retry-After` asks for; `None`: it is unusable. `now` is the time of day in seconds since 1970.
#[pyfunction]
#[pyo3(signature = (value, date, now))]
pub(crate) fn retry_after(value: &str, date: Option<&str>, now: u64) -> Option<f64> {
    oncebox_policy::retry_after(value.as_bytes(), date.map(str::as_bytes), now).map(|wait| wait.as_secs_f64())
}

pub(super) fn read_policy(policy: &str) -> PyResult<Policy> {
    let policy: Policy = serde_json::from_str(policy).map_err(invalid)?;
    policy.validate().map_err(invalid)?;
    Ok(policy)
}

fn proxied(builder: ClientBuilder, given: Option<proxy::Arguments>, trust_env: bool) -> PyResult<ClientBuilder> {
    Ok(match given {
        Some(given) => builder.proxy(proxy::new(given).map_err(invalid)?),
        None if trust_env => builder,
        None => builder.no_proxy(),
    })
}

#[cfg(unix)]
fn unix(builder: ClientBuilder, path: std::path::PathBuf) -> PyResult<ClientBuilder> {
    Ok(builder.unix_socket(path))
}

#[cfg(not(unix))]
fn unix(_: ClientBuilder, _: std::path::PathBuf) -> PyResult<ClientBuilder> {
    Err(invalid("unix_socket: there are none on this system"))
}

/// Fields that a transport writes itself.
const OF_THE_TRANSPORT: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

fn read_headers(given: &Bound<'_, PyAny>, uri: &Uri) -> PyResult<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in given.try_iter()? {
        let pair = pair?;
        let pair = pair.cast::<PyTuple>()?;
        let (name, value) = (field(&pair.get_item(0)?)?, field(&pair.get_item(1)?)?);
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| invalid(format!("{:?} is no header", String::from_utf8_lossy(name.as_bytes()))))?;
        if OF_THE_TRANSPORT.contains(&name.as_str()) {
            continue;
        }
        // HTTP/2 has the URL's in `:authority`, and some servers refuse a second one.
        if name == http::header::HOST
            && uri
                .authority()
                .is_some_and(|authority| value.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()))
        {
            continue;
        }
        let value =
            HeaderValue::from_bytes(value.as_bytes()).map_err(|_| invalid(format!("the value of {name} is none")))?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// A header's name or value.
enum Field {
    Bytes(PyBackedBytes),
    Text(PyBackedStr),
}

impl Field {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
        }
    }
}

fn field(given: &Bound<'_, PyAny>) -> PyResult<Field> {
    if let Ok(bytes) = given.cast::<PyBytes>() {
        return Ok(Field::Bytes(bytes.clone().into()));
    }
    Ok(Field::Text(given.cast::<PyString>()?.clone().try_into()?))
}

fn limit(name: &'static str, seconds: Option<f64>) -> PyResult<Duration> {
    seconds.map_or(Ok(Duration::ZERO), |seconds| duration(name, seconds))
}

pub(super) fn duration(name: &'static str, seconds: f64) -> PyResult<Duration> {
    Ok(oncebox_policy::timeout_option(name, seconds).map_err(invalid)?.unwrap_or(Duration::ZERO))
}

pub(super) fn invalid(why: impl ToString) -> PyErr {
    PyValueError::new_err(why.to_string())
}
