//! `braid mount`, `braid umount`.

use std::process::ExitCode;

use crate::{
    args::{Global, MountArgs, UmountArgs},
    output::{Fault, Printer},
};

/// Mounts, and serves the mount in the background, or here with `--foreground`.
#[cfg(target_os = "linux")]
pub fn mount(args: &MountArgs, global: &Global, out: Printer) -> Result<ExitCode, Fault> {
    use crate::mount::{background, options};
    if options::is_remount(args) {
        return remount(args, global).map(|()| ExitCode::SUCCESS);
    }
    if args.foreground || background::is_child() {
        return serve(args, global, out).map(|()| ExitCode::SUCCESS);
    }
    match background::start()? {
        Ok(transport) => report(args, &transport, out),
        Err(code) => return Ok(code),
    }
    Ok(ExitCode::SUCCESS)
}

/// Changes the options of a mount.
#[cfg(target_os = "linux")]
fn remount(args: &MountArgs, global: &Global) -> Result<(), Fault> {
    use crate::mount::options;
    let wish = options::read(args, global)?;
    braid_fuse::kernel::mount::remount(&wish.mount).map_err(|error| {
        let (text, what) = (error.to_string(), format!("remounting {}", args.point.display()));
        let (why, hint) = text.split_once("; try: ").unwrap_or((&text, ""));
        let fault = Fault::failed(what, why);
        if hint.is_empty() { fault } else { fault.hint(hint) }
    })
}

#[cfg(target_os = "linux")]
fn serve(args: &MountArgs, global: &Global, out: Printer) -> Result<(), Fault> {
    use crate::mount::{ActiveMount, background, options, stop_signal};
    let wish = options::read(args, global)?;
    let stop = stop_signal(&args.point)?;
    let served = ActiveMount::start(&wish.mount, &wish.settings, wish.options, &wish.watchdog)?;
    let transport = described(&served.transport());
    let (point, source) = (served.point().display(), wish.mount.source);
    tracing::info!(%point, source, requests = transport, "mounted");
    if background::is_child() {
        background::ready(&transport)?;
    } else {
        report(args, &transport, out);
    }
    served.wait(stop);
    tracing::info!(point = %served.point().display(), "unmounted");
    Ok(())
}

/// How requests arrive, and what root can do to improve it.
#[cfg(target_os = "linux")]
fn described(transport: &braid_fuse::kernel::uring::Transport) -> String {
    use braid_fuse::kernel::uring::{NoIoUring, Transport};
    match transport {
        Transport::Device(why) if *why != NoIoUring::Off => {
            format!("{transport}; try: {}", why.remedy())
        }
        transport => transport.to_string(),
    }
}

/// Prints the mount point, how its requests arrive, and the command that ends it.
#[cfg(target_os = "linux")]
fn report(args: &MountArgs, transport: &str, out: Printer) {
    let point = crate::output::quoted(&args.point.display().to_string());
    let log = crate::mount::options::default_log(args).filter(|log| log.is_file());
    if out.json {
        out.value(&serde_json::json!({ "mount": args.point, "log": log, "requests": transport }));
    } else {
        out.hint(format!("mounted on {point}"));
        out.hint(format!("requests by {transport}"));
        log.iter().for_each(|log| {
            out.hint(format!("its log: {} (this host has no system log)", log.display()))
        });
        out.next(format!("df {point}; braid umount {point}"));
    }
}

/// Unmounts.
#[cfg(target_os = "linux")]
pub fn umount(args: &UmountArgs, out: Printer) -> Result<(), Fault> {
    use braid_fuse::kernel::mount::{Unmount, UnmountError, unmount};

    use crate::output::Exit;
    let how = if args.lazy { Unmount::Lazy } else { Unmount::Plain };
    let absolute = |point| std::path::absolute(point).map_err(|e| Fault::failed("unmounting", e));
    let points: Vec<_> = args.points.iter().map(absolute).collect::<Result<_, _>>()?;
    // Leaves the mount: this process must not be its user.
    let _ = std::env::set_current_dir("/");
    for point in &points {
        let command = if is_union(point) { "braid union up META" } else { "braid mount" };
        unmount(point, how).map_err(|error| {
            let exit = match &error {
                UnmountError::NotMounted { .. } => Exit::NotFound,
                UnmountError::Helper { .. } | UnmountError::NotOurs { .. } => Exit::Refused,
                _ => Exit::Failed,
            };
            let text = error.to_string();
            let (why, hint) =
                text.split_once("; try: ").unwrap_or((&text, "findmnt -t fuse.braid"));
            Fault::new(exit, format!("unmounting {}", point.display()), why).hint(hint)
        })?;
        out.hint(format!("unmounted {}", point.display()));
        out.next(format!("{command} {}", crate::output::quoted(&point.display().to_string())));
    }
    Ok(())
}

/// Whether a union is mounted there, by the source in the mount table (proc_pid_mountinfo(5)).
#[cfg(target_os = "linux")]
fn is_union(point: &std::path::Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut last = table.lines().filter_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let at = mount.split(' ').nth(4)?;
        (std::path::Path::new(at) == point).then(|| source.split(' ').nth(1))?
    });
    last.next_back().is_some_and(|source| {
        source.starts_with("union:") || std::path::Path::new(source).join("pool.toml").is_file()
    })
}

/// Only Linux has FUSE.
#[cfg(not(target_os = "linux"))]
pub fn mount(args: &MountArgs, _: &Global, _: Printer) -> Result<ExitCode, Fault> {
    let what = format!("mounting on {}", args.point.display());
    Err(Fault::usage(what, "mounting needs Linux").hint("braid put, braid get"))
}

/// Only Linux has FUSE.
#[cfg(not(target_os = "linux"))]
pub fn umount(_: &UmountArgs, _: Printer) -> Result<(), Fault> {
    Err(Fault::usage("unmounting", "mounting needs Linux").hint("braid put, braid get"))
}
