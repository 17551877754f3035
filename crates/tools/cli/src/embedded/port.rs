//! The port of an embedded cluster's metadata server, which `braid up --port` may change.

use std::{fs, net::TcpListener, path::Path};

use crate::output::Fault;

/// What to try when a port is not to be had.
const OTHER: &str = "another one with --port, or --port 0 for any free one";

/// Refuses a port that another program has: nothing is made then.
pub fn free(address: &str) -> Result<(), Fault> {
    match TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(error) => Err(Fault::failed(format!("listening on {address}"), error).hint(OTHER)),
    }
}

/// Where to listen: as `braid.toml` says, or on the port that is asked for now. Asked for any, the one it had is as good: clients
/// may know it.
pub fn wanted(config: &Path, had: &[String], port: Option<u16>) -> Result<Vec<String>, Fault> {
    let Some(port) = port else { return Ok(had.to_vec()) };
    let [one] = had else {
        let why = format!("{} names {} addresses", config.display(), had.len());
        return Err(Fault::usage("reading --port", why)
            .hint("the same without --port, after a change of that file"));
    };
    if port == 0 && TcpListener::bind(one.as_str()).is_ok() {
        return Ok(had.to_vec());
    }
    let host = one.rsplit_once(':').map_or("127.0.0.1", |(host, _)| host);
    let address = format!("{host}:{port}");
    if address != *one {
        free(&address)?;
    }
    Ok(vec![address])
}

/// Writes down where it listens by now, if it is not where `braid.toml` says; what else is in the file stays.
pub fn keep(
    config: &Path,
    had: &[String],
    listen: &[String],
    address: &[String],
) -> Result<(), Fault> {
    let (Some(old), Some(new)) = (had.first(), address.first()) else { return Ok(()) };
    if had == listen {
        return Ok(());
    }
    let failed = |error| Fault::failed(format!("writing {}", config.display()), error);
    let text = fs::read_to_string(config).map_err(failed)?;
    let changed = text.replace(&format!("\"{old}\""), &format!("\"{new}\""));
    if changed == text {
        let (what, why) = (
            format!("changing {}", config.display()),
            format!("\"{old}\" is not in it word for word"),
        );
        return Err(
            Fault::usage(what, why).hint("the same without --port, after a change of that file")
        );
    }
    let dir = config.parent().unwrap_or(Path::new("."));
    super::init::replace(dir, "braid.toml", &changed).map_err(failed)
}
