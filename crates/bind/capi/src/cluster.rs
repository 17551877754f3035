//! Connecting to a cluster and leaving it: the 1996 paper's mount and unmount (2.1).

use std::{
    ffi::{c_char, c_int},
    sync::Arc,
    time::Duration,
};

use braid_client::{Client, TlsPolicy};

use crate::{
    ffi::{
        Failure, Outcome, call,
        pointers::{optional_path, optional_text, value},
        process,
        table::{self, DescriptorTarget},
    },
    settings::{self, ClusterLocation, ProgramSettings},
};

/// For `braid_options.tls`: as the configuration and the environment say.
pub const BRAID_TLS_CONFIGURED: c_int = 0;
/// For `braid_options.tls`: TLS unless both ends are on this machine.
pub const BRAID_TLS_UNLESS_LOOPBACK: c_int = 1;
/// For `braid_options.tls`: TLS always.
pub const BRAID_TLS_ALWAYS: c_int = 2;
/// For `braid_options.tls`: TLS never.
pub const BRAID_TLS_NEVER: c_int = 3;

/// How to connect. All zeros: everything comes from the environment and the configuration.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct braid_options {
    /// A client's key file, or NULL.
    pub key_file: *const c_char,
    /// The socket of this host's agent, or NULL. The agent learns the program's user from the
    /// kernel.
    pub agent: *const c_char,
    /// The client's name in the server's lists, or NULL for "program[pid]".
    pub client_name: *const c_char,
    /// How long a call may wait for a server, in milliseconds; 0 for the configured time, or 30 s.
    pub timeout_ms: u32,
    /// One of BRAID_TLS_*.
    pub tls: c_int,
    /// Memory of the read cache in bytes: it answers small reads of files that are open for reading
    /// only; 0 for BRAID_READ_CACHE, or none.
    pub read_cache_bytes: u64,
    /// Must be zero.
    pub reserved: [u64; 7],
}

/// A cluster that the program is connected to.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) mds: Vec<String>,
}

/// Connects to a cluster, as the user that the program runs as (through the host's agent) or as the
/// holder of a key.
///
/// where: NULL for the settings of the braid command (BRAID_CONFIG, ./braid.toml,
/// ~/.config/braid/braid.toml, /etc/braid/braid.toml; BRAID_MDS, BRAID_KEY, BRAID_AGENT, BRAID_TLS,
/// BRAID_TIMEOUT, BRAID_READ_CACHE); the path of a braid.toml; or addresses of the metadata server,
/// "host:port,host:port". options: NULL for none.
///
/// Returns a descriptor of the cluster, or -1. New files and directories get the umask that the
/// process has at this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_connect(
    r#where: *const c_char,
    options: *const braid_options,
) -> c_int {
    call(|| {
        let mut wanted = if options.is_null() {
            ProgramSettings::default()
        } else {
            // SAFETY: the promise of C's caller, see `pointers`.
            unsafe { wanted(options) }?
        };
        // SAFETY: as above.
        wanted.location = unsafe { optional_text(r#where) }
            .map(|bytes| ClusterLocation::parse(&String::from_utf8_lossy(bytes)));
        let config = settings::config(wanted)?;
        let mds = config.mds.clone();
        let client = Client::connect(config)?;
        let client = client.with_umask(umask());
        process::table().add(DescriptorTarget::Cluster(Arc::new(Cluster { client, mds })))
    })
}

/// Leaves a cluster. Open files and directories stay usable until they are closed; the session ends
/// with the last of them. Returns 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn braid_disconnect(cluster: c_int) -> c_int {
    call(|| table::take_cluster(cluster).map(|_| 0))
}

/// # Safety
/// As [`value`], and the strings in it as [`optional_text`].
unsafe fn wanted(options: *const braid_options) -> Outcome<ProgramSettings> {
    // SAFETY: the caller's promise, also below.
    let options = unsafe { value(options, "options") }?;
    if options.reserved != [0; 7] {
        return Err(Failure::invalid(
            "options: a reserved field is not zero; try: a newer libbraid",
        ));
    }
    // SAFETY: as above.
    let (key, agent, name) = unsafe {
        (
            optional_path(options.key_file),
            optional_path(options.agent),
            optional_text(options.client_name),
        )
    };
    Ok(ProgramSettings {
        location: None,
        key,
        agent,
        timeout: (options.timeout_ms > 0).then(|| Duration::from_millis(options.timeout_ms.into())),
        tls: tls(options.tls)?,
        client_name: name.map(|name| String::from_utf8_lossy(name).into_owned()),
        read_cache_bytes: (options.read_cache_bytes > 0).then_some(options.read_cache_bytes),
    })
}

fn tls(number: c_int) -> Outcome<Option<TlsPolicy>> {
    match number {
        BRAID_TLS_CONFIGURED => Ok(None),
        BRAID_TLS_UNLESS_LOOPBACK => Ok(Some(TlsPolicy::UnlessLoopback)),
        BRAID_TLS_ALWAYS => Ok(Some(TlsPolicy::Always)),
        BRAID_TLS_NEVER => Ok(Some(TlsPolicy::Never)),
        other => Err(Failure::invalid(format!("options: tls is {other}, not one of BRAID_TLS_*"))),
    }
}

/// The umask of the process. Calling `umask(2)` would change it for a moment, for every thread.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(0o022)
}
