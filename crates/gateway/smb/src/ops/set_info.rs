//! SET_INFO. MS-SMB2 3.3.5.21, MS-FSA 2.1.5.15.

mod rename;
mod security;
mod stream;

use std::sync::atomic::Ordering;

use braid_share::{
    AttributeChanges, Attributes, FileIndex, Identity, Share, ShareClient, Status, Timestamp,
};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::fscc::{
    Disposition, FileAttributes, FileMode, InformationClass, RenameFlags, SetBasic, SetInformation,
};
use braid_smb_wire::smb2::change_notify::CompletionFilter;
use braid_smb_wire::smb2::query_info::{InfoType, SecurityInformation};
use braid_smb_wire::smb2::set_info::{SetInfoRequest, SetInfoResponse};

use crate::attributes::{changes_to, kept_attributes, set_time};
use crate::context::{Context, OpResult, Reply};
use crate::extended_attributes as eas;
use crate::file_state::Removal;
use crate::leases::BREAKS_MAX;
use crate::leases::rules::Conflict;
use crate::open::FileOpen;
use crate::pending::{self, Outcome, Waiter};
use crate::removal::{check_deletable, is_read_only};
use crate::status::failed;
use crate::streams::data::OpenData;
use crate::streams::shared::granted;

/// Changes a file. It may wait until others have closed it that they had closed without a call.
pub async fn set_info<S: Share>(context: &Context<S>, request: SetInfoRequest) -> Outcome {
    let owned = context.clone();
    pending::run(context.is_last, |waiter| change(owned, request, waiter)).await
}

async fn change<S: Share>(
    context: Context<S>,
    request: SetInfoRequest,
    waiter: Waiter,
) -> OpResult {
    let context = &context;
    let bytes = u32::try_from(request.data.len()).map_err(|_| NtStatus::INVALID_PARAMETER)?;
    context.paid_for(bytes)?;
    let open = context.open(request.file_id)?;
    let file = open.file()?;
    let (client, who) = (context.client()?, context.who()?);
    let change = Change { context, open: file, client, who, waiter };
    match request.info_type {
        InfoType::FILE => {
            let class = InformationClass(request.info_class);
            change.run(SetInformation::decode(class, request.data)?).await?;
        }
        InfoType::SECURITY => {
            let parts = SecurityInformation(request.additional_information);
            change.security(parts, request.data).await?;
            change.report(CompletionFilter::SECURITY);
        }
        // Names and quotas of volumes are the cluster's.
        InfoType::FILESYSTEM | InfoType::QUOTA => return Err(NtStatus::NOT_SUPPORTED),
        _ => return Err(NtStatus::INVALID_PARAMETER),
    }
    Ok(Reply::new(&SetInfoResponse).with_file(open.id()))
}

/// The access that an open needs to set information. 3.3.5.21.1.
fn needed_access(information: &SetInformation) -> AccessMask {
    match information {
        SetInformation::Basic(_) => AccessMask::WRITE_ATTRIBUTES,
        SetInformation::EndOfFile(_) | SetInformation::Allocation(_) => AccessMask::WRITE_DATA,
        SetInformation::Disposition(_)
        | SetInformation::DispositionEx(_)
        | SetInformation::Rename(_)
        | SetInformation::RenameEx(_) => AccessMask::DELETE,
        SetInformation::FullEa(_) => AccessMask::WRITE_EA,
        SetInformation::Link(_) | SetInformation::Position(_) | SetInformation::Mode(_) => {
            AccessMask::default()
        }
    }
}

/// What information changes of a file, besides its name.
fn changed_by(information: &SetInformation) -> CompletionFilter {
    match information {
        SetInformation::Basic(basic) => {
            let attributes = basic.attributes != FileAttributes::default();
            let parts = [
                (attributes, CompletionFilter::ATTRIBUTES),
                (set_time(basic.creation).is_some(), CompletionFilter::CREATION),
                (set_time(basic.last_access).is_some(), CompletionFilter::LAST_ACCESS),
                (set_time(basic.last_write).is_some(), CompletionFilter::LAST_WRITE),
            ];
            let set = parts.into_iter().filter(|(is_set, _)| *is_set);
            set.fold(CompletionFilter::default(), |all, (_, part)| all.with(part))
        }
        SetInformation::EndOfFile(_) | SetInformation::Allocation(_) => {
            CompletionFilter::SIZE.with(CompletionFilter::LAST_WRITE)
        }
        SetInformation::FullEa(_) => CompletionFilter::EA,
        _ => CompletionFilter::default(),
    }
}

