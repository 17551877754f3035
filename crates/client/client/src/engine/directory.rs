//! Listings: fetched in stretches, resumed by cookie, so that a listing under concurrent change returns every
//! untouched name exactly once. A name that is made or moved meanwhile gets a later cookie than all there were: a listing ends at
//! the last cookie of its beginning, or it would run after names that are moved as fast as they are listed.

use std::{collections::VecDeque, sync::Arc};

use braid_net::Driver;
use braid_types::FileIndex;
use braid_wire::message::{
    mds::{FsyncDirectory, ReadDirectory, ReadDirectoryReply},
    types::{At, DirectoryEntry},
};

use super::Caller;
use crate::error::Result;

/// About what one reply of a listing holds. 64 KiB is some thousand names: one round trip for most directories,
/// and memory that does not grow with the others (I9).
const STRETCH_BYTES: u32 = 64 * 1024;

/// A listing under way.
pub struct Listing<D: Driver> {
    caller: Caller<D>,
    shown: Arc<str>,
    dir: FileIndex,
    cookie: u64,
    /// Where it ends; `None` before the first stretch.
    until: Option<u64>,
    with_attributes: bool,
    fetched: VecDeque<DirectoryEntry>,
    end: bool,
}

impl<D: Driver> Caller<D> {
    /// Lists a directory.
    pub async fn read_dir(&self, at: &At, with_attributes: bool) -> Result<Listing<D>> {
        let dir = if at.path.is_empty() { at.dir } else { self.stat(at).await?.file };
        Ok(self.read_dir_from(dir, &super::show(at), 0, with_attributes))
    }

    /// Lists a directory after a cookie of an earlier listing; 0 for the beginning. `shown` is how errors name it.
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

    /// A stretch of a listing, for callers that keep the cookie themselves.
    pub async fn read_directory(
        &self,
        at: &At,
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
    pub async fn sync_directory(&self, at: &At) -> Result<()> {
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
            bytes_max: STRETCH_BYTES,
            with_attributes: self.with_attributes,
        };
        let (engine, identity) = (&self.caller.engine, self.caller.identity.number());
        let reply =
            engine.repeatable(call).identity(identity).until(engine.deadline()).send().await;
        let mut reply = reply.map_err(|error| error.during("list", &*self.shown))?;
        let until = *self.until.get_or_insert(reply.last);
        reply.end_at(until);
        // A server that sends nothing and no end would keep us here for ever (I8).
        self.end = reply.end || reply.entries.is_empty();
        self.cookie = reply.entries.last().map_or(self.cookie, |entry| entry.cookie);
        self.fetched = reply.entries.into();
        Ok(())
    }
}
