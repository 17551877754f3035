//! The port of an embedded cluster's metadata server, which `braid up --port` may change.

use std::{fs, net::TcpListener, path::Path};

use crate::output::Fault;

/// Advice when a port is in use.
const OTHER: &str = "another port with --port, or --port 0 for any free port";

/// Fails if another program uses the port. Nothing is created then.
pub fn check_port_free(address: &str) -> Result<(), Fault> {
    match TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(error) => Err(Fault::failed(format!("listening on {address}"), error).hint(OTHER)),
    }
}

/// Where to listen: as `braid.toml` says, or on the port of `--port`. Port 0 means any; the
/// previous port is preferred, since clients may know it.
pub fn listen_addresses(
    config: &Path,
    had: &[String],
    port: Option<u16>,
) -> Result<Vec<String>, Fault> {
    let Some(port) = port else { return Ok(had.to_vec()) };
    let [one] = had else {
        let why = format!("{} names {} addresses", config.display(), had.len());
        return Err(Fault::usage("reading --port", why)
            .hint("change that file, then the same command without --port"));
    };
    if port == 0 && TcpListener::bind(one.as_str()).is_ok() {
        return Ok(had.to_vec());
    }
    let host = one.rsplit_once(':').map_or("127.0.0.1", |(host, _)| host);
    let address = format!("{host}:{port}");
    if address != *one {
        check_port_free(&address)?;
    }
    Ok(vec![address])
}

/// Stores the address in `braid.toml` if it differs. The rest of the file does not change.
pub fn record_port(
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
        let (what, why) =
            (format!("changing {}", config.display()), format!("it does not contain \"{old}\""));
        return Err(
            Fault::usage(what, why).hint("change that file, then the same command without --port")
        );
    }
    let dir = config.parent().unwrap_or(Path::new("."));
    super::init::replace(dir, "braid.toml", &changed).map_err(failed)
}
