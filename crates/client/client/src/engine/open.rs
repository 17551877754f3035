//! Opening and creating files, with one round trip each.

use std::sync::Arc;

use braid_net::Driver;
use braid_types::{
    Status,
    limits::{STRIPE_BYTES_MAX, STRIPE_BYTES_MIN},
};
use braid_wire::{
    Deny, Rights,
    message::{
        entry::{CreateMode, DirectoryChange, OpenEntryReply},
        lease::LeaseMode,
        mds::{Create, CreateReply, CreateUnnamed, Open, OpenEntry, OpenReply},
        types::{Attributes, DistributionHint, LayoutHint, PathRef, Placement},
    },
};

use super::{
    Caller, OpenFile, ReadCache, lease_client::PendingRequest, open_table::ServerEpoch, shown_path,
    size_report::SizeReportState,
};
use crate::{
    error::{Error, Result},
    lease::LeaseOf,
};

/// Permission bits of a new file, unless [`OpenOptions::mode`] sets others. The caller applies its
/// umask itself.
const MODE_DEFAULT: u32 = 0o644;

/// How a file is opened, and the layout of a new file: the 2008 paper's parameters of `open`.
///
/// ```no_run
/// use braid_client::{Client, Config, Credential, OpenOptions};
/// # fn main() -> Result<(), braid_client::Error> {
/// let credential = Credential::from_key_file("/etc/braid/client.key")?;
/// let client = Client::connect(Config::new(["mds:7000"], credential))?;
/// // Stripes of 64 KiB over 4 I/O daemons, the first stripe on the third of them.
/// let options = OpenOptions::new().read(true).write(true).create(true);
/// let options = options.stripe_size(65536).iod_count(4).first_iod(2);
/// let file = client.open("/results", &options)?;
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct OpenOptions {
    read: bool,
    write: bool,
    create: bool,
    exclusive: bool,
    truncate: bool,
    mode: u32,
    wish: LayoutHint,
    lease: LeaseMode,
    deny: Deny,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// Nothing is set: the open fails unless reading or writing is requested.
    pub fn new() -> Self {
        Self {
            read: false,
            write: false,
            create: false,
            exclusive: false,
            truncate: false,
            mode: MODE_DEFAULT,
            wish: LayoutHint::none(),
            lease: LeaseMode::None,
            deny: Deny::NONE,
        }
    }

    /// Open for reading.
    pub fn read(mut self, yes: bool) -> Self {
        self.read = yes;
        self
    }

    /// Open for writing.
    pub fn write(mut self, yes: bool) -> Self {
        self.write = yes;
        self
    }

    /// Make the file if it does not exist, also for reading. The handle of a new file has all
    /// requested rights, whatever the file's mode denies later opens.
    pub fn create(mut self, yes: bool) -> Self {
        self.create = yes;
        self
    }

    /// Make the file, and fail if it exists.
    pub fn create_new(mut self, yes: bool) -> Self {
        self.exclusive = yes;
        self
    }

    /// Truncate an existing file to 0 bytes.
    pub fn truncate(mut self, yes: bool) -> Self {
        self.truncate = yes;
        self
    }

    /// Permission bits of a new file, the umask already applied; 0644 by default.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Bytes in one stripe of a new file.
    pub fn stripe_size(mut self, bytes: u64) -> Self {
        self.wish.stripe_bytes = Some(bytes);
        self
    }

    /// The I/O daemon of the first stripe: its number, from 0, in the list of usable daemons.
    pub fn first_iod(mut self, ordinal: u16) -> Self {
        self.wish.first_iod = Some(ordinal);
        self
    }

    /// The number of parts of a new file, that is, the I/O daemons that it is distributed over.
    /// With more parts than daemons, some daemons have several parts;
    /// [`crate::Client::check_iod_count`] refuses that.
    pub fn iod_count(mut self, count: u16) -> Self {
        self.wish.parts = Some(count);
        self
    }

    /// How the bytes of a new file are distributed.
    pub fn distribution(mut self, distribution: DistributionHint) -> Self {
        self.wish.distribution = Some(distribution);
        self
    }

    /// How the I/O daemons of a new file are chosen.
    pub fn placement(mut self, placement: Placement) -> Self {
        self.wish.placement = Some(placement);
        self
    }

    /// The complete layout hint: strips, groups, labels.
    pub fn layout(mut self, wish: LayoutHint) -> Self {
        self.wish = wish;
        self
    }

    /// The data lease to request with the open. It is granted if nothing conflicts: see `Leases`.
    pub fn lease(mut self, mode: LeaseMode) -> Self {
        self.lease = mode;
        self
    }

    /// What all other opens of the file are denied while this one is open: share modes of SMB,
    /// share reservations of NFSv4. It applies also to opens by a mount, which never deny anything
    /// themselves. An open that conflicts with another one fails with [`Status::SharingViolation`]
    /// and does not wait.
    ///
    /// ```no_run
    /// # use braid_client::{Client, Deny, OpenOptions};
    /// # fn example(client: &Client) -> braid_client::Result<()> {
    /// // No other open may write the file while it is copied.
    /// let source = client.open("/database", &OpenOptions::new().read(true).deny(Deny::WRITE))?;
    /// # Ok(()) }
    /// ```
    pub fn deny(mut self, deny: Deny) -> Self {
        self.deny = deny;
        self
    }

    fn rights(&self) -> Result<Rights> {
        match (self.read, self.write) {
            (true, true) => Ok(Rights::READ_WRITE),
            (true, false) => Ok(Rights::READ),
            (false, true) => Ok(Rights::WRITE),
            (false, false) => {
                Err(invalid("neither reading nor writing is requested", "OpenOptions::read(true)"))
            }
        }
    }

    fn check(&self) -> Result<Rights> {
        let rights = self.rights()?;
        if !self.write && self.truncate {
            return Err(invalid("truncating needs writing", "OpenOptions::write(true)"));
        }
        // The server checks this only when it makes a file. For an existing file, an invalid value
        // would go unnoticed.
        match self.wish.stripe_bytes {
            Some(bytes) if !is_stripe_size(bytes) => Err(invalid(
                &format!("a stripe of {bytes} bytes"),
                &format!(
                    "from {STRIPE_BYTES_MIN} to {STRIPE_BYTES_MAX}, in steps of {STRIPE_BYTES_MIN}"
                ),
            )),
            _ => Ok(rights),
        }
    }
}

