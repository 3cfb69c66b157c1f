//! Creates: each of them once, whoever asks.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use oncebox::ErrorKind;
use oncebox::forward::{ForwardedAnswer, ForwardedCreate};
use oncebox_protocol::headers::{IDEMPOTENCY_KEY, X_ADMIN_TOKEN, X_API_KEY, X_REQUEST_ID, X_TEAM_ID};
use oncebox_transport::policy::create::{INTENT_METADATA, Intent};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use crate::answer::{AnswerBody, Refusal};
use crate::carry::{carry_to_api, collected, refuse};
use crate::front::Front;
use crate::headers::for_server;
use crate::orphans::{Likeness, Orphan, Orphans};
use crate::status::Watch;
use crate::{body, hide};

/// The longest body of a create.
const MAX_BODY: usize = 4 << 20;

/// What one key was asked for, so that it is not given for something else.
#[derive(Default)]
pub(crate) struct Keys(Mutex<(HashMap<Likeness, Likeness>, VecDeque<Likeness>)>);

/// How many keys are remembered.
const KEYS: usize = 4096;

impl Keys {
    /// `false`: the key was for another request before.
    fn fits(&self, key: Likeness, request: Likeness) -> bool {
        let mut inner = self.0.lock();
        let (known, oldest_first) = &mut *inner;
        if let Some(before) = known.get(&key) {
            return *before == request;
        }
        known.insert(key, request);
        oldest_first.push_back(key);
        if oldest_first.len() > KEYS
            && let Some(oldest) = oldest_first.pop_front()
        {
            known.remove(&oldest);
        }
        true
    }
}

/// Makes a create happen once and answers it.
pub(crate) async fn create(
    front: &Arc<Front>,
    mut parts: Parts,
    incoming: Incoming,
    is_v1: bool,
    watch: Watch,
) -> Response<AnswerBody> {
    let bytes = match body::whole(incoming, MAX_BODY).await {
        Ok(bytes) => bytes,
        Err(refusal) => return refuse(refusal, watch, None).await,
    };
    let asked: Option<Map<String, Value>> = serde_json::from_slice(&bytes).ok();
    let is_plain = |metadata: &Value| metadata.is_object() || metadata.is_null();
    let asked = asked.filter(|asked| asked.get("metadata").is_none_or(is_plain) && parts.uri.query().is_none());
    let Some(asked) = asked else {
        // No create that this proxy understands: the server's to refuse, and sent once.
        return carry_to_api(front, parts, bytes, watch).await;
    };
    let key = match key(&parts.headers) {
        Ok(key) => key,
        Err(refusal) => return refuse(refusal, watch, None).await,
    };
    parts.headers.remove(IDEMPOTENCY_KEY);
    let scope = scope(&parts.headers);
    let likeness = likeness(&[&scope.to_be_bytes(), &[u8::from(is_v1)], &bytes]);
    for_server(&mut parts.headers, true);
    let id = parts.headers.get(X_REQUEST_ID).cloned();
    let intent = hide::has_label(&asked, INTENT_METADATA).filter(|intent| Intent::parse(intent).is_ok());
    let create = ForwardedCreate {
        // This SDK, behind the proxy, looks for what it has given up.
        leaves: intent.is_some(),
        intent,
        body: asked,
        headers: parts.headers,
        is_v1,
        idempotency_key: key.clone(),
        scope,
    };
    tracing::debug!(request = ?id, is_v1, with_key = key.is_some(), "create");
    let asker = match key {
        Some(key) if !front.keys.fits(self::likeness(&[&scope.to_be_bytes(), key.as_bytes()]), likeness) => {
            let message = "this Idempotency-Key stands for another create; nothing was sent";
            let refusal = Refusal::new(StatusCode::CONFLICT, message).with_code("idempotency_request_mismatch");
            return refuse(refusal, watch, None).await;
        }
        Some(key) => Asker::with_key(front, create, &key),
        // This SDK, behind the proxy, has an intent of its own.
        None if create.intent.is_some() => Asker::start(front, create, None),
        None => Asker::without_key(front, create, likeness),
    };
    asker.answer(front, watch).await
}

/// Whoever waits for a create. Gone before its answer was taken, it leaves the create to the next one like it.
struct Asker {
    orphans: Arc<Orphans>,
    /// `None`: the create has a name by which it can be asked for again, and stays.
    of: Option<Likeness>,
    waits_for: Option<Orphan>,
}

