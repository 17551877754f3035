//! `braid union`: the disks of this machine as one file system, without a cluster.

use std::{path::Path, process::ExitCode};

use crate::{
    args::{UnionCommand, UnionUpArgs, UpArgs},
    config::Settings,
    output::{Fault, Printer},
};

/// Only Linux has FUSE.
#[cfg(not(target_os = "linux"))]
pub fn run(
    _: &UnionCommand,
    _: impl Fn() -> Result<Settings, Fault>,
    _: Printer,
) -> Result<ExitCode, Fault> {
    Err(Fault::usage("using a union", "it needs Linux").hint("braid put, braid get"))
}

/// Runs one of the commands.
#[cfg(target_os = "linux")]
pub fn run(
    command: &UnionCommand,
    settings: impl Fn() -> Result<Settings, Fault>,
    out: Printer,
) -> Result<ExitCode, Fault> {
    linux::run(command, settings, out)
}

/// Mounts a pool, for `braid up --union`.
///
/// # Errors
/// As for `braid union up`.
#[cfg(target_os = "linux")]
pub fn mount(meta: &Path, point: &Path, args: &UpArgs, out: Printer) -> Result<ExitCode, Fault> {
    let args = UnionUpArgs {
        meta: meta.to_owned(),
        point: Some(point.to_owned()),
        options: Vec::new(),
        source: None,
        nfs: args.nfs.clone(),
        nfs_export: args.nfs_export.clone(),
        smb: args.smb.clone(),
        smb_share: args.smb_share.clone(),
        degraded: false,
        foreground: !args.detach,
        no_passthrough: false,
        no_notices: false,
    };
    linux::up(&args, out)
}

#[cfg(target_os = "linux")]
#[path = "union_admin.rs"]
mod admin;

#[cfg(target_os = "linux")]
pub(super) mod linux {
    use std::{
        os::unix::ffi::OsStrExt,
        path::{Path, PathBuf},
        process::ExitCode,
        sync::{Arc, mpsc},
        time::Duration,
    };

    use braid_fuse::{
        kernel::{
            PoolOptions,
            mount::{MountOptions, Mounted},
        },
        union::UnionFileSystem,
    };
    use braid_union::{
        BranchMode, ControlServer, DiskKeeper, ErrorKind, NoticeKeeper, Placement, Pool, PoolError,
        Union,
    };
    use braid_union_share::{Change, UnionShare};
    use serde_json::json;

    use super::admin;
    use crate::{
        args::{UnionCommand, UnionCreateArgs, UnionUpArgs},
        commands::{union_join, union_striped},
        config::Settings,
        mount::{background, mount_fault, stop_signal},
        nfs,
        output::{Exit, Fault, Printer, quoted},
        smb,
    };

    /// Words of `-o`, for /etc/fstab.
    const DEGRADED: &str = "degraded";
    const NO_PASSTHROUGH: &str = "no_passthrough";
    const NO_NOTICES: &str = "no_notices";

    impl UnionUpArgs {
        /// Whether an option was given, by itself or as a word of `-o`.
        fn is_set(&self, option: bool, word: &str) -> bool {
            option || self.options.iter().any(|given| given == word)
        }
    }

