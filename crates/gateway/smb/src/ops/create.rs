//! CREATE. MS-SMB2 3.3.5.9, MS-FSA 2.1.5.1.
//!
//! ```text
//!   checks ─> walk ─┬─ found ──> existing: access, share modes, truncation ─┬─> response
//!                   ├─ missing ─> new: file or directory ───────────────────┤
//!                   └─ named stream ─> stream: of a file that may be new ────┘
//! ```
//!
//! Another client may create or remove the file between two calls. Then the walk begins again.

mod access;
mod durable;
mod existing;
mod lease;
mod new;
mod pipe;
mod reconnect;
mod replay;
mod response;
mod stream;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use braid_share::{
    AttributeChanges, Attributes, Deny, FileKind, Identity, OpenMode, Rights, Share, ShareClient,
    ShareFile,
};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::fscc::FileAttributes;
use braid_smb_wire::smb2::create::{
    CreateAction, CreateContext, CreateDisposition, CreateOptions, CreateRequest, LeaseState,
    OplockLevel, context as tags,
};
use braid_smb_wire::smb2::{FileId, Flags};

use crate::attributes;
use crate::context::{Context, OpResult, Reply};
use crate::dfs_path::below_share;
use crate::durable::replay::{CreateOutcome, CreateRecord};
use crate::file_state::{Claim, StreamKey};
use crate::leases::LeasedOpen;
use crate::open::{FileOpen, NewFileOpen, Open, OpenStream, Place};
use crate::path::SharePath;
use crate::pending::{self, Outcome, Waiter};
use crate::session::OpenSlot;
use crate::streams::data::OpenData;
use crate::tree::Tree;
use crate::walk::{Target, walk};
use durable::{Durability, DurableWish};
use lease::LeaseWish;

/// How often a CREATE begins again because the file came or went meanwhile.
const ATTEMPTS_MAX: usize = 8;
/// Bits of `CreateOptions` that no file system has (MS-FSA 2.1.5.1).
const OPTIONS_UNKNOWN: u32 = 0xff00_0000;

/// Bits of `FileAttributes` that a client may send; those that it cannot set are ignored.
const ATTRIBUTES_VALID: u32 = 0x0002_7fb7;

/// A CREATE of a file that has passed the checks of its fields.
struct Job<'a, S: Share> {
    context: &'a Context<S>,
    request: &'a CreateRequest,
    path: &'a SharePath,
    client: &'a S::Client,
    who: &'a Identity,
    tree: &'a Arc<Tree>,
    /// The specific rights that are asked for.
    wanted: AccessMask,
    /// Whether as much as possible is asked for as well.
    wants_maximum: bool,
    /// The number of the open.
    id: FileId,
    /// What the client would cache.
    lease: LeaseWish,
    waiter: Waiter,
}

/// A file that was opened or created. It is in the table of opens.
struct Made<S: Share> {
    known: Attributes,
    data: Option<OpenData<S>>,
    /// The named stream that was opened. `known` has its size.
    stream: Option<OpenStream>,
    granted: AccessMask,
    maximal: AccessMask,
    action: CreateAction,
    lease: Option<LeasedOpen<S>>,
}

/// The result of an attempt; `None` if the file came or went meanwhile.
type Attempt<S> = Result<Option<Made<S>>, NtStatus>;

/// Opens or creates a file, directory or pipe. It may wait until others have given up what they
/// cache.
pub async fn create<S: Share>(context: &Context<S>, request: CreateRequest) -> Outcome {
    let owned = context.clone();
    pending::run(context.is_last, |waiter| open_or_create(owned, request, waiter)).await
}

async fn open_or_create<S: Share>(
    context: Context<S>,
    request: CreateRequest,
    waiter: Waiter,
) -> OpResult {
    let context = &context;
    let tree = context.tree()?;
    let Some(root) = tree.root() else {
        check_request(&request)?;
        return pipe::open(context, &request);
    };
    let wish = match Durability::of(context, &request)? {
        Durability::Open(wish) => wish,
        // 3.3.5.9.7, 3.3.5.9.12: the other fields of the request are ignored.
        Durability::Reconnect(wanted) => {
            return reconnect::reconnect(context, &request, wanted).await;
        }
    };
    check_request(&request)?;
    check_contexts(&request.contexts)?;
    let access = AccessMask(request.desired_access).without_generic();
    let path = share_path(context, &request.name)?;
    let id = context.server.new_file_id();
    let mut job = Job {
        context,
        request: &request,
        path: &path,
        client: context.client()?,
        who: context.who()?,
        tree,
        wanted: access.without(AccessMask::MAXIMUM_ALLOWED),
        wants_maximum: access.has(AccessMask::MAXIMUM_ALLOWED),
        id,
        lease: LeaseWish::of(context, &request, id)?,
        waiter,
    };
    job.check()?;
    let record = match wish.create_guid().map(|guid| replay::begin(&job, guid)).transpose()? {
        Some(Err(open)) => return replay::answer(&job, &wish, &open).await,
        Some(Ok(record)) => Some(record),
        None => None,
    };
    // Before the file is created or truncated.
    let slot = context.session()?.reserve_open(&context.server.config.limits)?;
    for _ in 0..ATTEMPTS_MAX {
        let follow = !request.options.has(CreateOptions::FILE_OPEN_REPARSE_POINT);
        let target = walk(job.client, job.who, root, &path, follow).await?;
        job.check_key(&target).await?;
        if let (Some(app), Some(known), None) = (&wish.app, &target.found, &path.stream) {
            context.server.close_app(app, known.file, root).await?;
        }
        let made = match (&path.stream, &target.found) {
            (Some(name), _) => stream::open(&job, &target, name).await?,
            (None, Some(known)) => existing::open(&job, &target, known).await?,
            (None, None) => new::create(&job, &target).await?,
        };
        if let Some(made) = made {
            return finish(&job, (target, made), (&wish, record), slot).await;
        }
    }
    Err(NtStatus::SHARING_VIOLATION)
}

