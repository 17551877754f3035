//! How settings of a client are written, and where they are found: for the `braid` command and for every library that reads what it
//! reads.

mod document;

pub use document::{ClientSection, ClusterSection, Document, IodSection, MdsSection, ReadError, Tls};

use std::{env, path::PathBuf, time::Duration};

use braid_net::TlsPolicy;

/// Where an agent listens unless told otherwise.
pub const AGENT_SOCKET_DEFAULT: &str = "/run/braid/agent.sock";
/// Where a metadata server is looked for unless told otherwise.
pub const MDS_DEFAULT: &str = "127.0.0.1:7700";

/// The configuration file that is used when none is named: ./braid.toml, ~/.config/braid/braid.toml, /etc/braid/braid.toml, the
/// first that is there.
pub fn file() -> Option<PathBuf> {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".config/braid/braid.toml"));
    let places = [Some(PathBuf::from("braid.toml")), home, Some(PathBuf::from("/etc/braid/braid.toml"))];
    places.into_iter().flatten().find(|path| path.is_file())
}

/// Reads `500ms`, `30s`, `2m`; a bare number is seconds.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(braid_client::settings::duration("2m"), Ok(Duration::from_secs(120)));
/// assert!(braid_client::settings::duration("3h").is_err());
/// ```
///
/// # Errors
/// Why it is none.
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

/// Reads a byte count with an optional K, M, G or T (powers of 1024).
///
/// ```
/// use braid_client::settings::size;
/// assert_eq!((size("64K"), size("1MiB"), size("12")), (Ok(65_536), Ok(1 << 20), Ok(12)));
/// assert_eq!(size("64 K"), Err("'64 K' is not a size such as 65536, 64K, 1M or 4GiB".to_owned()));
/// ```
///
/// # Errors
/// Why it is none.
pub fn size(text: &str) -> Result<u64, String> {
    let error = || format!("'{text}' is not a size such as 65536, 64K, 1M or 4GiB");
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| error())?;
    let shift = match text[digits..].trim_end_matches("iB").trim_end_matches('B').to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(error()),
    };
    number.checked_mul(1 << shift).ok_or_else(error)
}

/// Reads `unless-loopback`, `always`, `never`.
///
/// # Errors
/// Why it is none.
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

    #[test]
    fn tls_is_one_of_three_words() {
        assert!(matches!(tls("always"), Ok(TlsPolicy::Always)));
        assert!(tls("perhaps").is_err_and(|why| why.contains("'perhaps'")));
    }
}