fn is_stripe_size(bytes: u64) -> bool {
    (STRIPE_BYTES_MIN..=STRIPE_BYTES_MAX).contains(&bytes) && bytes.is_multiple_of(STRIPE_BYTES_MIN)
}

fn invalid(why: &str, hint: &str) -> Error {
    Error::new(Status::Invalid, why).with_hint(hint)
}

/// The initial state of a file's size report.
fn size_report_of(created: bool, rights: Rights) -> SizeReportState {
    match (rights.allow(Rights::WRITE), created) {
        (false, _) => SizeReportState::default(),
        (true, true) => SizeReportState::of_new_file(),
        (true, false) => SizeReportState::of_existing_file(),
    }
}

impl<D: Driver> Caller<D> {
    /// Opens the entry of a directory that `at` names by the directory and one name, or creates it.
    /// A symbolic link is not followed. `create` decides whether the file may be created, not the
    /// options, and no lease is requested. Returns also whether this call created the file, and the
    /// change of the directory, which is `None` for [`CreateMode::Never`].
    pub async fn open_entry(
        &self,
        at: &PathRef,
        create: CreateMode,
        options: &OpenOptions,
    ) -> Result<(Arc<OpenFile<D>>, bool, Option<DirectoryChange>)> {
        let rights = options.check().map_err(|error| error.during("open", shown_path(at)))?;
        self.flush_pending_closes(options.deny).await;
        let change = self.engine.begin_change(options.truncate);
        let opened = match self.open_entry_once(at, create, options, rights).await {
            Err(error) if self.had_pending_closes(&error).await => {
                self.open_entry_once(at, create, options, rights).await
            }
            opened => opened,
        }?;
        change.was_of(opened.0.file());
        Ok(opened)
    }

