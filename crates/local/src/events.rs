//! What happens to sandboxes, told to whoever asks and to webhooks.
//!
//! Events are kept in memory, the latest of them; webhooks are records. Deliveries go out one after another, in the order of
//! the events, each tried a few times.

mod deliver;

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use oncebox_protocol::SecretString;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::registry::SandboxRecord;
use crate::store::{Records, Store, StoreError};

pub(crate) use deliver::target;

/// Events that are kept.
const MAX_EVENTS: usize = 10_000;
/// Events that wait for delivery. More are dropped, and the log says so.
const MAX_WAITING: usize = 1000;
/// Deliveries that are kept.
const MAX_DELIVERIES: usize = 1000;

/// The id of the one team that a local server has.
pub(crate) const TEAM: &str = "00000000-0000-4000-8000-000000000001";

/// Something that happened to a sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) kind: &'static str,
    pub(crate) sandbox_id: String,
    /// As it is told.
    pub(crate) body: Value,
}

impl Event {
    pub(crate) const CREATED: &'static str = "sandbox.lifecycle.created";
    pub(crate) const PAUSED: &'static str = "sandbox.lifecycle.paused";
    pub(crate) const RESUMED: &'static str = "sandbox.lifecycle.resumed";
    pub(crate) const UPDATED: &'static str = "sandbox.lifecycle.updated";
    pub(crate) const KILLED: &'static str = "sandbox.lifecycle.killed";
    /// All of them.
    pub(crate) const KINDS: [&'static str; 5] =
        [Self::CREATED, Self::PAUSED, Self::RESUMED, Self::UPDATED, Self::KILLED];

    /// An event of a sandbox, now.
    pub(crate) fn of_sandbox(kind: &'static str, sandbox_id: &str, record: &SandboxRecord) -> Self {
        let body = json!({
            "version": "v2",
            "id": crate::ids::uuid().unwrap_or_default(),
            "type": kind,
            "timestamp": Timestamp::now(),
            "eventData": { "sandbox_metadata": record.metadata },
            "sandboxId": sandbox_id,
            "sandboxExecutionId": sandbox_id,
            "sandboxTemplateId": record.template_id,
            "sandboxBuildId": record.template_id,
            "sandboxTeamId": TEAM,
        });
        Self { kind, sandbox_id: sandbox_id.to_owned(), body }
    }
}

/// Whom to tell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Webhook {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) events: Vec<String>,
    pub(crate) enabled: bool,
    pub(crate) secret: SecretString,
    pub(crate) created_at: Timestamp,
}

/// One try to tell a webhook of an event.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Delivery {
    pub(crate) id: String,
    pub(crate) webhook_id: String,
    pub(crate) event_id: Value,
    pub(crate) event_type: &'static str,
    pub(crate) timestamp: Timestamp,
    pub(crate) attempts: u32,
    pub(crate) success: bool,
    /// The last answer's status, if there was one.
    pub(crate) status: Option<u16>,
    pub(crate) error: Option<String>,
}

/// All events, and those who listen.
pub(crate) struct Events {
    pub(crate) webhooks: Records<Webhook>,
    log: Mutex<VecDeque<Event>>,
    deliveries: Arc<Mutex<VecDeque<Delivery>>>,
    waiting: mpsc::Sender<Event>,
    /// Taken by whoever delivers.
    receiver: Mutex<Option<mpsc::Receiver<Event>>>,
}

impl Events {
    /// Events from now on, for the webhooks that the store has. Blocks.
    pub(crate) fn open(store: &Store) -> Result<Self, StoreError> {
        let (waiting, receiver) = mpsc::channel(MAX_WAITING);
        Ok(Self {
            webhooks: Records::open(store, "webhook")?,
            log: Mutex::default(),
            deliveries: Arc::default(),
            waiting,
            receiver: Mutex::new(Some(receiver)),
        })
    }

    /// Records an event, and has it delivered.
    pub(crate) fn happened(&self, event: Event) {
        if self.webhooks.len() > 0 && self.waiting.try_send(event.clone()).is_err() {
            tracing::warn!(kind = event.kind, "too many events wait for webhooks; this one is not delivered");
        }
        let mut log = self.log.lock();
        if log.len() >= MAX_EVENTS {
            log.pop_front();
        }
        log.push_back(event);
    }

    /// Those that fit, oldest first.
    pub(crate) fn select(&self, fits: impl Fn(&Event) -> bool) -> Vec<Event> {
        self.log.lock().iter().filter(|event| fits(event)).cloned().collect()
    }

    /// What a webhook was sent, oldest first.
    pub(crate) fn deliveries(&self, webhook: &str) -> Vec<Delivery> {
        self.deliveries.lock().iter().filter(|delivery| delivery.webhook_id == webhook).cloned().collect()
    }

    /// Delivers events as they happen. The returned future ends with the events.
    pub(crate) fn deliver(&self) -> impl Future<Output = ()> + Send + use<> {
        let receiver = self.receiver.lock().take();
        let (webhooks, deliveries) = (self.webhooks.clone(), Arc::clone(&self.deliveries));
        async move {
            let Some(mut receiver) = receiver else { return };
            while let Some(event) = receiver.recv().await {
                for webhook in webhooks.all() {
                    if !webhook.enabled || !webhook.events.iter().any(|kind| kind == event.kind) {
                        continue;
                    }
                    let delivery = deliver::deliver(&webhook, &event).await;
                    let mut deliveries = deliveries.lock();
                    if deliveries.len() >= MAX_DELIVERIES {
                        deliveries.pop_front();
                    }
                    deliveries.push_back(delivery);
                }
            }
        }
    }
}
