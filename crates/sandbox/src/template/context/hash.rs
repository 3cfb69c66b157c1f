//! A step's hash, by which a server knows files that it has.

use std::fs::{self, File};
use std::io::{self, Read};

use sha2::{Digest, Sha256};

use super::{Found, Kind, mode};
use crate::template::CopyFiles;

/// Protocol fact: over the step, then each file's name, mode with its kind, size, and content or target.
#[derive(Clone)]
pub(super) struct StepHash(Sha256);

impl StepHash {
    pub(super) fn begin(copy: &CopyFiles, root: Option<&fs::Metadata>) -> Self {
        let mut hash = Sha256::new();
        hash.update(format!("COPY {} {}", copy.from, copy.to));
        if let Some(root) = root {
            hash.update(".");
            hash.update((DIRECTORY | mode(root)).to_string());
        }
        Self(hash)
    }

    /// All but its content.
    pub(super) fn add(&mut self, found: &Found) {
        self.0.update(&found.name);
        self.0.update(found.full_mode().to_string());
        match &found.kind {
            Kind::File { size } => self.0.update(size.to_string()),
            Kind::Directory => {}
            Kind::Link { target } => {
                let target = target.to_string_lossy();
                self.0.update(target.len().to_string());
                self.0.update(&*target);
            }
        }
    }

    pub(super) fn so_far(&self) -> [u8; 32] {
        self.0.clone().finalize().into()
    }
}

/// A file that is hashed as it is read.
pub(super) struct Hashed<'h> {
    pub(super) file: Exactly,
    pub(super) hash: &'h mut StepHash,
}

impl Read for Hashed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.hash.0.update(&buffer[..read]);
        Ok(read)
    }
}

/// A file of which it is known how long it is.
pub(super) struct Exactly {
    pub(super) file: File,
    pub(super) left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read(&mut buffer[..most])?;
        if read == 0 && most > 0 {
            return Err(io::Error::other("a file became shorter while it was read"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// What `stat` calls a directory.
const DIRECTORY: u32 = 0o040_000;

impl Found {
    /// As `stat` tells it: what it is, and its permissions.
    fn full_mode(&self) -> u32 {
        let kind = match self.kind {
            Kind::File { .. } => 0o100_000,
            Kind::Directory => DIRECTORY,
            Kind::Link { .. } => 0o120_000,
        };
        kind | self.mode
    }
}