/// A change through an open.
struct Change<'a, S: Share> {
    context: &'a Context<S>,
    open: &'a FileOpen<S>,
    client: &'a S::Client,
    who: &'a Identity,
    waiter: Waiter,
}

impl<S: Share> Change<'_, S> {
    async fn run(&self, information: SetInformation) -> Result<(), NtStatus> {
        self.open.needs(needed_access(&information).0)?;
        let changed = changed_by(&information);
        self.set(information).await?;
        self.report(changed);
        Ok(())
    }

    /// Lets those who watch the directory know what has changed of the file.
    fn report(&self, changed: CompletionFilter) {
        if changed != CompletionFilter::default() {
            self.open.report(&self.context.server.watches, changed);
        }
    }

    async fn set(&self, information: SetInformation) -> Result<(), NtStatus> {
        match information {
            SetInformation::Basic(basic) => self.basic(&basic).await,
            SetInformation::Disposition(flags) => self.disposition(flags).await,
            SetInformation::DispositionEx(flags) => {
                // Clients then ask without: the name stays until the last close here.
                if flags.has(Disposition::POSIX_SEMANTICS) {
                    return Err(NtStatus::NOT_SUPPORTED);
                }
                self.disposition(flags).await
            }
            SetInformation::EndOfFile(bytes) => self.set_len(bytes).await,
            SetInformation::Allocation(bytes) => self.allocation(bytes).await,
            SetInformation::Rename(target) => self.rename(&target).await,
            SetInformation::RenameEx(target) => {
                if target.flags.has(RenameFlags::POSIX_SEMANTICS) {
                    return Err(NtStatus::NOT_SUPPORTED);
                }
                self.rename(&target).await
            }
            SetInformation::Link(target) => self.link(&target).await,
            SetInformation::Position(offset) => {
                self.open.position.store(offset, Ordering::Relaxed);
                Ok(())
            }
            SetInformation::Mode(mode) => {
                // MS-FSA 2.1.5.15.7. How a client uses the file is its own affair.
                let unknown = mode.without(FileMode::SETTABLE);
                if unknown == FileMode::default() {
                    Ok(())
                } else {
                    Err(NtStatus::INVALID_PARAMETER)
                }
            }
            SetInformation::FullEa(changes) => {
                eas::set(self.client, self.who, self.open.file, &changes).await
            }
        }
    }

    async fn attributes(&self) -> Result<Attributes, NtStatus> {
        self.client.attributes(self.who, self.open.file).await.map_err(failed)
    }

    /// MS-FSA 2.1.5.15.2.
    async fn basic(&self, basic: &SetBasic) -> Result<(), NtStatus> {
        let is_directory = self.open.is_directory;
        let has = |attribute| basic.attributes.has(attribute);
        if (has(FileAttributes::DIRECTORY) && !is_directory)
            || (has(FileAttributes::TEMPORARY) && is_directory)
        {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let mut changes = AttributeChanges::none();
        if basic.attributes != FileAttributes::default() {
            let known = self.attributes().await?;
            let asked = basic.attributes.without(FileAttributes::SPARSE_FILE);
            let asked = asked.with(kept_attributes(&known));
            changes = changes_to(&known, &self.open.place().name, asked);
        }
        (changes.atime, changes.mtime) = (set_time(basic.last_access), set_time(basic.last_write));
        let btime = set_time(basic.creation).and_then(|set| set.time);
        // READONLY is the mode of a file: that is its owner's.
        if let Some(mode) = changes.mode.take() {
            let changes = AttributeChanges { mode: Some(mode), ..AttributeChanges::none() };
            self.client.set_attributes(self.who, self.open.file, changes).await.map_err(failed)?;
        }
        match self.set_attributes(changes.clone(), btime).await {
            // A union, or an older metadata server, keeps neither DOS attributes nor a time of
            // creation that a client sets.
            Err(error)
                if matches!(error.status(), Status::Unsupported | Status::UnknownMessage) =>
            {
                self.set_attributes(AttributeChanges { flags: None, ..changes }, None).await
            }
            set => set,
        }
        .map_err(failed)?;
        self.open.kept_times.note(basic);
        Ok(())
    }

    /// Sets times and DOS attributes, with the right of the open: a user that may write the file
    /// has it, as on Windows. For others than the owner, POSIX has only the time of the call.
    async fn set_attributes(
        &self,
        changes: AttributeChanges,
        btime: Option<Timestamp>,
    ) -> braid_share::Result<()> {
        let (client, who, file) = (self.client, granted(self.who), self.open.file);
        match btime {
            Some(btime) => client.set_attributes_and_birth(&who, file, changes, btime).await?,
            None if changes == AttributeChanges::none() => return Ok(()),
            None => client.set_attributes(&who, file, changes).await?,
        };
        Ok(())
    }

    /// MS-FSA 2.1.5.15.3.
    async fn disposition(&self, flags: Disposition) -> Result<(), NtStatus> {
        let deletes = flags.has(Disposition::DELETE);
        let place = self.open.place();
        if deletes {
            let is_stream = self.open.stream.is_some();
            // The root of a share is not removed through it.
            if place.name.is_empty() && !is_stream {
                return Err(NtStatus::CANNOT_DELETE);
            }
            let mut known = self.attributes().await?;
            if flags.has(Disposition::IGNORE_READONLY) {
                known.mode |= 0o200;
            }
            match is_stream {
                true if is_read_only(&known) => return Err(NtStatus::CANNOT_DELETE),
                true => {}
                false => {
                    check_deletable(self.client, self.who, &known).await?;
                    // MS-FSA 2.1.5.15.3.
                    self.make_way(self.open.file).await?;
                }
            }
        }
        if flags.has(Disposition::ON_CLOSE) {
            self.open.delete_on_close.store(deletes, Ordering::Release);
            return Ok(());
        }
        let who = self.who.clone();
        let removal = deletes.then_some(Removal { root: self.open.tree.root(), place, who });
        self.context.server.files.set_removal(self.open.key(), removal);
        Ok(())
    }

    fn data(&self) -> Result<&OpenData<S>, NtStatus> {
        // MS-FSA 2.1.5.15.4: not of a directory.
        self.open.data.as_ref().ok_or(NtStatus::INVALID_PARAMETER)
    }

    /// Waits until others keep a file open only if they use it. MS-FSA 2.1.4.12.
    async fn make_way(&self, file: FileIndex) -> Result<(), NtStatus> {
        let leases = &self.context.server.leases;
        let owner = self.open.owner();
        for _ in 0..BREAKS_MAX {
            let Some(blocked) = leases.make_way(file, owner, Conflict::Name) else { break };
            self.waiter.wait(blocked.changed()).await?;
        }
        Ok(())
    }

    async fn set_len(&self, bytes: u64) -> Result<(), NtStatus> {
        // MS-FSA 2.1.5.15.4.
        self.open.begin_change(&self.context.server.leases);
        let data = self.data()?;
        let set = async { data.set_len(bytes).await.map_err(failed) };
        self.open.keeping_times(self.client, self.who, data, set).await
    }

    /// MS-FSA 2.1.5.15.1: fewer bytes on disks than the file has cut it. More are a hint, since
    /// they do not change its size.
    async fn allocation(&self, bytes: u64) -> Result<(), NtStatus> {
        self.open.begin_change(&self.context.server.leases);
        let known = self.data()?.attributes().await.map_err(failed)?;
        if bytes < known.bytes.0 { self.set_len(bytes).await } else { Ok(()) }
    }
}