    async fn open_entry_once(
        &self,
        at: &PathRef,
        create: CreateMode,
        options: &OpenOptions,
        rights: Rights,
    ) -> Result<(Arc<OpenFile<D>>, bool, Option<DirectoryChange>)> {
        let call = OpenEntry {
            dir: at.dir,
            name: at.path.clone(),
            create,
            truncate: options.truncate,
            mode: options.mode,
            umask: self.umask,
            rights,
            deny: options.deny,
        };
        // As in `open_existing`.
        let once = create != CreateMode::Never || options.write || !options.deny.is_none();
        let call = match once {
            true => self.once("open", at, call),
            false => self.repeatable("open", at, call),
        };
        let (reply, run) = call.send_with_epoch().await?;
        let OpenEntryReply { opened, created, change } = reply;
        let opened = (opened, size_report_of(created, rights));
        let file = self.opened(at, (rights, options.deny), opened, run, None)?;
        Ok((file, created, change))
    }

    /// Opens a file; makes it if the options say so.
    pub async fn open(&self, at: &PathRef, options: &OpenOptions) -> Result<Arc<OpenFile<D>>> {
        let rights = options.check().map_err(|error| error.during("open", shown_path(at)))?;
        self.flush_pending_closes(options.deny).await;
        let change = self.engine.begin_change(options.truncate);
        let opened = match self.open_once(at, options, rights).await {
            Err(error) if self.had_pending_closes(&error).await => {
                self.open_once(at, options, rights).await
            }
            opened => opened,
        }?;
        change.was_of(opened.file());
        Ok(opened)
    }

    async fn open_once(
        &self,
        at: &PathRef,
        options: &OpenOptions,
        rights: Rights,
    ) -> Result<Arc<OpenFile<D>>> {
        let (asking, lease) = self.begin_lease_request(options, rights);
        let (opened, run) = if options.create || options.exclusive {
            let (opened, created, _, run) = self.open_creating(at, options, rights, lease).await?;
            ((opened, size_report_of(created, rights)), run)
        } else {
            let (opened, run) = self.open_existing(at, options, rights, lease).await?;
            ((opened, size_report_of(false, rights)), run)
        };
        self.opened(at, (rights, options.deny), opened, run, asking)
    }

    /// Opens or makes a file. Returns also whether this call made it.
    pub async fn create(
        &self,
        at: &PathRef,
        options: &OpenOptions,
    ) -> Result<(Arc<OpenFile<D>>, bool)> {
        self.create_with_parent(at, options).await.map(|(file, created, _)| (file, created))
    }

    /// As `create`. If the file was made and this client holds leases, it also returns the
    /// attributes of the parent directory.
    pub async fn create_with_parent(
        &self,
        at: &PathRef,
        options: &OpenOptions,
    ) -> Result<(Arc<OpenFile<D>>, bool, Option<Attributes>)> {
        let rights = options.check().map_err(|error| error.during("create", shown_path(at)))?;
        self.flush_pending_closes(options.deny).await;
        let change = self.engine.begin_change(options.truncate);
        let created = match self.create_once(at, options, rights).await {
            Err(error) if self.had_pending_closes(&error).await => {
                self.create_once(at, options, rights).await
            }
            created => created,
        }?;
        change.was_of(created.0.file());
        Ok(created)
    }

    async fn create_once(
        &self,
        at: &PathRef,
        options: &OpenOptions,
        rights: Rights,
    ) -> Result<(Arc<OpenFile<D>>, bool, Option<Attributes>)> {
        let (asking, lease) = self.begin_lease_request(options, rights);
        let (opened, created, directory, run) =
            self.open_creating(at, options, rights, lease).await?;
        let opened = (opened, size_report_of(created, rights));
        Ok((self.opened(at, (rights, options.deny), opened, run, asking)?, created, directory))
    }

    /// Begins a request for the lease that the options or the read cache ask for. Returns also its
    /// mode.
    fn begin_lease_request(
        &self,
        options: &OpenOptions,
        rights: Rights,
    ) -> (Option<PendingRequest<'_, D>>, LeaseMode) {
        let of_cache = || self.engine.read_cache().map(|_| ReadCache::wanted_lease(rights));
        let mode = match options.lease {
            LeaseMode::None => of_cache().unwrap_or(LeaseMode::None),
            mode => mode,
        };
        let asking = if mode == LeaseMode::None { None } else { self.engine.begin_request() };
        let mode = if asking.is_some() { mode } else { LeaseMode::None };
        (asking, mode)
    }

