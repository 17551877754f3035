//! Directory listings. They are fetched in batches and resumed by cookie, so that a listing under
//! concurrent changes returns every unchanged name exactly once. A name that is made or moved
//! meanwhile gets a later cookie than all existing ones. A listing ends at the last cookie at its
//! beginning: otherwise it could follow names forever that are moved as fast as they are listed.

use std::{collections::VecDeque, sync::Arc};

use braid_net::Driver;
use braid_types::FileIndex;
use braid_wire::message::{
    mds::{FsyncDirectory, ReadDirectory, ReadDirectoryReply},
    types::{DirectoryEntry, PathRef},
};

use super::Caller;
use crate::error::Result;

/// The approximate size of one reply. 64 KiB are some thousand names: one round trip for most
/// directories, and bounded memory for the others (I9).
const LISTING_REPLY_BYTES: u32 = 64 * 1024;

/// A listing in progress.
pub struct Listing<D: Driver> {
    caller: Caller<D>,
    shown: Arc<str>,
    dir: FileIndex,
    cookie: u64,
    /// The last cookie; `None` before the first batch.
    until: Option<u64>,
    with_attributes: bool,
    fetched: VecDeque<DirectoryEntry>,
    end: bool,
}

impl<D: Driver> Caller<D> {
    /// Lists a directory.
    pub async fn read_dir(&self, at: &PathRef, with_attributes: bool) -> Result<Listing<D>> {
        let dir = if at.path.is_empty() { at.dir } else { self.stat(at).await?.file };
        Ok(self.read_dir_from(dir, &super::shown_path(at), 0, with_attributes))
    }

    /// Lists a directory from the entry after this cookie of an earlier listing; 0 for the
    /// beginning. `shown` is its name in errors.
    pub fn read_dir_from(
        &self,
        dir: FileIndex,
        shown: &str,
        cookie: u64,
        with_attributes: bool,
    ) -> Listing<D> {
        let (caller, shown) = (self.clone(), shown.into());
        Listing {
            caller,
            shown,
            dir,
            cookie,
            until: None,
            with_attributes,
            fetched: VecDeque::new(),
            end: false,
        }
    }

    /// A batch of entries, for callers that keep the cookie themselves.
    pub async fn read_directory(
        &self,
        at: &PathRef,
        cookie: u64,
        bytes_max: u32,
        with_attributes: bool,
    ) -> Result<ReadDirectoryReply> {
        let dir = if at.path.is_empty() { at.dir } else { self.stat(at).await?.file };
        self.repeatable("list", at, ReadDirectory { dir, cookie, bytes_max, with_attributes })
            .send()
            .await
    }

    /// Forces a directory's changes to disk (I6).
    pub async fn sync_directory(&self, at: &PathRef) -> Result<()> {
        let dir = if at.path.is_empty() { at.dir } else { self.stat(at).await?.file };
        self.repeatable("sync directory", at, FsyncDirectory { dir }).send().await
    }
}

impl<D: Driver> Listing<D> {
    /// The next entry; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<DirectoryEntry>> {
        while self.fetched.is_empty() && !self.end {
            if let Err(error) = self.fetch().await {
                self.end = true;
                return Some(Err(error));
            }
        }
        self.fetched.pop_front().map(Ok)
    }

    async fn fetch(&mut self) -> Result<()> {
        let call = ReadDirectory {
            dir: self.dir,
            cookie: self.cookie,
            bytes_max: LISTING_REPLY_BYTES,
            with_attributes: self.with_attributes,
        };
        let (engine, identity) = (&self.caller.engine, self.caller.identity.number());
        let reply =
            engine.repeatable(call).identity(identity).until(engine.deadline()).send().await;
        let mut reply = reply.map_err(|error| error.during("list", &*self.shown))?;
        let until = *self.until.get_or_insert(reply.last_cookie);
        reply.end_at(until);
        // A server that sends no entries and no end would make this loop forever (I8).
        self.end = reply.end || reply.entries.is_empty();
        self.cookie = reply.entries.last().map_or(self.cookie, |entry| entry.cookie);
        self.fetched = reply.entries.into();
        Ok(())
    }
}
