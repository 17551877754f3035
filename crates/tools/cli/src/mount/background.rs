//! A mount that goes on in the background once it is ready.
//!
//! ```text
//!   braid mount DIR ── starts ──> braid mount DIR   (BRAID_MOUNT_READY set; standard output is a pipe)
//!        | waits for a line                | connects, stats the root, mounts
//!        |<──────────── "ready …" ─────────| then: session of its own, no terminal
//!     exit 0                               | serves until it is unmounted
//!        |<──────────── the end: it failed, has said why on the terminal, and its exit code is ours
//! ```

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Command, ExitCode, Stdio},
};

use crate::output::Fault;

/// Set for the process that stays.
const MARK: &str = "BRAID_MOUNT_READY";
const READY: &str = "ready";

/// Whether this is the process that stays.
pub fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts this command again; what it said of itself when it was ready, or the exit code of one that did not get ready, and has
/// said why.
pub fn start() -> Result<Result<String, ExitCode>, Fault> {
    let fail = |e: std::io::Error| Fault::failed("starting the mount in the background", e);
    let mut command = Command::new(std::env::current_exe().map_err(fail)?);
    let mut given = std::env::args_os();
    // The name counts: it may be the helper of mount(8).
    command.arg0(given.next().unwrap_or_else(|| "braid".into())).args(given).env(MARK, "1");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(fail)?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(fail)?;
    }
    if let Some(said) = line.trim_end().strip_prefix(READY) {
        return Ok(Ok(said.trim_start().to_owned()));
    }
    let ended = child.wait().map_err(fail)?;
    Ok(Err(ExitCode::from(ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))))
}

/// Tells who waits, with a word of itself, and lets go of the terminal and of the directory that it was started in.
pub fn ready(said: &str) -> Result<(), Fault> {
    let fail = |e: std::io::Error| Fault::failed("going to the background", e);
    writeln!(std::io::stdout(), "{READY} {said}").map_err(fail)?;
    let null = std::fs::File::options().read(true).write(true).open("/dev/null").map_err(fail)?;
    rustix::stdio::dup2_stdout(&null).map_err(|e| fail(e.into()))?;
    rustix::stdio::dup2_stderr(&null).map_err(|e| fail(e.into()))?;
    // Fails for a leader of a process group, which has no terminal to lose.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/").map_err(fail)?;
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(())
}