    fn opened(
        &self,
        at: &PathRef,
        modes: (Rights, Deny),
        opened: (OpenReply, SizeReportState),
        run: ServerEpoch,
        asking: Option<PendingRequest<'_, D>>,
    ) -> Result<Arc<OpenFile<D>>> {
        let (of, grant) = (LeaseOf::Data(opened.0.attributes.file), opened.0.lease.clone());
        let lease =
            asking.and_then(|asking| asking.answered(run, of, grant, self.engine.driver.now()));
        OpenFile::new(self.clone(), shown_path(at), modes, opened, run, lease)
            .map(Arc::new)
            .inspect_err(|_| {
                if lease.is_some() {
                    self.engine.return_lease_later(of);
                }
            })
    }

    /// Makes a file without a name, as if in the directory `at`. Closing it deletes it, unless
    /// [`Caller::hard_link`] has given it a name.
    pub async fn create_unnamed(
        &self,
        at: &PathRef,
        options: &OpenOptions,
    ) -> Result<Arc<OpenFile<D>>> {
        let rights = options.check().map_err(|error| error.during("create in", shown_path(at)))?;
        if !options.deny.is_none() {
            let error = invalid(
                "no other open can reach a file without a name",
                "File::set_modes before it is given one",
            );
            return Err(error.during("create in", shown_path(at)));
        }
        let (mode, umask, wish) = (options.mode, self.umask, options.wish.clone());
        let call = CreateUnnamed { at: at.clone(), mode, umask, rights, layout_hint: wish };
        let (opened, run) = self.once("create in", at, call).send_with_epoch().await?;
        let path = format!("unnamed file {}", opened.attributes.file);
        let opened = (opened, SizeReportState::default());
        OpenFile::new(self.clone(), path, (rights, Deny::NONE), opened, run, None).map(Arc::new)
    }

    async fn open_creating(
        &self,
        at: &PathRef,
        options: &OpenOptions,
        rights: Rights,
        lease: LeaseMode,
    ) -> Result<(OpenReply, bool, Option<Attributes>, ServerEpoch)> {
        let call = Create {
            at: at.clone(),
            mode: options.mode,
            umask: self.umask,
            exclusive: options.exclusive,
            truncate: options.truncate,
            rights: Some(rights),
            layout_hint: options.wish.clone(),
            lease,
            deny: options.deny,
        };
        let (reply, run) = self.once("create", at, call).send_with_epoch().await?;
        let CreateReply { created, opened, directory, .. } = reply;
        let missing =
            || Error::new(Status::Malformed, "the server made the file and did not open it");
        let opened =
            opened.ok_or_else(missing).map_err(|error| error.during("create", shown_path(at)))?;
        Ok((opened, created, directory, run))
    }

    async fn open_existing(
        &self,
        at: &PathRef,
        options: &OpenOptions,
        rights: Rights,
        lease: LeaseMode,
    ) -> Result<(OpenReply, ServerEpoch)> {
        let call =
            Open { at: at.clone(), rights, truncate: options.truncate, lease, deny: options.deny };
        // An open for reading writes nothing to the server's disk: a repetition costs a handle, not
        // a replay record. An open that denies something must run once: a repetition would conflict
        // with itself.
        let call = match options.write || !options.deny.is_none() {
            true => self.once("open", at, call),
            false => self.repeatable("open", at, call),
        };
        call.send_with_epoch().await
    }

    /// Makes a file without opening it. Unless `exclusive` is set, an existing file is left
    /// unchanged.
    pub async fn touch(
        &self,
        at: &PathRef,
        mode: u32,
        exclusive: bool,
        wish: LayoutHint,
    ) -> Result<CreateReply> {
        let (lease, deny, umask) = (LeaseMode::None, Deny::NONE, self.umask);
        let call = Create {
            at: at.clone(),
            mode,
            umask,
            exclusive,
            truncate: false,
            rights: None,
            layout_hint: wish,
            lease,
            deny,
        };
        self.once("create", at, call).send().await
    }
}