impl Asker {
    /// A key names the create: whoever comes with it gets the same sandbox, now or later.
    fn with_key(front: &Arc<Front>, create: ForwardedCreate, key: &str) -> Self {
        let intent = create.intent.clone().or_else(|| Some(intent_of(key)));
        Self::start(front, ForwardedCreate { intent, ..create }, None)
    }

    /// Takes over from one like it that nobody waits for any more, or begins anew.
    fn without_key(front: &Arc<Front>, create: ForwardedCreate, likeness: Likeness) -> Self {
        let Some(orphan) = front.orphans.take(&likeness) else { return Self::start(front, create, Some(likeness)) };
        front.tally.count(|counts| counts.taken_over += 1);
        tracing::info!("a create takes over from one like it");
        match orphan {
            Orphan::Unknown(intent) => {
                Self::start(front, ForwardedCreate { intent: Some(intent), ..create }, Some(likeness))
            }
            orphan => Self { orphans: Arc::clone(&front.orphans), of: Some(likeness), waits_for: Some(orphan) },
        }
    }

    fn start(front: &Arc<Front>, create: ForwardedCreate, of: Option<Likeness>) -> Self {
        let (mut sender, answer) = oneshot::channel();
        let (forward, is_named, leaves) = (front.forward.clone(), of.is_none(), create.leaves);
        tokio::spawn(async move {
            let made = tokio::select! {
                biased;
                made = forward.create(create) => made,
                // Dropped, the create is given up: what was sent is looked for and killed, by whoever has its name where
                // somebody has.
                () = sender.closed(), if !is_named || leaves => return,
            };
            if let Err(made) = sender.send(made)
                && !is_named
            {
                made.abandon();
            }
        });
        Self { orphans: Arc::clone(&front.orphans), of, waits_for: Some(Orphan::Running(answer)) }
    }

    async fn answer(mut self, front: &Front, watch: Watch) -> Response<AnswerBody> {
        if let Some(Orphan::Running(answer)) = &mut self.waits_for {
            match answer.await {
                Ok(answer) => self.waits_for = Some(Orphan::Done(Box::new(answer))),
                // Only when the proxy ends.
                Err(_) => {
                    self.waits_for = None;
                    let refusal =
                        Refusal::new(StatusCode::GATEWAY_TIMEOUT, "the proxy ends; nobody knows what became of it");
                    return refuse(refusal.with_code("oncebox_outcome_unknown"), watch, None).await;
                }
            }
        }
        let Some(Orphan::Done(answer)) = &self.waits_for else {
            return refuse(Refusal::new(StatusCode::GATEWAY_TIMEOUT, "no answer came"), watch, None).await;
        };
        let response = shown(front, answer);
        watch.answered(response.status(), answer.attempts);
        let unknown = answer.result.as_ref().err().filter(|error| error.may_have_been_processed());
        match (&answer.result, unknown.and_then(|error| error.intent())) {
            (Ok(_), _) => front.tally.count(|counts| counts.created += 1),
            // Whoever asks again need not make a second one.
            (Err(_), Some(intent)) => {
                front.tally.count(|counts| counts.unknown_creates += 1);
                self.waits_for = Some(Orphan::Unknown(intent.to_owned()));
            }
            (Err(_), None) => self.waits_for = None,
        }
        if matches!(self.waits_for, Some(Orphan::Done(_))) {
            let (head, body) = response.into_parts();
            return Response::from_parts(head, Delivered { body, asker: Some(self) }.boxed_unsync());
        }
        response
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        if let (Some(of), Some(orphan)) = (self.of, self.waits_for.take()) {
            self.orphans.leave(of, orphan);
        }
    }
}

/// A create's answer, which is its asker's when it has been read to its end.
struct Delivered {
    body: AnswerBody,
    asker: Option<Asker>,
}

