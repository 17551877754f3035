//! `braid key add|list|revoke`.

use std::path::PathBuf;

use braid_client::KeyFile;
use braid_types::KeyId;
use braid_wire::{Secret, message::mds::KeyRights};
use serde_json::json;

use crate::{
    admin,
    args::KeyCommand,
    config::Settings,
    output::{Fault, Printer, quoted},
};

/// Runs one of the commands.
pub fn run(command: &KeyCommand, settings: &Settings, out: Printer) -> Result<(), Fault> {
    match command {
        KeyCommand::Add { name, out: file, read_only, squash, subtree, admin } => {
            let rights = KeyRights {
                read_only: *read_only,
                squash: *squash,
                subtree: subtree.clone().unwrap_or_default().into_bytes(),
                admin: *admin,
            };
            let path = file.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.key")));
            if name.is_empty() || (file.is_none() && name.contains('/')) {
                let why = "the name must be that of a host or a group: it names the key file";
                return Err(Fault::usage(format!("creating key '{name}'"), why)
                    .hint("braid key add NAME --out FILE"));
            }
            add(name, rights, &path, settings, out)
        }
        KeyCommand::List => list(settings, out),
        KeyCommand::Revoke { id } => {
            let revoked = admin::client(settings)?.key_revoke(KeyId(*id));
            revoked.map_err(|e| Fault { what: format!("revoking key {id}"), ..e.into() })?;
            out.hint(format!("key {id} is revoked; its sessions are ended and fenced"));
            out.next("braid key list");
            Ok(())
        }
    }
}

fn add(
    name: &str,
    rights: KeyRights,
    path: &std::path::Path,
    settings: &Settings,
    out: Printer,
) -> Result<(), Fault> {
    if path.exists() {
        return Err(Fault::usage(format!("writing {}", path.display()), "the file exists")
            .hint("--out FILE"));
    }
    let subtree = String::from_utf8_lossy(&rights.subtree).into_owned();
    let below =
        if subtree.is_empty() { String::new() } else { format!(" for everything below {subtree}") };
    let client = admin::client(settings)?;
    let made = client.key_add(name, rights.clone());
    let made =
        made.map_err(|e| Fault { what: format!("creating key {name}{below}"), ..e.into() })?;
    let key = KeyFile {
        id: made.key,
        name: name.to_owned(),
        admin: rights.admin,
        secret: Secret::from_bytes(made.secret),
    };
    if let Err(error) = key.save(path) {
        // A key without a holder would stay valid forever.
        client.key_revoke(made.key)?;
        return Err(Fault::from(error).hint("--out FILE in a directory that exists"));
    }
    if out.json {
        out.value(&json!({ "key": made.key.0, "name": name, "file": path }));
    } else {
        out.line(format!("key {} ({name}) is in {}", made.key, path.display()));
        out.next(format!(
            "copy it to the host, and there: braid agent --key {}",
            quoted(&path.display().to_string())
        ));
    }
    Ok(())
}

fn list(settings: &Settings, out: Printer) -> Result<(), Fault> {
    let keys = admin::client(settings)?.keys()?;
    if out.json {
        let facts: Vec<_> = keys
            .iter()
            .map(|key| {
                json!({
                    "key": key.key.0, "name": key.name, "revoked": key.revoked,
                    "sessions": key.sessions, "read_only": key.rights.read_only,
                    "squash": key.rights.squash, "admin": key.rights.admin,
                    "subtree": String::from_utf8_lossy(&key.rights.subtree),
                })
            })
            .collect();
        out.value(&facts);
        return Ok(());
    }
    let rows: Vec<_> = keys
        .iter()
        .map(|key| {
            let state = if key.revoked { "revoked" } else { "valid" };
            vec![
                key.key.to_string(),
                key.name.clone(),
                state.into(),
                rights_text(&key.rights),
                key.sessions.to_string(),
            ]
        })
        .collect();
    out.table(&["ID", "NAME", "STATE", "RIGHTS", "SESSIONS"], &rows);
    match keys.iter().any(|key| !key.revoked) {
        true => out.next("braid key revoke ID    (its sessions end immediately)"),
        false => out.next("braid key add NAME    (a key for a host or a group)"),
    }
    Ok(())
}

fn rights_text(rights: &KeyRights) -> String {
    let mut words = vec![if rights.read_only { "read-only".to_owned() } else { "full".to_owned() }];
    words.extend(rights.squash.map(|(uid, gid)| format!("squash {uid}:{gid}")));
    if !rights.subtree.is_empty() {
        words.push(format!("below {}", String::from_utf8_lossy(&rights.subtree)));
    }
    if rights.admin {
        words.push("admin".to_owned());
    }
    words.join(", ")
}
