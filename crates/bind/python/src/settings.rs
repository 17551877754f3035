//! `braid.toml`, as the one parser of all clients and daemons reads it.

use std::{io, path::PathBuf};

use braid_client::settings::{Document, ReadError, Tls};
use pyo3::prelude::*;

use crate::error::invalid;

/// What a file says of the cluster and of this host as a client: addresses, TLS, key, agent, time bound in seconds.
type Said = (Vec<String>, Option<&'static str>, Option<PathBuf>, Option<PathBuf>, Option<f64>);

/// Reads a file whole; what is not understood is refused.
#[pyfunction]
pub(crate) fn read_settings(path: PathBuf) -> PyResult<Said> {
    let wrong =
        |why: &str| invalid(&format!("reading {}: {why}", path.display()), "braid config explain");
    let document = Document::read(&path).map_err(|error| match error {
        ReadError::Io(error) => {
            io::Error::new(error.kind(), format!("reading {}: {error}", path.display())).into()
        }
        error => wrong(&error.to_string()),
    })?;
    let timeout = document.timeout().map_err(|why| wrong(&why))?;
    let Document { cluster, client, .. } = document;
    let timeout = timeout.map(|time| time.as_secs_f64());
    Ok((cluster.mds, cluster.tls.map(word), client.key, client.agent, timeout))
}

fn word(tls: Tls) -> &'static str {
    match tls {
        Tls::UnlessLoopback => "unless-loopback",
        Tls::Always => "always",
        Tls::Never => "never",
    }
}
