//! `braid iod remove`: an I/O daemon that does not come back.

use braid_client::IodId;

use crate::{
    admin,
    args::IodCommand,
    config::Settings,
    output::{Fault, Printer},
};

/// Runs one of them.
pub fn run(command: &IodCommand, settings: &Settings, out: Printer) -> Result<(), Fault> {
    let IodCommand::Remove { id, lost } = command;
    let client = admin::client(settings)?;
    client.remove_iod(IodId(*id), *lost).map_err(|error| removing(*id, *lost, &error.into()))?;
    if out.json {
        out.value(&serde_json::json!({ "iod": id, "state": "removed" }));
        return Ok(());
    }
    out.line(format!("I/O daemon {id} is removed"));
    match lost {
        true => {
            out.next(format!("braid fsck --affected-by {id}    (the files that lost something)"))
        }
        false => out.next("braid status"),
    }
    Ok(())
}

/// The server's advice, and for one that is gone for ever what gives it up.
fn removing(id: u32, lost: bool, fault: &Fault) -> Fault {
    let given_up = format!("where it does not come back: braid iod remove {id} --lost");
    let hint = match (&fault.hint, lost) {
        (Some(hint), false) if fault.why.contains("I/O daemon") => {
            Some(format!("{hint}; {given_up}"))
        }
        (hint, _) => hint.clone(),
    };
    Fault { what: format!("removing I/O daemon {id}"), hint, ..fault.clone() }
}
