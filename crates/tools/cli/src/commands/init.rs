//! `braid init`: the directory of a metadata server.

use std::{
    fs::File as LocalFile,
    io::Write,
    path::{Path, PathBuf},
};

use braid_client::{
    KeyFile,
    settings::{ClientSection, ClusterSection, Document, IodSection, MdsSection},
};
use braid_mds::Mds;
use braid_net::random_bytes;
use braid_types::{ClusterUuid, KeyId, limits::SHARDS_DEFAULT};
use braid_wire::Secret;
use serde_json::json;

use crate::{
    args::InitArgs,
    output::{Fault, Printer, quoted},
};

/// A new cluster on disk.
pub struct NewCluster {
    /// Its UUID.
    pub uuid: ClusterUuid,
    /// Its server key.
    pub server_key: Secret,
}

/// Creates the directory and prints the next steps.
pub fn init(args: &InitArgs, out: Printer) -> Result<(), Fault> {
    args.listen.iter().try_for_each(|address| check_address(address))?;
    let new = create(&args.dir, &args.listen)?;
    let config = args.dir.join("braid.toml");
    if out.json {
        out.value(&json!({
            "cluster": new.uuid.to_string(),
            "config": config,
            "server_key": args.dir.join("keys/server.key"),
        }));
        return Ok(());
    }
    let config = quoted(&config.display().to_string());
    let key = quoted(&args.dir.join("keys/client.key").display().to_string());
    let is_local = |address: &String| address.starts_with("127.") || address.starts_with("[::1]");
    let listen = if args.listen.iter().all(is_local) { "127.0.0.1:7701" } else { "ADDR:7701" };
    out.line(format!("cluster {} is in {}", new.uuid, args.dir.display()));
    out.hint(format!("next: braid mds --config {config}"));
    out.hint(format!(
        "      braid iod --config {config} --dir DISK --init --listen {listen}    (one per disk, \
         each with an address that clients can reach; copy braid.toml and keys/server.key to \
         other hosts)"
    ));
    out.hint(format!(
        "      braid key add client --config {config} --out {key}    (the client key that \
         braid.toml names; without --out: for other hosts or groups)"
    ));
    Ok(())
}

/// Clients get the address as it is written, so it must have a host and a port.
fn check_address(address: &str) -> Result<(), Fault> {
    let is_host = |host: &str| match host.strip_prefix('[') {
        Some(rest) => rest
            .strip_suffix(']')
            .is_some_and(|inside| inside.parse::<std::net::Ipv6Addr>().is_ok()),
        None => !host.is_empty() && !host.contains([':', '/', ' ']),
    };
    match address.rsplit_once(':') {
        Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok() => Ok(()),
        _ => Err(Fault::usage(
            "reading --listen",
            format!("'{address}' is not an address with host and port"),
        )
        .hint("HOST:PORT, such as 127.0.0.1:7700 or [::1]:7700")),
    }
}

/// Creates UUID, server key, metadata directory and configuration in an empty directory.
pub fn create(dir: &Path, listen: &[String]) -> Result<NewCluster, Fault> {
    let doing = || format!("creating a cluster in {}", dir.display());
    let fail = |e: std::io::Error| Fault::failed(doing(), e);
    std::fs::create_dir_all(dir).map_err(fail)?;
    if std::fs::read_dir(dir).map_err(fail)?.next().is_some() {
        return Err(Fault::usage(doing(), "the directory is not empty; nothing was changed")
            .hint("an empty or new directory"));
    }
    let new = NewCluster {
        uuid: ClusterUuid(random_bytes()),
        server_key: Secret::from_bytes(random_bytes()),
    };
    let mut keys = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut keys, 0o700);
    keys.create(dir.join("keys")).map_err(fail)?;
    let key = KeyFile {
        id: KeyId(0),
        name: "server".into(),
        admin: true,
        secret: new.server_key.clone(),
    };
    key.save(&dir.join("keys/server.key"))?;
    Mds::init(&dir.join("mds"), new.uuid, SHARDS_DEFAULT).map_err(|e| Fault::failed(doing(), e))?;
    write_config(dir, &new.uuid, listen)?;
    for made in [&dir.join("keys"), dir, &above(dir)] {
        sync_directory(made).map_err(fail)?;
    }
    Ok(new)
}

/// Makes new files in a directory survive a loss of power (I6). Other systems sync names with the
/// files.
pub fn sync_directory(dir: &Path) -> std::io::Result<()> {
    if cfg!(unix) { LocalFile::open(dir)?.sync_all() } else { Ok(()) }
}

/// The parent of a directory.
fn above(dir: &Path) -> PathBuf {
    dir.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

/// Writes `braid.toml`. Its paths are relative to it, so that the directory can be moved.
pub fn write_config(dir: &Path, uuid: &ClusterUuid, listen: &[String]) -> Result<(), Fault> {
    let file = Document {
        cluster: ClusterSection { uuid: Some(uuid.to_string()), mds: listen.to_vec(), tls: None },
        client: ClientSection { key: Some("keys/client.key".into()), ..ClientSection::default() },
        mds: MdsSection {
            dir: Some("mds".into()),
            listen: listen.to_vec(),
            server_key: Some("keys/server.key".into()),
            ..MdsSection::default()
        },
        iod: IodSection { server_key: Some("keys/server.key".into()), ..IodSection::default() },
        ..Document::default()
    };
    let text = file.to_text().map_err(|e| Fault::failed("writing braid.toml", e))?;
    let text =
        format!("# BraidFS. To see each setting and its source: braid config explain\n{text}");
    replace(dir, "braid.toml", &text).map_err(|e| Fault::failed("writing braid.toml", e))
}

/// Writes a file atomically, even if the power fails.
pub fn replace(dir: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let new = dir.join(format!("{name}.new"));
    let mut file = LocalFile::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, dir.join(name))?;
    sync_directory(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for good in
            ["127.0.0.1:7700", "127.0.0.1:0", "host.example:1", "[::1]:7700", "localhost:65535"]
        {
            assert!(check_address(good).is_ok(), "{good}");
        }
        for wrong in [
            "foo",
            "",
            ":7700",
            "host:",
            "host:65536",
            "::1",
            "::1:7700",
            "[::1]",
            "[x]:7",
            "a b:7",
            "http://h:7",
        ] {
            let said = check_address(wrong).unwrap_err().to_string();
            assert!(
                said.starts_with("reading --listen: ") && said.contains("; try: HOST:PORT"),
                "{said}"
            );
        }
    }
}
