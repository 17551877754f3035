//! `braid status`: one row per daemon.

use braid_wire::message::{
    DaemonStatus, DaemonStatusReply,
    mds::MdsStatusReply,
    types::{IodInfo, IodState},
};
use serde_json::json;

use crate::{
    admin,
    commands::format::{fullest, state_word},
    config::Settings,
    output::{Fault, Printer, human_bytes},
};

/// Prints the table.
pub fn status(settings: &Settings, out: Printer) -> Result<(), Fault> {
    let client = admin::client(settings)?;
    let mds = client.mds_status()?;
    let daemon = client.daemon_status()?;
    let secret = admin::server_key(settings)?;
    let ask = |iod: &IodInfo| match (&secret, iod.state) {
        (None, _) | (_, IodState::Down | IodState::Removed) => None,
        (Some(secret), _) => admin::IodConnection::connect(iod, secret, settings)
            .and_then(|mut link| link.call(&DaemonStatus {}))
            .ok(),
    };
    let iods: Vec<_> = mds.map.iods.iter().map(|iod| (iod, ask(iod))).collect();
    let mark = client.fsck_mark(false)?;
    if out.json {
        print_json((&mds, mark), &daemon, &iods, out);
        return Ok(());
    }
    let mut rows = vec![row(
        "metadata server",
        settings.mds.value.join(" "),
        "up".into(),
        String::new(),
        Some(&daemon),
    )];
    for (iod, counters) in &iods {
        let last_contact = mds
            .map
            .iods
            .iter()
            .position(|i| i.id == iod.id)
            .and_then(|at| mds.last_contact_ms.get(at))
            .copied();
        let state = match (iod.state, last_contact) {
            (IodState::Down, Some(ms)) if ms < u64::MAX / 2 => {
                format!("down, last heartbeat {} s ago", ms / 1000)
            }
            (state, _) => state_word(state).to_owned(),
        };
        let free = match iod.state {
            IodState::Removed => String::new(),
            _ => format!(
                "{} of {}",
                human_bytes(iod.space.available.0),
                human_bytes(iod.space.total.0)
            ),
        };
        rows.push(row(
            &format!("I/O daemon {}", iod.id),
            iod.addresses.join(" "),
            state,
            free,
            counters.as_ref(),
        ));
    }
    out.table(
        &[
            "DAEMON", "ADDRESS", "STATE", "FREE", "CONNS", "CALLS", "READ", "WRITTEN", "ERRORS",
            "MEMORY", "UP",
        ],
        &rows,
    );
    out.line(format!(
        "{} sessions, {} open files, {} sizes still in objects, {} objects to delete, \
         {} truncates pending{}",
        mds.sessions,
        mds.open_files,
        mds.sizes_in_objects,
        mds.deletions_pending,
        mds.intents_pending,
        if mds.grace { "; in the grace period after a restart" } else { "" },
    ));
    fullest(&mds.map.iods).into_iter().for_each(|line| out.line(line));
    if let Some(mark) = &mark {
        out.line(format!(
            "the file system needs a check: {}",
            mark.split("; try: ").next().unwrap_or(mark)
        ));
        out.next("braid fsck --mend    (until it finds no problem)");
    }
    for (point, requests) in mounts() {
        out.line(format!(
            "mount {} of this host: requests by {requests}",
            crate::output::quoted(&point.display().to_string())
        ));
    }
    if secret.is_none() {
        let needs = "the counters of I/O daemons need the server key";
        out.hint(format!("{needs}; try: braid status --key DIR/keys/server.key"));
    }
    match mds.map.iods.iter().find(|iod| iod.state == IodState::Down) {
        _ if iods.is_empty() => {
            let command = "braid iod --dir DISK --init --listen ADDR:7701";
            out.next(format!("{command}    (without an I/O daemon, files cannot hold data)"))
        }
        Some(down) => out.next(format!(
            "on the host of {}: braid iod --dir ITS-DIRECTORY    (I/O daemon {id} is down: calls \
             on its objects wait; if it is lost: braid iod remove {id} --lost)",
            down.addresses.join(" "),
            id = down.id
        )),
        None => out.next("braid fsck    (checks everything while it runs; changes nothing)"),
    }
    Ok(())
}

/// Mounts of this host, and how their requests arrive.
#[cfg(target_os = "linux")]
fn mounts() -> Vec<(std::path::PathBuf, String)> {
    crate::mount::host_mounts::mounts()
}

/// Only Linux has mounts.
#[cfg(not(target_os = "linux"))]
fn mounts() -> Vec<(std::path::PathBuf, String)> {
    Vec::new()
}

fn row(
    name: &str,
    address: String,
    state: String,
    free: String,
    counters: Option<&DaemonStatusReply>,
) -> Vec<String> {
    let show = |f: &dyn Fn(&DaemonStatusReply) -> String| counters.map_or("-".into(), f);
    vec![
        name.into(),
        address,
        state,
        if free.is_empty() { "-".into() } else { free },
        show(&|c| c.connections.to_string()),
        show(&|c| c.calls.to_string()),
        show(&|c| human_bytes(c.bytes_read)),
        show(&|c| human_bytes(c.bytes_written)),
        show(&|c| c.errors.to_string()),
        show(&|c| human_bytes(c.memory_bytes)),
        show(&|c| format!("{} s", c.uptime_seconds)),
    ]
}

fn print_json(
    (mds, mark): (&MdsStatusReply, Option<String>),
    daemon: &DaemonStatusReply,
    iods: &[(&IodInfo, Option<DaemonStatusReply>)],
    out: Printer,
) {
    let counters = |c: &DaemonStatusReply| {
        json!({ "uptime_seconds": c.uptime_seconds, "connections": c.connections,
            "calls": c.calls, "errors": c.errors, "bytes_read": c.bytes_read,
            "bytes_written": c.bytes_written, "memory_bytes": c.memory_bytes,
            "version": c.version })
    };
    let rows: Vec<_> = iods
        .iter()
        .zip(&mds.last_contact_ms)
        .map(|((iod, c), last_contact)| {
            json!({ "id": iod.id.0, "addresses": iod.addresses, "labels": iod.labels,
                "state": state_word(iod.state), "heard_ms_ago": last_contact,
                "nearly_full": iod.space.is_nearly_full(), "total": iod.space.total.0,
                "free": iod.space.free.0, "available": iod.space.available.0,
                "counters": c.as_ref().map(counters) })
        })
        .collect();
    let mount = |(point, requests): &(_, _)| json!({ "mount": point, "requests": requests });
    out.value(&json!({
        "mds": { "epoch": mds.epoch.0, "sessions": mds.sessions, "open_files": mds.open_files,
            "sizes_in_objects": mds.sizes_in_objects, "deletions_pending": mds.deletions_pending,
            "intents_pending": mds.intents_pending, "grace": mds.grace, "must_be_checked": mark,
            "counters": counters(daemon) },
        "iods": rows,
        "mounts": mounts().iter().map(mount).collect::<Vec<_>>(),
    }));
}
