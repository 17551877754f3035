//! CHANGE_NOTIFY. MS-SMB2 3.3.5.19.

use std::sync::Arc;

use braid_share::{Share, ShareClient};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::smb2::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest};

use crate::context::Context;
use crate::open::FileOpen;
use crate::pending::Outcome;
use crate::status::failed;
use crate::watch::{EVENTS_BYTES_MAX, OpenWatch, Watch, Watched};

/// Returns what has happened in a directory, or waits for it.
pub async fn change_notify<S: Share>(
    context: &Context<S>,
    request: ChangeNotifyRequest,
) -> Result<Outcome, NtStatus> {
    context.paid_for(request.output_buffer_length)?;
    let open = context.open(request.file_id)?;
    let file = open.file()?;
    // MS-FSA 2.1.5.11.
    if !file.is_directory {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    file.needs(AccessMask::LIST_DIRECTORY.0)?;
    let watch = watch(context, file, &request).await?;
    let max_bytes = (request.output_buffer_length as usize).min(EVENTS_BYTES_MAX);
    if let Some(reply) = watch.take(max_bytes) {
        return Ok(Outcome::Done(Ok(reply.with_file(file.id))));
    }
    let (client, who) = (context.client()?.clone(), context.who()?.clone());
    let next = OpenWatch::next(watch, client, who, max_bytes);
    Ok(Outcome::Waits(Box::new(|cancelled| {
        Box::pin(async {
            tokio::select! {
                happened = next => happened,
                _ = cancelled => Err(NtStatus::CANCELLED),
            }
        })
    })))
}

/// The watch of an open. The first request decides what is watched (MS-FSA 2.1.5.11).
async fn watch<S: Share>(
    context: &Context<S>,
    open: &FileOpen<S>,
    request: &ChangeNotifyRequest,
) -> Result<Arc<Watch>, NtStatus> {
    if let Some(watch) = open.watch.get() {
        return Ok(watch.watch());
    }
    let known = context.client()?.attributes(context.who()?, open.file).await.map_err(failed)?;
    let watched = Watched {
        dir: open.file,
        root: open.tree.root().unwrap_or_default(),
        path: open.place().path,
        filter: request.filter,
        is_recursive: request.flags.has(ChangeNotifyFlags::WATCH_TREE),
        bytes_max: request.output_buffer_length as usize,
    };
    let of_session = &context.session()?.watches;
    let begun = context.server.watches.begin(watched, known.change, of_session)?;
    // Of two first requests at the same time, one decides.
    Ok(open.watch.get_or_init(|| begun).watch())
}
