//! `braid iod remove`: removes an I/O daemon for good.

use braid_client::IodId;

use crate::{
    admin,
    args::IodCommand,
    config::Settings,
    output::{Fault, Printer},
};

/// Runs the command.
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
        true => out.next(format!("braid fsck --affected-by {id}    (the files that lost data)")),
        false => out.next("braid status"),
    }
    Ok(())
}

/// The server's advice, and the command that gives up a lost daemon.
fn removing(id: u32, lost: bool, fault: &Fault) -> Fault {
    let given_up = format!("if it does not come back: braid iod remove {id} --lost");
    let hint = match (&fault.hint, lost) {
        (Some(hint), false) if fault.why.contains("I/O daemon") => {
            Some(format!("{hint}; {given_up}"))
        }
        (hint, _) => hint.clone(),
    };
    Fault { what: format!("removing I/O daemon {id}"), hint, ..fault.clone() }
}
