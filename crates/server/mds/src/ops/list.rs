//! Directory listings, resumed by cookie.

use std::{collections::BTreeMap, sync::Arc};

use braid_meta::{DirectoryPage, Inode, ListedEntry};
use braid_types::{FileIndex, Status, limits::FRAME_BODY_BYTES_MAX};
use braid_wire::{
    encode_success,
    message::{
        mds::{MdsRequest, ReadDirectory, ReadDirectoryReply},
        types::{Attributes, DirectoryEntry},
    },
};

use crate::{
    call::{Call, CallOutcome},
    convert,
    core::MdsCore,
    path_ref::note_reached_file,
    size::CollectMode,
};

/// Bytes of an entry on the wire without its name: cookie, lengths, index, kind, size mark.
const ENTRY_BYTES: usize = 22;
/// Bytes of attributes on the wire.
const ATTRIBUTES_BYTES: usize = 160;
/// What the store counts for an entry without its name.
const STORE_ENTRY_BYTES: usize = 64;

impl MdsCore {
    pub(super) fn read_directory(&self, call: Call, r: &ReadDirectory) -> CallOutcome {
        // An entry with attributes takes up to three times what the store counts for it.
        let most =
            FRAME_BODY_BYTES_MAX / ((ENTRY_BYTES + ATTRIBUTES_BYTES) / STORE_ENTRY_BYTES + 2);
        let bytes_max = (r.bytes_max as usize).min(most);
        let page = self.file_named(&call, r.dir).and_then(|directory| {
            let page = self.namespace.readdir(
                &call.who,
                directory.file,
                r.cookie,
                bytes_max,
                r.with_attributes,
            )?;
            page.entries
                .iter()
                .filter_map(|listed| listed.inode.as_ref())
                .for_each(|inode| note_reached_file(&call, inode));
            Ok(page)
        });
        let page = match page {
            Ok(page) => page,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let mut page = page;
        for listed in &mut page.entries {
            // Left out: files that another session has buffered writes of, and files in a truncate.
            // A client that needs them asks for them.
            let left_out = |inode: &Arc<Inode>| {
                self.has_buffered_writes(&call, inode.file) || self.is_size_changing(inode.file)
            };
            listed.inode = listed.inode.take().filter(|inode| !left_out(inode));
        }
        let marked = |listed: &ListedEntry| {
            listed.inode.clone().filter(|inode| self.must_collect_size(inode))
        };
        let mut known = BTreeMap::new();
        let mut written: Vec<Arc<Inode>> = page.entries.iter().filter_map(marked).collect();
        written.retain(|inode| match self.cached_attributes(inode) {
            Some(attributes) if !self.is_size_changing(inode.file) => {
                let shared = self.is_uncacheable(&call, inode, true);
                known.insert(inode.file, Some(Attributes { uncacheable: shared, ..attributes }));
                false
            }
            _ => true,
        });
        if written.is_empty() {
            return CallOutcome::Answer(call, encode_success(&reply(page, &known)));
        }
        let Some(me) = self.arc() else {
            return CallOutcome::Fail(call, Status::NotServing.into());
        };
        let request = MdsRequest::ReadDirectory(r.clone());
        me.collect_sizes_of(written, CollectMode::WHILE_CALLER_WAITS, move |core, sizes| {
            known.extend(sizes.into_iter().map(|(inode, found)| {
                // Left out: files in a truncate, and files whose daemons do not answer. A client
                // that needs one asks for it and gets the reason.
                let true_now = !core.is_size_changing(inode.file);
                let shared = core.is_uncacheable(&call, &inode, false);
                let found = found.ok().filter(|_| true_now);
                (
                    inode.file,
                    found.map(|found| Attributes {
                        uncacheable: shared,
                        ..core.state().sizes.attributes_from_objects(&inode, &found)
                    }),
                )
            }));
            core.settle(CallOutcome::Answer(call, encode_success(&reply(page, &known))), request);
        });
        CallOutcome::Pending
    }
}

fn reply(
    page: DirectoryPage,
    known: &BTreeMap<FileIndex, Option<Attributes>>,
) -> ReadDirectoryReply {
    let entry = |listed: ListedEntry| {
        let file = listed.entry.file;
        let attributes = match known.get(&file) {
            Some(known) => known.clone(),
            None => listed.inode.map(|inode| convert::attributes(&inode)),
        };
        DirectoryEntry {
            cookie: listed.entry.cookie,
            name: listed.name,
            file,
            kind: convert::kind(listed.entry.kind),
            attributes,
        }
    };
    let (end, last) = (page.end, page.last);
    ReadDirectoryReply {
        entries: page.entries.into_iter().map(entry).collect(),
        end,
        last_cookie: last,
    }
}
