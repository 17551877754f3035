//! `braid smb user`: the users that may log on to an SMB gateway.

use std::{
    io::{self, BufRead, IsTerminal, Read},
    path::{Path, PathBuf},
};

use braid_smb_wire::auth::ntlm::nt_hash;
use serde_json::json;

use super::{host_users, users_file};
use crate::{
    args::{SmbUserCommand, SmbUsersFileArgs},
    config::Settings,
    output::{Exit, Fault, Printer, quoted},
};

/// Longest password in UTF-16 units, as Windows has it.
const PASSWORD_UNITS_MAX: usize = 256;

/// Runs one of the commands.
pub fn run(
    command: &SmbUserCommand,
    settings: impl Fn() -> Result<Settings, Fault>,
    out: Printer,
) -> Result<(), Fault> {
    match command {
        SmbUserCommand::Add { name, password_stdin, file } => {
            add(name, *password_stdin, &path(file, settings)?, out)
        }
        SmbUserCommand::Remove { name, file } => remove(name, &path(file, settings)?, out),
        SmbUserCommand::List { file } => list(&path(file, settings)?, out),
    }
}

/// The users file of a command. A file that is named needs no configuration.
fn path(
    file: &SmbUsersFileArgs,
    settings: impl Fn() -> Result<Settings, Fault>,
) -> Result<PathBuf, Fault> {
    match &file.users {
        Some(path) => Ok(path.clone()),
        None => Ok(super::users_path(&settings()?.file.smb)),
    }
}

/// ` --users FILE`, for commands to type.
fn users_flag(path: &Path) -> String {
    match path == Path::new(users_file::DEFAULT) {
        true => String::new(),
        false => format!(" --users {}", quoted(&path.display().to_string())),
    }
}

fn add(name: &str, from_stdin: bool, path: &Path, out: Printer) -> Result<(), Fault> {
    let doing = format!("adding the SMB user {name}");
    if let Some(why) = users_file::why_no_name(name) {
        return Err(Fault::usage(doing, why).hint("braid smb user add NAME"));
    }
    // Before a password is typed for nothing.
    users_file::read(path)?;
    let password = match from_stdin {
        true => first_line(&doing)?,
        false => ask_twice(name, &doing)?,
    };
    check_password(&password, &doing)?;
    let hash = nt_hash(&password);
    let mut known = false;
    users_file::update(path, |entries| {
        match entries.iter_mut().find(|entry| users_file::same_name(&entry.name, name)) {
            Some(entry) => {
                entry.hash = hash;
                known = true;
            }
            None => entries.push(users_file::Entry { name: name.to_owned(), hash }),
        }
        Ok(())
    })?;
    if out.json {
        out.value(&json!({ "name": name, "file": path, "new": !known }));
    } else {
        let what = if known { "has a new password" } else { "may log on" };
        out.line(format!("{name} {what} ({})", path.display()));
    }
    if out.hints()
        && let Ok(None) = host_users::host_user(name)
    {
        out.hint(format!(
            "{name} cannot log on yet: no user of this host has that name; try: useradd {name}"
        ));
    }
    out.next(format!("braid smb{} --share projects=/projects", users_flag(path)));
    Ok(())
}

fn remove(name: &str, path: &Path, out: Printer) -> Result<(), Fault> {
    users_file::update(path, |entries| {
        let before = entries.len();
        entries.retain(|entry| !users_file::same_name(&entry.name, name));
        if entries.len() == before {
            let why = format!("{} has no user {name}", path.display());
            return Err(Fault::new(Exit::NotFound, format!("removing the SMB user {name}"), why)
                .hint(format!("braid smb user list{}", users_flag(path))));
        }
        Ok(())
    })?;
    if out.json {
        out.value(&json!({ "name": name, "file": path }));
    } else {
        out.line(format!("{name} may log on no more ({})", path.display()));
    }
    out.next(format!("braid smb user list{}", users_flag(path)));
    Ok(())
}

