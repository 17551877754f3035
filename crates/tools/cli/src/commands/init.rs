//! `braid init`: the directory of a metadata server.

use std::path::Path;

use braid_client::KeyFile;
use braid_mds::Mds;
use braid_types::{ClusterUuid, KeyId, limits::SHARDS_DEFAULT};
use braid_wire::Secret;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;

use crate::{
    args::InitArgs,
    config::{ClientSection, ClusterSection, File, ServerSection},
    output::{Fault, Printer},
};

/// A new cluster on disk.
pub struct NewCluster {
    /// Its UUID.
    pub uuid: ClusterUuid,
    /// Its server key.
    pub server_key: Secret,
}

/// Makes the directory and says what comes next.
pub fn init(args: &InitArgs, out: Printer) -> Result<(), Fault> {
    let new = create(&args.dir, &args.listen)?;
    let config = args.dir.join("braid.toml");
    if out.json {
        out.value(&json!({ "cluster": new.uuid.to_string(), "config": config, "server_key": args.dir.join("keys/server.key") }));
        return Ok(());
    }
    let config = config.display();
    out.line(format!("cluster {} is in {}", new.uuid, args.dir.display()));
    out.hint(format!("next: braid mds --config {config}"));
    out.hint(format!("      braid iod --config {config} --dir DISK --init    (one per disk; copy braid.toml and keys/server.key to other hosts)"));
    out.hint(format!("      braid key add NAME --config {config}              (a client key for a host or a group)"));
    Ok(())
}

/// Makes UUID, server key, metadata directory and configuration in an empty directory.
pub fn create(dir: &Path, listen: &[String]) -> Result<NewCluster, Fault> {
    let doing = || format!("making a cluster in {}", dir.display());
    let fail = |e: std::io::Error| Fault::failed(doing(), e);
    std::fs::create_dir_all(dir).map_err(fail)?;
    if std::fs::read_dir(dir).map_err(fail)?.next().is_some() {
        return Err(Fault::usage(doing(), "the directory is not empty, and nothing in it is touched")
            .hint("an empty or new directory"));
    }
    let new = NewCluster { uuid: ClusterUuid(random()?), server_key: Secret::from_bytes(random()?) };
    std::fs::create_dir(dir.join("keys")).map_err(fail)?;
    let key = KeyFile { id: KeyId(0), name: "server".into(), admin: true, secret: new.server_key.clone() };
    key.save(&dir.join("keys/server.key"))?;
    Mds::init(&dir.join("mds"), new.uuid, SHARDS_DEFAULT).map_err(|e| Fault::failed(doing(), e))?;
    write_config(dir, &new.uuid, listen)?;
    Ok(new)
}

/// Writes `braid.toml`; paths in it are relative to it, so that the directory can be moved.
pub fn write_config(dir: &Path, uuid: &ClusterUuid, listen: &[String]) -> Result<(), Fault> {
    let file = File {
        cluster: ClusterSection { uuid: Some(uuid.to_string()), mds: listen.to_vec(), tls: None },
        client: ClientSection { key: Some("keys/client.key".into()), ..ClientSection::default() },
        mds: ServerSection {
            dir: Some("mds".into()),
            listen: listen.to_vec(),
            server_key: Some("keys/server.key".into()),
            ..ServerSection::default()
        },
        iod: ServerSection { server_key: Some("keys/server.key".into()), ..ServerSection::default() },
    };
    let text = toml::to_string(&file).map_err(|e| Fault::failed("writing braid.toml", e))?;
    let text = format!("# BraidFS. What each setting means and where it comes from: braid config explain\n{text}");
    std::fs::write(dir.join("braid.toml"), text).map_err(|e| Fault::failed("writing braid.toml", e))
}

fn random<const N: usize>() -> Result<[u8; N], Fault> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Fault::failed("drawing random bytes", "the system has none"))?;
    Ok(bytes)
}
