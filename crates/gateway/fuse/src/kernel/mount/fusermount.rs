//! `fusermount3`, which mounts for unprivileged users and sends the open device back over a socket.

use super::{MountError, MountOptions};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = "fusermount3";

/// Mounts and returns the device to serve.
pub(super) fn mount(options: &MountOptions, point: &Path) -> Result<OwnedFd, MountError> {
    let helper = |error: io::Error| MountError::Helper {
        point: point.to_owned(),
        why: error.to_string(),
        hint: "",
    };
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|e| helper(e.into()))?;
    let mut command = Command::new(PROGRAM);
    command.args(["-o", &options.words(), "--"]).arg(point);
    // Its standard input is the socket: nothing else of this process is inherited.
    command.env("_FUSE_COMMFD", "0").stdin(theirs).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        // EACCES: a directory in PATH, or a helper that only a group may run.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            return Err(MountError::NotAllowed);
        }
        spawned => spawned.map_err(helper)?,
    };
    // Dropping the command closes our copy of its socket: a helper that fails then ends the wait.
    drop(command);
    let device = receive(&ours).map_err(helper)?;
    let mut words = String::new();
    child
        .stderr
        .take()
        .map(|mut stderr| stderr.read_to_string(&mut words))
        .transpose()
        .map_err(helper)?;
    let ended = child.wait().map_err(helper)?;
    match device {
        Some(device) if ended.success() => Ok(device),
        _ => Err(refused(point, &words)),
    }
}

/// An error from its message: the first line without its name, and a hint for common causes.
fn refused(point: &Path, words: &str) -> MountError {
    let why = words
        .lines()
        .next()
        .unwrap_or("it gave no reason")
        .trim_start_matches("fusermount3: ")
        .to_owned();
    let hint = match &why {
        why if why.contains("allow_other") => {
            "; try: -o noallow_other, or user_allow_other in /etc/fuse.conf"
        }
        why if why.contains("/dev/fuse: Permission denied") => {
            "; try: sudo chmod 0666 /dev/fuse, as udev has it"
        }
        why if why.contains("not found") || why.contains("modprobe") => "; try: modprobe fuse",
        why if why.contains("no write access") || why.contains("not owned") => {
            "; try: a directory that belongs to you"
        }
        _ => "",
    };
    MountError::Helper { point: point.to_owned(), why, hint }
}

/// Receives one byte with a descriptor. `None`: the helper ended without sending one.
fn receive(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let received = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(received)
}

/// Unmounts. The error is its message.
pub(super) fn unmount(point: &Path, lazy: bool) -> Result<(), String> {
    let mut command = Command::new(PROGRAM);
    command.args(["-u", "-q"]).args(lazy.then_some("-z")).arg("--").arg(point).stdin(Stdio::null());
    match command.output() {
        Ok(Output { status, .. }) if status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr)
            .trim()
            .trim_start_matches("fusermount3: ")
            .to_owned()),
        Err(error) => Err(format!("{PROGRAM}: {error}")),
    }
}
