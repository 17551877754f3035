//! The format of client settings, and where they are found: for the `braid` command and for every
//! library that reads the same files.

mod document;

pub use document::{
    ClientSection, ClusterSection, Document, IodSection, MdsSection, NfsExport, NfsSection,
    ReadError, SmbSection, SmbShare, Tls,
};

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use braid_net::TlsPolicy;

/// The default socket of the agent.
pub const AGENT_SOCKET_DEFAULT: &str = "/run/braid/agent.sock";
/// The default address of the metadata server.
pub const MDS_DEFAULT: &str = "127.0.0.1:7700";

/// The default configuration file: the first that exists of ./braid.toml,
/// ~/.config/braid/braid.toml and /etc/braid/braid.toml.
///
/// The file in the current directory is ignored if another user wrote it, or may write it: it would
/// choose the server to which this program proves its key ([`passed_over`]).
pub fn file() -> Option<PathBuf> {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".config/braid/braid.toml"));
    let here = Some(PathBuf::from(LOCAL_FILE)).filter(|here| distrust(here).is_none());
    let places = [here, home, Some(PathBuf::from("/etc/braid/braid.toml"))];
    places.into_iter().flatten().find(|path| path.is_file())
}

/// The configuration file of the current directory.
const LOCAL_FILE: &str = "braid.toml";

/// Why the configuration file in the current directory is ignored; `None` if it is used, or does
/// not exist.
pub fn passed_over() -> Option<String> {
    let here = Path::new(LOCAL_FILE);
    let why = distrust(here).filter(|_| here.is_file())?;
    let shown = std::path::absolute(here).unwrap_or_else(|_| here.to_owned());
    Some(format!(
        "{} is not used: {why}; try: --config {} if you trust it",
        shown.display(),
        shown.display()
    ))
}

/// Why a file must not be used unless it is named explicitly.
#[cfg(unix)]
fn distrust(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let found = path.metadata().ok()?;
    let me = rustix::process::geteuid().as_raw();
    match found.uid() {
        owner if owner != me && owner != 0 => Some(format!("it belongs to user {owner}")),
        _ if found.mode() & 0o002 != 0 => Some("everybody may write it".to_owned()),
        _ => None,
    }
}

/// Other systems have different rules for directories.
#[cfg(not(unix))]
fn distrust(_: &Path) -> Option<String> {
    None
}

/// An address of a metadata server in the form that users write: the port is optional.
///
/// ```
/// use braid_client::settings::with_port;
/// assert_eq!(with_port("10.0.0.1"), "10.0.0.1:7700");
/// assert_eq!(with_port("::1"), "[::1]:7700");
/// assert_eq!(with_port("[::1]:1234"), "[::1]:1234");
/// ```
pub fn with_port(address: &str) -> String {
    let port = MDS_DEFAULT.rsplit_once(':').map_or("7700", |(_, port)| port);
    match (address.parse::<std::net::Ipv6Addr>(), address.rsplit_once(':')) {
        (Ok(bare), _) => format!("[{bare}]:{port}"),
        (Err(_), Some((_, after))) if !after.ends_with(']') => address.to_owned(),
        _ => format!("{address}:{port}"),
    }
}

/// Parses `500ms`, `30s`, `2m`; a bare number is in seconds.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(braid_client::settings::duration("2m"), Ok(Duration::from_secs(120)));
/// assert!(braid_client::settings::duration("3h").is_err());
/// ```
///
/// # Errors
/// The reason why it is invalid.
pub fn duration(text: &str) -> Result<Duration, String> {
    let error = || format!("'{text}' is not a time such as 500ms, 30s or 2m");
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| error())?;
    match &text[digits..] {
        "ms" => Ok(Duration::from_millis(number)),
        "" | "s" => Ok(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs).ok_or_else(error),
        _ => Err(error()),
    }
}

/// Parses a byte count with an optional K, M, G or T (powers of 1024).
///
/// ```
/// use braid_client::settings::size;
/// assert_eq!((size("64K"), size("1MiB"), size("12")), (Ok(65_536), Ok(1 << 20), Ok(12)));
/// assert_eq!(size("64 K"), Err("'64 K' is not a size such as 65536, 64K, 1M or 4GiB".to_owned()));
/// ```
///
/// # Errors
/// The reason why it is invalid.
pub fn size(text: &str) -> Result<u64, String> {
    let error = || format!("'{text}' is not a size such as 65536, 64K, 1M or 4GiB");
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| error())?;
    let shift = match text[digits..]
        .trim_end_matches("iB")
        .trim_end_matches('B')
        .to_ascii_uppercase()
        .as_str()
    {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(error()),
    };
    number.checked_mul(1 << shift).ok_or_else(error)
}

/// Parses `unless-loopback`, `always`, `never`.
///
/// # Errors
/// The reason why it is invalid.
pub fn tls(text: &str) -> Result<TlsPolicy, String> {
    match text {
        "unless-loopback" => Ok(TlsPolicy::UnlessLoopback),
        "always" => Ok(TlsPolicy::Always),
        "never" => Ok(TlsPolicy::Never),
        _ => Err(format!("tls is '{text}', and may be unless-loopback, always or never")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_wrong_ones_refused() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("30"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "3h", "-1s", "999999999999999999m", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_everybody_may_write_is_not_trusted() {
        use std::{fs, os::unix::fs::PermissionsExt};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("braid.toml");
        fs::write(&path, "").unwrap();
        for (mode, trusted) in
            [(0o644, true), (0o664, true), (0o600, true), (0o666, false), (0o602, false)]
        {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(distrust(&path).is_none(), trusted, "{mode:o}");
        }
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
            assert_eq!(distrust(&path).unwrap(), "it belongs to user 12345");
        }
    }

    #[test]
    fn tls_is_one_of_three_words() {
        assert!(matches!(tls("always"), Ok(TlsPolicy::Always)));
        assert!(tls("perhaps").is_err_and(|why| why.contains("'perhaps'")));
    }
}