    pub(super) fn run(
        command: &UnionCommand,
        settings: impl Fn() -> Result<Settings, Fault>,
        out: Printer,
    ) -> Result<ExitCode, Fault> {
        match command {
            UnionCommand::Create(args) => create(args, out)?,
            UnionCommand::Up(args) => return up(args, out),
            UnionCommand::Status { meta } => admin::status(meta, out)?,
            UnionCommand::Add { meta, disks, min_free } => {
                admin::add(meta, branches(disks)?, *min_free, out)?;
            }
            UnionCommand::Placement(args) => {
                let placement = args.placement.as_deref().map(read_placement).transpose()?;
                admin::placement::run(args, placement, out)?;
            }
            UnionCommand::Label { meta, branch, labels } => {
                admin::placement::set_labels(meta, branch, labels, out)?;
            }
            UnionCommand::Mode { meta, branch, mode } => {
                admin::set_mode(meta, branch, mode, out)?;
            }
            UnionCommand::Drain { meta, branch, to } => {
                return admin::drain(meta, branch, to.as_ref(), out);
            }
            UnionCommand::Remove { meta, branch, with_files } => {
                admin::remove(meta, branch, *with_files, out)?;
            }
            UnionCommand::Replace { meta, old, new, min_free } => {
                return admin::replace(meta, old, new, *min_free, out);
            }
            UnionCommand::Move { meta, paths, to, unused_for } => {
                let unused_for = unused_for.map(Duration::from_secs);
                return admin::move_to(meta, paths, (to, unused_for), out);
            }
            UnionCommand::Enforce { meta, paths } => return admin::enforce(meta, paths, out),
            UnionCommand::Quota(command) => admin::quota::run(command, out)?,
            UnionCommand::Fsck { meta, repair } => return admin::check::check(meta, *repair, out),
            UnionCommand::Dedup { meta, paths, dry_run } => {
                return admin::check::deduplicate(meta, paths, *dry_run, out);
            }
            UnionCommand::Balance { meta, within } => return admin::balance(meta, *within, out),
            UnionCommand::Where { paths } => {
                paths.iter().try_for_each(|path| show_place(path, out))?;
            }
            UnionCommand::Stripe(args) => union_striped::stripe(args, out)?,
            UnionCommand::Join(args) => return union_join::run(args, &settings()?, out),
            UnionCommand::Sweep { meta, repair } => union_striped::sweep(meta, *repair, out)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn create(args: &UnionCreateArgs, out: Printer) -> Result<(), Fault> {
        let placement = read_placement(&args.placement)?;
        let disks = branches(&args.disks)?;
        let mut pool =
            Pool::create(&args.meta, &args.name, &disks, args.min_free).map_err(fault)?;
        pool.set_placement(placement.clone()).map_err(fault)?;
        out.hint(format!(
            "pool \"{}\" of {} branches; new files: {placement}",
            args.name,
            pool.config.branches.len()
        ));
        out.next(format!("braid union up {} MOUNTPOINT", shown(&args.meta)));
        Ok(())
    }

    pub(super) fn up(args: &UnionUpArgs, out: Printer) -> Result<ExitCode, Fault> {
        if !args.foreground && !background::is_child() {
            return match background::start()? {
                Ok(how) => {
                    let listen = Gateways { nfs: args.nfs.clone(), smb: args.smb.clone() };
                    report(args, &how, &listen, out);
                    Ok(ExitCode::SUCCESS)
                }
                Err(code) => Ok(code),
            };
        }
        // New files get exactly the mode that is asked for: the kernel sends each caller's umask.
        rustix::process::umask(rustix::fs::Mode::empty());
        raise_the_limit_of_open_files();
        let pool = Pool::open(&args.meta).map_err(fault)?;
        let opened = if args.is_set(args.degraded, DEGRADED) {
            Union::open_degraded(&pool)
        } else {
            Union::open(&pool)
        };
        let union = Arc::new(opened.map_err(|error| missing_disk(error, args))?);
        let stop = match &args.point {
            Some(point) => stop_signal(point)?,
            None => crate::servers::stop_signal()?,
        };
        let control = ControlServer::start(&union, pool.meta()).map_err(fault)?;
        let disks = DiskKeeper::start(Arc::clone(&union))
            .map_err(|error| Fault::failed("starting a thread", error))?;
        let _notices = start_notices(args, &union)?;
        let point = args.point.as_deref();
        let mounted = point.map(|point| mount(args, point, &pool, &union)).transpose()?;
        let served = mounted.as_ref().map(|(_, served)| Arc::clone(served));
        let share = share(args, &pool, &union, served)?;
        let nfs_gateway = start_nfs(args, share.clone())?;
        let smb_gateway = start_smb(args, &pool, share)?;
        let how = match &mounted {
            None => "the union is not mounted".to_owned(),
            Some((_, served)) => match served.pass_through() {
                Ok(()) => "the kernel reads and writes plain files by itself".to_owned(),
                Err(why) => format!("files are read and written through this process: {why}"),
            },
        };
        tracing::info!(point = ?args.point, pool = pool.config.name, how, "serving");
        nfs_gateway.iter().for_each(|gateway| gateway.print_next(out));
        smb_gateway.iter().for_each(|gateway| gateway.print_next(out));
        if background::is_child() {
            background::ready(&how)?;
        } else {
            let nfs = nfs_gateway.as_ref().and_then(nfs::Gateway::address);
            let smb = smb_gateway.as_ref().and_then(smb::Gateway::address);
            let [nfs, smb] = [nfs, smb].map(|address| address.map(|to| to.to_string()));
            report(args, &how, &Gateways { nfs, smb }, out);
        }
        match mounted {
            Some((mounted, _)) => wait(Arc::new(mounted), stop),
            None => _ = stop.recv(),
        }
        drop((nfs_gateway, smb_gateway));
        // Another process may wait for the pool: see `Pool::lock`.
        drop((control, disks));
        if let Err(error) = union.sync_all() {
            tracing::warn!(%error, "writing a branch to its disk failed");
        }
        tracing::info!(point = ?args.point, "ended");
        Ok(ExitCode::SUCCESS)
    }

    /// `None`: direct changes are not to be noticed.
    fn start_notices(
        args: &UnionUpArgs,
        union: &Arc<Union>,
    ) -> Result<Option<NoticeKeeper>, Fault> {
        if args.is_set(args.no_notices, NO_NOTICES) {
            NoticeKeeper::switched_off(union);
            return Ok(None);
        }
        let keeper = NoticeKeeper::start(Arc::clone(union));
        keeper.map(Some).map_err(|error| Fault::failed("starting a thread", error))
    }

    /// Without one of the disks the others can be used.
    fn missing_disk(error: PoolError, args: &UnionUpArgs) -> Fault {
        let missing = matches!(error, PoolError::Missing { .. } | PoolError::Io { .. });
        let fault = fault(error);
        if !missing || args.is_set(args.degraded, DEGRADED) {
            return fault;
        }
        fault.hint(format!("mount the disk, or: braid union up {} --degraded", shown(&args.meta)))
    }

    /// Each file that a program has open is open here too, and the usual limit is 1,024.
    pub(in super::super) fn raise_the_limit_of_open_files() {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "raising the limit of open files failed");
        }
    }

