//! Volumes: folders that outlive sandboxes, can be mounted into several, and be read and written without any.

mod content;
mod entry;

pub use content::{MakeVolumeDir, UpdateVolumeEntry, WriteVolumeFile};
pub use entry::{VolumeEntry, VolumeEntryKind};

use std::fmt;

use jiff::Timestamp;
use oncebox_protocol::{SecretString, api, operations};

use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::Error;
use crate::mint::{Listing, Mint};
use crate::options::CallOptions;

const VOLUMES: Listing = Listing::whole(&operations::LIST_VOLUMES, "volumeID");

/// What [`Volume::is_untouched_since`] asks.
const UNTOUCHED_REQUESTS: u32 = 2;

const CONNECT: &str = "connect to the volume";

/// A volume. Clones are cheap and are the same volume. Its files are read and written without a sandbox; sandboxes
/// [mount](crate::CreateSandbox::volume) it by its name.
///
/// ```no_run
/// # async fn example(client: oncebox::Client) -> Result<(), oncebox::Error> {
/// use oncebox::{Sandbox, Volume};
///
/// let volume = Volume::create(&client, "data").await?;
/// volume.write_file("/in.txt", "hello").await?;
/// let sandbox = Sandbox::create(&client).volume("data", "/mnt/data").await?;
/// sandbox.commands().run("tr a-z A-Z < /mnt/data/in.txt > /mnt/data/out.txt").await?;
/// assert_eq!(volume.read_text("/out.txt").await?, "HELLO");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Volume {
    client: Client,
    id: String,
    name: String,
    token: SecretString,
    domain: Option<String>,
}

/// A volume as its list describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VolumeInfo {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
}

impl Volume {
    /// Makes an empty volume. Its name has letters, digits, `-` and `_`, and is no other volume's.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for a name that breaks the rule, before any I/O, and for one
    /// that is taken. Where the answer is lost, a volume that has this name since the call began, that none had before, and
    /// that nobody has put anything into, is the answer. When that cannot be told, the error names
    /// [candidates](Error::candidates).
    pub async fn create(client: &Client, name: &str) -> Result<Self, Error> {
        const ACTION: &str = "create a volume";
        check_name(name)?;
        let call =
            ApiCall::new(&operations::CREATE_VOLUME, ACTION, []).json(&api::NewVolume { name: name.to_owned() })?;
        let mut mint = Mint::begin(client, ACTION, VOLUMES, name).await?;
        let made = Self::make(client, &mut mint, &call).await;
        made.map_err(|error| mint.tell(error))
    }

    async fn make(client: &Client, mint: &mut Mint<'_>, call: &ApiCall<'_>) -> Result<Self, Error> {
        let mut earlier: Option<Error> = None;
        loop {
            let (lost, refusal) = match mint.send::<api::VolumeAndToken>(call.clone()).await {
                Ok(made) => return Ok(Self::new(client, made)),
                Err(Ok(lost)) => (lost, None),
                // What is in the way may be an earlier one of this call that came late.
                Err(Err(error)) => match earlier.take() {
                    Some(lost) if is_in_the_way(&error) && mint.absent_at().is_some() => (lost, Some(error)),
                    _ => return Err(error),
                },
            };
            match (Self::find(client, mint, lost.clone()).await?, refusal) {
                (Some(volume), _) => return Ok(volume),
                (None, Some(refusal)) => return Err(refusal),
                (None, None) => mint.again(&lost).await?,
            }
            earlier = Some(lost);
        }
    }

    /// The volume that was made although its answer was lost; `None`: none was.
    async fn find(client: &Client, mint: &mut Mint<'_>, lost: Error) -> Result<Option<Self>, Error> {
        let unknown = match mint.find(lost.clone()).await {
            Ok(None) => return Ok(None),
            Ok(Some(made)) => {
                let volume = Self::fetch(client, mint, &made.id).await;
                return volume.map(Some).map_err(|_| lost.with_candidates(vec![made.id]));
            }
            Err(unknown) => unknown,
        };
        // The protocol does not say when a volume was made. What is as new as the call, and empty, was.
        if let ([id], Some(date)) = (unknown.candidates(), mint.absent_at())
            && let Ok(volume) = Self::fetch(client, mint, id).await
        {
            let of = volume.clone();
            let untouched = mint.find_out(UNTOUCHED_REQUESTS, |client| async move {
                Self { client, ..of }.is_untouched_since(date).await
            });
            if untouched.await == Some(true) {
                return Ok(Some(volume));
            }
        }
        Err(unknown)
    }