impl Body for Delivered {
    type Data = Bytes;
    type Error = oncebox::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, oncebox::BoxError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if self.body.is_end_stream()
            && let Some(mut asker) = self.asker.take()
        {
            asker.waits_for = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What is shown of a create's end.
fn shown(front: &Front, answer: &ForwardedAnswer) -> Response<AnswerBody> {
    let came = answer.answer.as_deref();
    let error = match (&answer.result, came) {
        (Ok(_), Some(came)) => {
            // One that was found was answered by a connect.
            let (headers, body) = (came.headers().clone(), came.body().clone());
            return collected(front, StatusCode::CREATED, headers, body, answer.attempts, true);
        }
        (Err(error), Some(came)) if !error.may_have_been_processed() => {
            return collected(front, came.status(), came.headers().clone(), came.body().clone(), answer.attempts, true);
        }
        (Err(error), _) => error,
        (Ok(_), None) => return Refusal::new(StatusCode::BAD_GATEWAY, "the sandbox was not described").into_response(),
    };
    let (status, code) = match error.kind() {
        _ if error.may_have_been_processed() => (StatusCode::GATEWAY_TIMEOUT, "oncebox_outcome_unknown"),
        ErrorKind::Timeout => (StatusCode::GATEWAY_TIMEOUT, "oncebox_timeout"),
        ErrorKind::IntentMismatch => (StatusCode::CONFLICT, "idempotency_request_mismatch"),
        ErrorKind::InvalidArgument => (StatusCode::BAD_REQUEST, "oncebox_refused"),
        _ => (StatusCode::BAD_GATEWAY, "oncebox_not_done"),
    };
    Refusal { attempts: answer.attempts, ..Refusal::new(status, error.to_string()).with_code(code) }.into_response()
}

/// The key that a create is asked for with.
fn key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = keys.next() else { return Ok(None) };
    let text = String::from_utf8_lossy(key.as_bytes());
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if keys.next().is_some() || !(1..=255).contains(&text.len()) || !text.bytes().all(is_allowed) {
        let rule = "it must be one value of 1 to 255 characters of a-z, 0-9 and -";
        return Err(Refusal::bad_request(format!("Idempotency-Key {text:?}: {rule}; nothing was sent")));
    }
    Ok(Some(text.into_owned()))
}

/// The intent that a key stands for: one that is of an intent's form is the intent itself, so that any process finds it.
fn intent_of(key: &str) -> String {
    match Intent::parse(key) {
        Ok(intent) => intent.to_string(),
        Err(_) => {
            let digest = Sha256::digest(key.as_bytes());
            let mut first = [0; 16];
            first.copy_from_slice(&digest[..16]);
            Intent::from_random(first).to_string()
        }
    }
}

/// Whose a request is.
fn scope(headers: &HeaderMap) -> u64 {
    let values = [X_API_KEY, AUTHORIZATION, X_TEAM_ID, X_ADMIN_TOKEN]
        .map(|name| headers.get(name).map_or(&[][..], |value| value.as_bytes()).to_vec());
    let digest = likeness(&[&values[0], &values[1], &values[2], &values[3]]);
    u64::from_be_bytes([digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6], digest[7]])
}

fn likeness(parts: &[&[u8]]) -> Likeness {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_key_is_one_value_of_the_protocols_form() {
        let keys = |keys: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for key in keys {
                headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static(key));
            }
            key(&headers)
        };
        assert_eq!(keys(&[]).unwrap(), None);
        assert_eq!(keys(&["job-1"]).unwrap().as_deref(), Some("job-1"));
        for wrong in [&[""][..], &["A"], &["a", "a"], &["a b"]] {
            let refusal = keys(wrong).unwrap_err();
            assert!(refusal.status == 400 && refusal.message.contains("1 to 255"), "{wrong:?}");
        }
        let itself = "0123456789abcdef0123456789abcdef";
        assert_eq!(intent_of(itself), itself);
        assert!(Intent::parse(&intent_of("job-1")).is_ok() && intent_of("job-1") != intent_of("job-2"));
    }

    #[test]
    fn a_key_stands_for_one_request() {
        let keys = Keys::default();
        assert!(keys.fits([1; 32], [2; 32]) && keys.fits([1; 32], [2; 32]) && !keys.fits([1; 32], [3; 32]));
        for n in 0..KEYS {
            keys.fits(likeness(&[&n.to_be_bytes()]), [0; 32]);
        }
        assert!(keys.fits([1; 32], [3; 32]));
        assert_eq!(keys.0.lock().0.len(), KEYS);
    }

    #[test]
    fn parts_are_told_apart() {
        assert_ne!(likeness(&[b"ab", b"c"]), likeness(&[b"a", b"bc"]));
        let of = |name, value| scope(&HeaderMap::from_iter([(name, HeaderValue::from_static(value))]));
        assert_ne!(of(X_API_KEY, "k"), of(AUTHORIZATION, "k"));
        assert_eq!(of(X_API_KEY, "k"), of(X_API_KEY, "k"));
    }
}
