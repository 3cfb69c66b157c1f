//! What is set on a change before it is awaited.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use oncebox_protocol::{operations, volume};
use oncebox_transport::Body;
use oncebox_transport::policy::Permit;

use super::call::{Content, read};
use super::{Volume, VolumeEntry};
use crate::error::Error;

/// Owner, group and permissions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attributes {
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) mode: Option<u32>,
}

/// A directory about to be made: see [`Volume::make_dir`].
#[derive(Clone, Debug)]
#[must_use = "nothing is done until this is awaited"]
pub struct MakeVolumeDir {
    volume: Volume,
    path: String,
    attributes: Attributes,
    force: Option<bool>,
}

/// A change of owner, group or permissions about to be made: see [`Volume::update_metadata`].
#[derive(Clone, Debug)]
#[must_use = "nothing is done until this is awaited"]
pub struct UpdateVolumeEntry {
    volume: Volume,
    path: String,
    attributes: Attributes,
}

/// A file about to be written: see [`Volume::write_file`].
#[derive(Debug)]
#[must_use = "nothing is done until this is awaited"]
pub struct WriteVolumeFile {
    volume: Volume,
    path: String,
    data: Body,
    attributes: Attributes,
    force: Option<bool>,
}

macro_rules! attributes {
    ($($name:ident),+) => {$(
        impl $name {
            /// Its owner, by number.
            pub fn uid(mut self, uid: u32) -> Self {
                self.attributes.uid = Some(uid);
                self
            }

            /// Its group, by number.
            pub fn gid(mut self, gid: u32) -> Self {
                self.attributes.gid = Some(gid);
                self
            }

            /// Its permission bits, such as `0o644`.
            pub fn mode(mut self, mode: u32) -> Self {
                self.attributes.mode = Some(mode);
                self
            }
        }

        impl IntoFuture for $name {
            type Output = Result<VolumeEntry, Error>;
            type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(self.send())
            }
        }
    )+};
}

attributes!(MakeVolumeDir, UpdateVolumeEntry, WriteVolumeFile);

impl MakeVolumeDir {
    pub(super) fn new(volume: &Volume, path: String) -> Self {
        Self { volume: volume.clone(), path, attributes: Attributes::default(), force: None }
    }

    /// Makes parents too, and accepts a directory that is there already. Default: no.
    pub fn force(mut self, force: bool) -> Self {
        self.force = Some(force);
        self
    }

    async fn send(self) -> Result<VolumeEntry, Error> {
        let mut call = Content::new(&operations::MAKE_VOLUME_DIR, "make the volume's directory", &self.path);
        call = call.attributes(self.attributes).query("force", self.force.map(|force| force.to_string()));
        if self.force == Some(true) {
            // The second time finds what the first one made.
            call.options = call.options.permit(Permit::OperationTable);
        }
        call.parsed::<volume::Entry>(&self.volume).await.map(VolumeEntry::from)
    }
}

impl UpdateVolumeEntry {
    pub(super) fn new(volume: &Volume, path: String) -> Self {
        Self { volume: volume.clone(), path, attributes: Attributes::default() }
    }

    async fn send(self) -> Result<VolumeEntry, Error> {
        const ACTION: &str = "change the volume's path";
        let Attributes { uid, gid, mode } = self.attributes;
        if (uid, gid, mode) == (None, None, None) {
            return Err(Error::invalid("nothing to change: give uid, gid or mode"));
        }
        let body = serde_json::to_vec(&volume::UpdateEntry { uid, gid, mode });
        let body = body.map_err(|error| Error::invalid(format!("{ACTION}: {error}")))?;
        let call = Content::new(&operations::UPDATE_VOLUME_PATH, ACTION, &self.path).content_type("application/json");
        let response = call.send(&self.volume, Body::from(body)).await?;
        read::<volume::Entry>(ACTION, response).await.map(VolumeEntry::from)
    }
}

impl WriteVolumeFile {
    pub(super) fn new(volume: &Volume, path: String, data: Body) -> Self {
        Self { volume: volume.clone(), path, data, attributes: Attributes::default(), force: None }
    }

    /// Makes parents too. Default: no.
    pub fn force(mut self, force: bool) -> Self {
        self.force = Some(force);
        self
    }

    async fn send(self) -> Result<VolumeEntry, Error> {
        const ACTION: &str = "write the volume's file";
        let call = Content::new(&operations::WRITE_VOLUME_FILE, ACTION, &self.path).bulk();
        let call = call.attributes(self.attributes).query("force", self.force.map(|force| force.to_string()));
        let response = call.content_type("application/octet-stream").send(&self.volume, self.data).await?;
        read::<volume::Entry>(ACTION, response).await.map(VolumeEntry::from)
    }
}