    fn mount(
        args: &UnionUpArgs,
        point: &Path,
        pool: &Pool,
        union: &Arc<Union>,
    ) -> Result<(Mounted, Arc<UnionFileSystem>), Fault> {
        let options = mount_options(args, point, pool)?;
        let passthrough = !args.is_set(args.no_passthrough, NO_PASSTHROUGH);
        let served = Arc::new(UnionFileSystem::new(Arc::clone(union), passthrough));
        served.take_notices();
        let mounted = Mounted::new(&options, PoolOptions::default(), Arc::clone(&served) as _)
            .map_err(|error| mount_fault(point, &error))?;
        Ok((mounted, served))
    }

    /// Addresses of the gateways.
    struct Gateways {
        nfs: Option<String>,
        smb: Option<String>,
    }

    /// The union for gateways, if there are any. What their clients change is dropped from the
    /// mount's caches.
    fn share(
        args: &UnionUpArgs,
        pool: &Pool,
        union: &Arc<Union>,
        mounted: Option<Arc<UnionFileSystem>>,
    ) -> Result<Option<UnionShare>, Fault> {
        let gateway = match (&args.nfs, &args.smb) {
            (None, None) => return Ok(None),
            (Some(_), _) => "NFS",
            (None, Some(_)) => "SMB",
        };
        let share = UnionShare::open(Arc::clone(union), pool.meta()).map_err(|error| {
            let text = error.to_string();
            let (why, hint) = text.split_once("; try: ").unwrap_or((&text, ""));
            Fault::failed(format!("starting the {gateway} gateway"), why).hint(hint)
        })?;
        if let Some(mounted) = mounted {
            share.on_change(move |change| match change {
                Change::Attributes(node) => mounted.attributes_changed(node),
                Change::Name { directory, name } => mounted.name_changed(directory, &name),
            });
        }
        Ok(Some(share))
    }

    /// Serves NFS clients, if that is wanted.
    fn start_nfs(
        args: &UnionUpArgs,
        share: Option<UnionShare>,
    ) -> Result<Option<nfs::Gateway>, Fault> {
        let (Some(listen), Some(share)) = (&args.nfs, share) else { return Ok(None) };
        nfs::union::start(share, listen, &args.nfs_export).map(Some)
    }

    /// Serves SMB clients, if that is wanted.
    fn start_smb(
        args: &UnionUpArgs,
        pool: &Pool,
        share: Option<UnionShare>,
    ) -> Result<Option<smb::Gateway>, Fault> {
        let (Some(listen), Some(share)) = (&args.smb, share) else { return Ok(None) };
        smb::union::start(share, pool.meta(), listen, &args.smb_share).map(Some)
    }

