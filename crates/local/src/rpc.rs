//! The little of the Connect protocol that the server itself needs to have a command run in a sandbox.

use std::io;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes, BytesMut};
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use oncebox_protocol::SecretString;
use oncebox_protocol::api::EnvVars;
use serde_json::{Value, json};

use crate::confined::Confined;
use crate::lifeline::ENVD_PORT;

/// Largest message that is read; envd's are far smaller.
const MAX_MESSAGE: usize = 1 << 20;

/// A command to run.
#[derive(Debug, Clone)]
pub(crate) struct Script<'s> {
    /// What a shell runs.
    pub(crate) text: &'s str,
    pub(crate) user: &'s str,
    pub(crate) cwd: Option<&'s str>,
    pub(crate) env: &'s EnvVars,
    /// After which it is killed.
    pub(crate) limit: Duration,
}

/// Where output comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// Speaks to the envd of a sandbox.
pub(crate) struct Envd<'c> {
    pub(crate) confined: &'c Confined,
    pub(crate) token: &'c SecretString,
}

impl Envd<'_> {
    /// Runs a script to its end and returns its exit code.
    pub(crate) async fn run(&self, script: Script<'_>, mut output: impl FnMut(Stream, &[u8])) -> io::Result<i64> {
        let mut body = self.start(&script).await?;
        while let Some(event) = body.next().await? {
            for (name, stream) in [("stdout", Stream::Out), ("stderr", Stream::Err)] {
                if let Some(data) = event["data"][name].as_str() {
                    output(stream, &STANDARD.decode(data).map_err(io::Error::other)?);
                }
            }
            let end = &event["end"];
            if !end.is_null() {
                // Zero is left out of JSON.
                return Ok(end["exitCode"].as_i64().unwrap_or(0));
            }
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the command's end was not told"))
    }

    /// Starts a script that is left to itself; returns when it has started.
    pub(crate) async fn leave_running(&self, script: Script<'_>) -> io::Result<()> {
        let mut body = self.start(&script).await?;
        match body.next().await? {
            Some(_) => Ok(()),
            None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the command's start was not told")),
        }
    }

    /// The processes that run as commands, as envd describes them.
    pub(crate) async fn processes(&self) -> io::Result<Vec<Value>> {
        let request = Request::post("/process.Process/List")
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .header("connect-protocol-version", "1")
            .header("x-access-token", self.token.expose())
            .body(Full::new(Bytes::from_static(b"{}")))
            .map_err(io::Error::other)?;
        let response = self.send(request).await?;
        if !response.status().is_success() {
            return Err(io::Error::other(format!("envd answered {}", response.status())));
        }
        let body = http_body_util::Limited::new(response.into_body(), MAX_MESSAGE);
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let mut listed: Value = serde_json::from_slice(&body)?;
        match listed["processes"].take() {
            Value::Array(processes) => Ok(processes),
            // Left out of JSON when there is none.
            _ => Ok(Vec::new()),
        }
    }

    async fn start(&self, script: &Script<'_>) -> io::Result<Messages> {
        let mut process = json!({ "cmd": "/bin/bash", "args": ["-l", "-c", script.text], "envs": script.env });
        if let Some(cwd) = script.cwd {
            process["cwd"] = cwd.into();
        }
        let message = json!({ "process": process, "stdin": false }).to_string();
        let mut envelope = vec![0];
        envelope.extend(u32::try_from(message.len()).map_err(io::Error::other)?.to_be_bytes());
        envelope.extend(message.as_bytes());
        let mut request = Request::post("/process.Process/Start")
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/connect+json")
            .header("connect-protocol-version", "1")
            .header(header::AUTHORIZATION, format!("Basic {}", STANDARD.encode(format!("{}:", script.user))))
            .header("x-access-token", self.token.expose());
        if !script.limit.is_zero() {
            request = request.header("connect-timeout-ms", script.limit.as_millis().to_string());
        }
        let request = request.body(Full::new(Bytes::from(envelope))).map_err(io::Error::other)?;
        let response = self.send(request).await?;
        Ok(Messages { body: response.into_body(), buffer: BytesMut::new() })
    }

    /// Sends a request to envd.
    pub(crate) async fn send<B>(&self, request: Request<B>) -> io::Result<http::Response<Incoming>>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let connection = self.confined.open(ENVD_PORT).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(connection)).await.map_err(io::Error::other)?;
        // Ends with the response's body, or when that is dropped.
        tokio::spawn(connection);
        sender.send_request(request).await.map_err(io::Error::other)
    }
}

/// The messages of a stream.
struct Messages {
    body: Incoming,
    buffer: BytesMut,
}

impl Messages {
    /// The event of the next message; nothing at the end.
    async fn next(&mut self) -> io::Result<Option<Value>> {
        loop {
            if let Some((flags, length)) = self.head() {
                if length > MAX_MESSAGE {
                    return Err(io::Error::other(format!("a message of {length} bytes")));
                }
                if self.buffer.len() >= 5 + length {
                    self.buffer.advance(5);
                    let mut message: Value = serde_json::from_slice(&self.buffer.split_to(length))?;
                    if flags & 2 == 0 {
                        return Ok(Some(message["event"].take()));
                    }
                    return match message["error"]["message"].as_str() {
                        Some(error) => Err(io::Error::other(error.to_owned())),
                        None if message["error"].is_null() => Ok(None),
                        None => Err(io::Error::other(message["error"].to_string())),
                    };
                }
            }
            match self.body.frame().await {
                Some(frame) => {
                    let data = frame.map_err(io::Error::other)?.into_data().unwrap_or_default();
                    self.buffer.extend_from_slice(&data);
                }
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    /// Flags and length of the message that the buffer begins with.
    fn head(&self) -> Option<(u8, usize)> {
        let (&flags, rest) = self.buffer.split_first()?;
        let length: [u8; 4] = rest.get(..4)?.try_into().ok()?;
        Some((flags, usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX)))
    }
}
