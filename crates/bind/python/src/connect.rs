//! Makes a configuration of the library from arguments.

use std::{path::PathBuf, time::Duration};

use braid_client::{Config, Credential, TlsPolicy};
use pyo3::prelude::*;

use crate::error::{IntoPyResult, invalid};

/// The configuration of a client. `braid/_settings.py` has found the values in all sources.
pub(crate) fn config(
    py: Python<'_>,
    mds: Vec<String>,
    key: Option<PathBuf>,
    agent: Option<PathBuf>,
    tls: &str,
    timeout_seconds: f64,
    name: String,
) -> PyResult<Config> {
    let credential = match (key, agent) {
        (Some(key), None) => Credential::from_key_file(key).or_raise(py)?,
        (None, Some(agent)) => Credential::Agent(agent),
        _ => {
            return Err(invalid(
                "connecting: either a key or an agent must identify the program",
                "braid.connect(key=FILE)",
            ));
        }
    };
    let mut config = Config::new(mds, credential);
    config.tls = policy(tls)?;
    config.timeout = Duration::try_from_secs_f64(timeout_seconds)
        .map_err(|_| invalid("connecting: timeout is not a number of seconds", "timeout=30.0"))?;
    config.client_name = name;
    Ok(config)
}

fn policy(tls: &str) -> PyResult<TlsPolicy> {
    match tls {
        "unless-loopback" => Ok(TlsPolicy::UnlessLoopback),
        "always" => Ok(TlsPolicy::Always),
        "never" => Ok(TlsPolicy::Never),
        _ => Err(invalid("connecting: tls is unknown", "one of unless-loopback, always, never")),
    }
}