    fn mount_options(args: &UnionUpArgs, point: &Path, pool: &Pool) -> Result<MountOptions, Fault> {
        let source = args.source.clone();
        let source = source.unwrap_or_else(|| format!("union:{}", pool.config.name));
        let mut options = MountOptions::new(source, point);
        for word in &args.options {
            if ![DEGRADED, NO_PASSTHROUGH, NO_NOTICES].contains(&&**word) && !options.set(word) {
                let what = format!("mounting on {}", point.display());
                return Err(Fault::usage(what, format!("there is no option {word}"))
                    .hint("braid union up --help"));
            }
        }
        Ok(options)
    }

    /// Waits until the file system is unmounted, or until a signal comes and unmounts it.
    fn wait(mounted: Arc<Mounted>, stop: mpsc::Receiver<()>) {
        let (over, ended) = mpsc::channel();
        let (waiting, gone) = (Arc::clone(&mounted), over.clone());
        std::thread::spawn(move || {
            waiting.wait();
            let _ = gone.send(());
        });
        std::thread::spawn(move || {
            if stop.recv().is_ok() {
                mounted.end();
                let _ = over.send(());
            }
        });
        let _ = ended.recv();
    }

    fn report(args: &UnionUpArgs, how: &str, listen: &Gateways, out: Printer) {
        let point = args.point.as_deref();
        if out.json {
            let Gateways { nfs, smb } = listen;
            out.value(&json!({ "mount": point, "data": how, "nfs": nfs, "smb": smb }));
        } else if let Some(point) = point {
            out.hint(format!("mounted on {}: {how}", shown(point)));
            out.next(format!("df {0}; braid umount {0}", shown(point)));
        }
    }

    fn show_place(path: &Path, out: Printer) -> Result<(), Fault> {
        let what = || format!("finding the disk of {}", path.display());
        let places = union_striped::values(path, "user.mergerfs.allpaths", what)?;
        let places: Vec<PathBuf> =
            places.iter().map(|place| std::ffi::OsStr::from_bytes(place).into()).collect();
        let stripes = union_striped::Stripes::of(path)?;
        if out.json {
            out.value(&json!({ "path": path, "on": places, "striped": stripes }));
            return Ok(());
        }
        for (at, place) in places.iter().enumerate() {
            let hidden = at > 0 && !place.is_dir();
            out.line(format!("{}{}", place.display(), if hidden { "    (hidden)" } else { "" }));
        }
        stripes.iter().for_each(|stripes| out.line(stripes));
        Ok(())
    }

    pub(in super::super) fn branches(
        disks: &[String],
    ) -> Result<Vec<(PathBuf, BranchMode)>, Fault> {
        let one = |disk: &String| match disk.rsplit_once('=') {
            Some((path, "rw")) => Ok((path.into(), BranchMode::Rw)),
            Some((path, "ro")) => Ok((path.into(), BranchMode::Ro)),
            Some((path, "nc")) => Ok((path.into(), BranchMode::Nc)),
            Some((_, mode)) if !Path::new(disk).exists() => {
                Err(Fault::usage(format!("reading {disk}"), format!("there is no mode {mode}"))
                    .hint("DIR, DIR=ro or DIR=nc"))
            }
            _ => Ok((disk.into(), BranchMode::Rw)),
        };
        disks.iter().map(one).collect()
    }

    fn read_placement(text: &str) -> Result<Placement, Fault> {
        text.parse().map_err(|error: String| {
            let (why, hint) = error.split_once("; try: ").unwrap_or((&error, ""));
            Fault::usage("choosing the placement", why).hint(hint)
        })
    }

    pub(in super::super) fn shown(path: &Path) -> String {
        quoted(&path.display().to_string())
    }

    /// The texts of the union have the form of all messages.
    pub(in super::super) fn fault(error: PoolError) -> Fault {
        let exit = match error.kind() {
            ErrorKind::NotFound => Exit::NotFound,
            ErrorKind::Failed => Exit::Failed,
            ErrorKind::Usage => Exit::Usage,
        };
        let text = error.to_string();
        let (what, why) = text.split_once(" failed: ").unwrap_or(("using the union", &text));
        let (why, hint) = why.split_once("; try: ").unwrap_or((why, ""));
        let fault = Fault::new(exit, what, why);
        if hint.is_empty() { fault } else { fault.hint(hint) }
    }
}