    async fn fetch(client: &Client, mint: &mut Mint<'_>, id: &str) -> Result<Self, Error> {
        let response = mint.fetch(ApiCall::new(&operations::GET_VOLUME, CONNECT, [id])).await?;
        Ok(Self::new(client, parse(CONNECT, &response)?))
    }

    /// Opens a volume by its id.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such one.
    pub async fn connect(client: &Client, id: &str) -> Result<Self, Error> {
        let response = client.call(ApiCall::new(&operations::GET_VOLUME, CONNECT, [id])).await?;
        Ok(Self::new(client, parse(CONNECT, &response)?))
    }

    /// Describes a volume by its id.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn info(client: &Client, id: &str) -> Result<VolumeInfo, Error> {
        let volume = Self::connect(client, id).await?;
        Ok(VolumeInfo { id: volume.id, name: volume.name })
    }

    /// All volumes.
    ///
    /// # Errors
    ///
    /// When the server could not be asked.
    pub async fn list(client: &Client) -> Result<Vec<VolumeInfo>, Error> {
        const ACTION: &str = "list volumes";
        let response = client.call(ApiCall::new(&operations::LIST_VOLUMES, ACTION, [])).await?;
        let listed: Vec<api::Volume> = parse(ACTION, &response)?;
        Ok(listed.into_iter().map(|volume| VolumeInfo { id: volume.volume_id, name: volume.name }).collect())
    }

    /// Deletes a volume with all that is in it, by its id; `false`: there is no such one (any more).
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::ErrorKind::Conflict) while sandboxes have it mounted, where the server tells so.
    pub async fn destroy(client: &Client, id: &str) -> Result<bool, Error> {
        client.call_unless_missing(ApiCall::new(&operations::DELETE_VOLUME, "delete the volume", [id])).await
    }

    /// A volume whose id, name and token are known, in whatever process they were: nothing is asked of the server. `domain`:
    /// where its content is, in place of the client's.
    pub fn known(
        client: &Client,
        id: impl Into<String>,
        name: impl Into<String>,
        token: impl Into<SecretString>,
        domain: Option<String>,
    ) -> Self {
        Self { client: client.clone(), id: id.into(), name: name.into(), token: token.into(), domain }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What gives access to its content, as [`known`](Self::known) takes it. Whoever has it can read and write all of it.
    pub fn token(&self) -> &str {
        self.token.expose()
    }

    /// Where its content is, when that is not for the client to say.
    pub fn domain(&self) -> Option<&str> {
        self.domain.as_deref()
    }

    /// Its name, by which sandboxes mount it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same volume, whose calls have these options in place of the client's. Calls about its content take retries,
    /// connection retries, the request timeout and `header`s from them, and neither key nor `api_header`s.
    ///
    /// ```no_run
    /// # async fn example(volume: oncebox::Volume) -> Result<(), oncebox::Error> {
    /// use oncebox::CallOptions;
    ///
    /// // A file that is written again whole where the first time was cut.
    /// volume.with(CallOptions::new().retries(3))?.write_file("/a", "content").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Client::with`].
    pub fn with(&self, options: CallOptions) -> Result<Self, Error> {
        Ok(Self { client: self.client.with(options)?, ..self.clone() })
    }

    fn new(client: &Client, volume: api::VolumeAndToken) -> Self {
        Self {
            client: client.clone(),
            id: volume.volume_id,
            name: volume.name,
            token: volume.token,
            domain: volume.domain,
        }
    }

    /// Whether nothing is in it, and nothing was changed in it before `date`.
    async fn is_untouched_since(&self, date: Timestamp) -> bool {
        let is_new = |root: VolumeEntry| root.modified_at >= date && root.changed_at >= date;
        let is_empty = |entries: Vec<VolumeEntry>| entries.is_empty();
        self.entry("/").await.is_ok_and(is_new) && self.list_dir("/", 1).await.is_ok_and(is_empty)
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Whether a name is taken: servers answer so with either (protocol fact: the specification has 400 alone).
fn is_in_the_way(error: &Error) -> bool {
    matches!(error.status(), Some(400 | 409))
}

fn check_name(name: &str) -> Result<(), Error> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if name.is_empty() || !name.bytes().all(allowed) {
        return Err(Error::invalid(format!("the volume's name: {name:?}: it must have letters, digits, - and _ only")));
    }
    Ok(())
}