fn list(path: &Path, out: Printer) -> Result<(), Fault> {
    let entries = users_file::read(path)?;
    let found = entries.iter().map(|entry| {
        let host = host_users::host_user(&entry.name).ok().flatten();
        (&entry.name, host.map(|user| user.identity))
    });
    if out.json {
        let users = found.map(|(name, identity)| {
            json!({ "name": name, "uid": identity.as_ref().map(|identity| identity.uid),
                "gid": identity.as_ref().map(|identity| identity.gid) })
        });
        out.value(&json!({ "file": path, "users": users.collect::<Vec<_>>() }));
        return Ok(());
    }
    let rows: Vec<_> = found
        .map(|(name, identity)| {
            let number = |id: Option<u64>| id.map_or("-".to_owned(), |id| id.to_string());
            let (uid, gid) = (identity.as_ref().map(|id| id.uid), identity.map(|id| id.gid));
            let note = if uid.is_none() { "no user of this host: cannot log on" } else { "" };
            vec![name.clone(), number(uid), number(gid), note.to_owned()]
        })
        .collect();
    if !rows.is_empty() {
        out.table(&["NAME", "UID", "GID", ""], &rows);
    }
    let count = rows.len();
    out.hint(format!("{count} user{} in {}", if count == 1 { "" } else { "s" }, path.display()));
    out.next(format!("braid smb user add NAME{}", users_flag(path)));
    Ok(())
}

fn check_password(password: &str, doing: &str) -> Result<(), Fault> {
    let units = password.encode_utf16().count();
    let why = if units == 0 {
        "the password is empty".to_owned()
    } else if units > PASSWORD_UNITS_MAX {
        format!("the password has over {PASSWORD_UNITS_MAX} characters")
    } else if password.contains(char::is_control) {
        "the password has control characters".to_owned()
    } else {
        return Ok(());
    };
    Err(Fault::usage(doing, why).hint("another password"))
}

/// The first line of standard input, without its end.
fn first_line(doing: &str) -> Result<String, Fault> {
    let mut line = Vec::new();
    let most = 4 * PASSWORD_UNITS_MAX as u64;
    io::stdin()
        .lock()
        .take(most)
        .read_until(b'\n', &mut line)
        .map_err(|why| Fault::failed(doing, format!("standard input: {why}")))?;
    text_of(&line, doing)
}

/// A line without its end.
fn text_of(line: &[u8], doing: &str) -> Result<String, Fault> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8(line.to_vec())
        .map_err(|_| Fault::usage(doing, "the password is not UTF-8").hint("another password"))
}

fn ask_twice(name: &str, doing: &str) -> Result<String, Fault> {
    if !io::stdin().is_terminal() {
        let why = "standard input is no terminal to ask for the password";
        return Err(Fault::usage(doing, why)
            .hint(format!("braid smb user add {name} --password-stdin < FILE")));
    }
    let first = ask(&format!("Password of {name}: "), doing)?;
    check_password(&first, doing)?;
    let second = ask("Again: ", doing)?;
    if first != second {
        return Err(Fault::usage(doing, "the two passwords differ; nothing was changed")
            .hint(format!("braid smb user add {name}")));
    }
    Ok(first)
}

/// Reads a line from the terminal that does not show it.
#[cfg(unix)]
fn ask(prompt: &str, doing: &str) -> Result<String, Fault> {
    let fail = |why: io::Error| Fault::failed(doing, format!("the terminal: {why}"));
    let _silent = SilentTerminal::start().map_err(fail)?;
    eprint!("{prompt}");
    // A terminal gives one line to each read(2), which Ctrl-C may end.
    let mut line = [0; 4 * PASSWORD_UNITS_MAX];
    let bytes = io::stdin().lock().read(&mut line);
    eprintln!();
    let line = text_of(&line[..bytes.map_err(fail)?], doing)?;
    if line.contains(CTRL_C) {
        return Err(Fault::failed(doing, "interrupted; nothing was changed"));
    }
    Ok(line)
}

/// Only Unix has terminals whose echo can be switched off here.
#[cfg(not(unix))]
fn ask(_: &str, doing: &str) -> Result<String, Fault> {
    Err(Fault::usage(doing, "this system has no silent terminal").hint("--password-stdin"))
}

#[cfg(unix)]
const CTRL_C: char = '\u{3}';

/// A terminal without echo, until it is dropped. Ctrl-C ends the line, not the process, which
/// would leave the terminal without echo.
#[cfg(unix)]
struct SilentTerminal(rustix::termios::Termios);

#[cfg(unix)]
impl SilentTerminal {
    fn start() -> io::Result<Self> {
        use rustix::termios::{
            LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr,
        };
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        silent.special_codes[SpecialCodeIndex::VEOL] = CTRL_C as u8;
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self(before))
    }
}

#[cfg(unix)]
impl Drop for SilentTerminal {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_that_clients_cannot_type_are_refused() {
        assert!(check_password(&"\u{fc}".repeat(256), "").is_ok());
        for password in ["", "a\tb", &"a".repeat(257)] {
            assert!(check_password(password, "").is_err(), "{password:?}");
        }
    }
}