/// The path below the share. 3.3.5.9: with the flag of DFS, and in DFS, it begins with a server and
/// a share.
fn share_path<S: Share>(context: &Context<S>, name: &str) -> Result<SharePath, NtStatus> {
    let is_dfs =
        context.header.flags.has(Flags::DFS_OPERATIONS) && context.server.gateways.is_dfs();
    SharePath::parse(if is_dfs { below_share(name)? } else { name })
}

/// Checks the fields of a request. MS-SMB2 3.3.5.9, MS-FSA 2.1.5.1.
fn check_request(request: &CreateRequest) -> Result<(), NtStatus> {
    let options = request.options;
    if !request.impersonation.is_known() {
        return Err(NtStatus::BAD_IMPERSONATION_LEVEL);
    }
    let both = CreateOptions::FILE_DIRECTORY_FILE.with(CreateOptions::FILE_NON_DIRECTORY_FILE);
    if !request.disposition.is_known() || options.0 & OPTIONS_UNKNOWN != 0 || options.has(both) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    // MS-FSA 2.1.5.1: the mask comes before the attributes.
    let access = AccessMask(request.desired_access);
    if access.0 == 0 || access.without(AccessMask::VALID).0 != 0 {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if request.file_attributes & !ATTRIBUTES_VALID != 0 {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    // What is there is a directory, and no directory is overwritten.
    if options.has(CreateOptions::FILE_DIRECTORY_FILE) && request.disposition.overwrites() {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    // MS-SMB2 2.2.13, CreateOptions.
    let unsupported = CreateOptions::FILE_OPEN_BY_FILE_ID
        .with(CreateOptions::FILE_CREATE_TREE_CONNECTION)
        .with(CreateOptions::FILE_RESERVE_OPFILTER);
    if options.has_any(unsupported) {
        return Err(NtStatus::NOT_SUPPORTED);
    }
    if access.has(AccessMask::ACCESS_SYSTEM_SECURITY) {
        return Err(NtStatus::PRIVILEGE_NOT_HELD);
    }
    Ok(())
}

/// Refuses contexts that name what this server does not have. Others are answered or ignored.
fn check_contexts(contexts: &[CreateContext]) -> Result<(), NtStatus> {
    // 3.3.5.9.4: there are no snapshots.
    match CreateContext::find(contexts, tags::TIMEWARP) {
        Some(_) => Err(NtStatus::OBJECT_NAME_NOT_FOUND),
        None => Ok(()),
    }
}

impl<S: Share> Job<'_, S> {
    fn has(&self, option: CreateOptions) -> bool {
        self.request.options.has(option)
    }

    fn check(&self) -> Result<(), NtStatus> {
        let deletes = self.has(CreateOptions::FILE_DELETE_ON_CLOSE);
        if deletes && !self.wanted.has(AccessMask::DELETE) && !self.wants_maximum {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        // MS-SMB2 3.3.5.9: no more than the tree allows.
        let more = self.wanted.without(AccessMask(self.tree.maximal_access));
        let changes = deletes || self.request.disposition.overwrites();
        if more.0 != 0 || (changes && self.tree.is_read_only()) {
            return Err(NtStatus::ACCESS_DENIED);
        }
        // MS-FSA 2.1.5.1: a backslash at the end names no file, and a stream of bytes no directory.
        if self.path.is_directory && self.has(CreateOptions::FILE_NON_DIRECTORY_FILE) {
            return Err(NtStatus::OBJECT_NAME_INVALID);
        }
        let is_bytes = self.path.is_data || self.path.stream.is_some();
        if is_bytes && self.has(CreateOptions::FILE_DIRECTORY_FILE) {
            return Err(NtStatus::NOT_A_DIRECTORY);
        }
        Ok(())
    }

    /// Whether the maximal access is asked for by a context. MS-SMB2 3.3.5.9.5.
    fn asks_maximal(&self) -> bool {
        CreateContext::find(&self.request.contexts, tags::MAXIMAL_ACCESS).is_some()
    }

    /// Gives a new or overwritten file the attributes that are asked for. A file system that keeps
    /// none shows those that follow from kind and name.
    async fn set_attributes(&self, known: Attributes, name: &[u8]) -> Attributes {
        let asked = FileAttributes(self.request.file_attributes);
        let asked = attributes::of_new_file(known.kind, name, asked);
        let changes = attributes::changes_to(&known, name, asked);
        if changes == AttributeChanges::none() {
            return known;
        }
        match self.client.set_attributes(self.who, known.file, changes).await {
            Ok(changed) => changed,
            Err(error) => {
                tracing::debug!(%error, "DOS attributes of a new file");
                known
            }
        }
    }

    /// What the open does to the opens of others.
    fn claim(&self, granted: AccessMask) -> Claim {
        Claim::new(granted.0, self.request.share_access.0)
    }

    /// Access and denial at the metadata server, which compares them across gateways. `None` for an
    /// open without bytes.
    fn mode(&self, access: AccessMask) -> Option<OpenMode> {
        let right = |bits, right: Rights| if access.has_any(bits) { right.0 } else { 0 };
        let reads = AccessMask::READ_DATA.with(AccessMask::EXECUTE);
        let writes = AccessMask::WRITE_DATA.with(AccessMask::APPEND_DATA);
        let rights = Rights(right(reads, Rights::READ) | right(writes, Rights::WRITE));
        let mut deny = Deny(!self.request.share_access.0 as u8 & Deny::ALL.0);
        if access.has(AccessMask::DELETE) {
            // The metadata server would refuse the rename and the removal of this open itself. The
            // opens of this gateway are compared by its own table.
            deny = Deny(deny.0 & !Deny::DELETE.0);
        }
        (rights.0 != 0).then_some(OpenMode { rights, deny })
    }
}

/// Adds the open to the session, and answers.
async fn finish<S: Share>(
    job: &Job<'_, S>,
    (target, made): (Target, Made<S>),
    (wish, record): (&DurableWish, Option<CreateRecord<S>>),
    slot: OpenSlot<S>,
) -> OpResult {
    let (server, session) = (&job.context.server, job.context.session()?);
    let (id, known) = (job.id, made.known);
    let mut contexts = response::contexts(job, &known, made.maximal);
    let mut oplock_level = OplockLevel::NONE;
    let mut durable = None;
    if let Some(lease) = &made.lease {
        // MS-FSA 2.1.5.18: what is locked is not cached.
        let most = match server.range_locks.is_locked(StreamKey::of_file(known.file), known.bytes.0)
        {
            true => LeaseState::NONE,
            false => job.lease.state,
        };
        let granted = server.leases.grant(lease, session.machine(), most).await;
        let answer = job.lease.answer(granted);
        oplock_level = answer.0;
        contexts.extend(answer.1);
        durable = wish.grant(job.context, job.lease.state, granted);
        contexts.extend(durable.as_ref().and_then(|durable| wish.answer(durable)));
    }
    let open = FileOpen::new(NewFileOpen {
        id,
        tree: Arc::clone(job.tree),
        machine: Arc::clone(session.machine()),
        durable,
        outcome: CreateOutcome { action: made.action, maximal: made.maximal },
        record,
        app: wish.app.clone().map(|app| {
            let record = server.apps.record((app.id, known.file), id.volatile);
            (app, record)
        }),
        file: known.file,
        is_directory: known.kind == FileKind::Directory && made.stream.is_none(),
        stream: made.stream,
        granted: made.granted.0,
        share_access: job.request.share_access.0,
        options: job.request.options.0,
        data: made.data,
        place: Place { dir: target.dir, name: target.name, path: target.path },
        lease: made.lease,
    });
    let body = response::response(id, made.action, &open.facts(&known), oplock_level, contexts);
    let deletes = job.has(CreateOptions::FILE_DELETE_ON_CLOSE);
    open.delete_on_close.store(deletes, Ordering::Release);
    let open = Arc::new(Open::File(open));
    if let Open::File(file) = &*open {
        if let Some((app, record)) = &file.app {
            record.enter(app, &open, session);
        }
        file.record.iter().for_each(|record| record.made(&open, session.id));
    }
    if let Err(status) = slot.fill(Arc::clone(&open)) {
        // The file is not removed: the CREATE has failed.
        if let Open::File(open) = &*open {
            open.delete_on_close.store(false, Ordering::Release);
        }
        super::close::close_open(server, session, &open).await;
        return Err(status);
    }
    Ok(Reply::new(&body).with_file(id))
}

/// Closes a file that is not used after all.
async fn discard<F: ShareFile>(file: F) {
    if let Err(error) = file.close().await {
        tracing::debug!(%error, "a file is not closed");
    }
}

/// Whether a disposition needs the file to be there.
fn needs_file(disposition: CreateDisposition) -> bool {
    !disposition.creates()
}
