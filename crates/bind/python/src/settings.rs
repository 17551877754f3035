//! `braid.toml`, read by the same parser as in all clients and daemons.

use std::{io, path::PathBuf};

use braid_client::settings::{Document, ReadError, Tls};
use pyo3::prelude::*;

use crate::error::invalid;

/// The settings in a file: addresses, TLS, key, agent, and time-out in seconds.
type FileSettings =
    (Vec<String>, Option<&'static str>, Option<PathBuf>, Option<PathBuf>, Option<f64>);

/// Reads a whole file. An unknown setting is an error.
#[pyfunction]
pub(crate) fn read_settings(path: PathBuf) -> PyResult<FileSettings> {
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
    Ok((cluster.mds, cluster.tls.map(keyword), client.key, client.agent, timeout))
}

fn keyword(tls: Tls) -> &'static str {
    match tls {
        Tls::UnlessLoopback => "unless-loopback",
        Tls::Always => "always",
        Tls::Never => "never",
    }
}
