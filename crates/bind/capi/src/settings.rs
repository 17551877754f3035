//! Finds the cluster and the identity of the program: the sources of the `braid` command, in the
//! same order of precedence.
//!
//! ```text
//!   arguments of braid_connect  >  BRAID_* of the environment  >  braid.toml  >  defaults
//!   braid.toml: BRAID_CONFIG, ./braid.toml, ~/.config/braid/braid.toml, /etc/braid/braid.toml
//! ```

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use braid_client::{
    Config, Credential, TlsPolicy,
    settings::{self, ClientSection, Document, ReadError},
};

use crate::ffi::{Failure, Outcome};

/// The settings in the program's own call; `None`: from environment and file.
#[derive(Default)]
pub(crate) struct ProgramSettings {
    pub(crate) location: Option<ClusterLocation>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) agent: Option<PathBuf>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) tls: Option<TlsPolicy>,
    pub(crate) client_name: Option<String>,
    pub(crate) read_cache_bytes: Option<u64>,
}

/// The first argument of `braid_connect`.
pub(crate) enum ClusterLocation {
    /// A configuration file.
    File(PathBuf),
    /// Addresses of the metadata server.
    Addresses(Vec<String>),
}

impl ClusterLocation {
    /// A path has a slash or ends in `.toml`; everything else is addresses, separated by commas.
    pub(crate) fn parse(text: &str) -> Self {
        if text.contains('/') || text.ends_with(".toml") {
            return Self::File(text.into());
        }
        Self::Addresses(split(text))
    }
}

/// The configuration after all sources are read.
pub(crate) fn config(wanted: ProgramSettings) -> Outcome<Config> {
    let (named, addresses) = match wanted.location {
        Some(ClusterLocation::File(path)) => (Some(path), None),
        Some(ClusterLocation::Addresses(addresses)) => (None, Some(addresses)),
        None => (None, None),
    };
    let path =
        named.or_else(|| variable("BRAID_CONFIG").map(PathBuf::from)).or_else(settings::file);
    let file = path.as_deref().map(read).transpose()?.unwrap_or_default();
    // A file that the program names has precedence over the environment.
    let from_variable = variable("BRAID_MDS").map(|text| split(&text));
    let mds = addresses
        .or(from_variable)
        .or_else(|| Some(file.cluster.mds.clone()).filter(|list| !list.is_empty()))
        .unwrap_or_else(|| vec![settings::MDS_DEFAULT.to_owned()]);
    let mut config = Config::new(mds, credential(wanted.key, wanted.agent, &file.client)?);
    let tls = variable("BRAID_TLS").map(|text| self::tls(&text)).transpose()?;
    config.tls = wanted.tls.or(tls).or(file.cluster.tls.map(TlsPolicy::from)).unwrap_or_default();
    let timeout = variable("BRAID_TIMEOUT").map(|text| duration(&text)).transpose()?;
    config.timeout = wanted
        .timeout
        .or(timeout)
        .or(file.timeout().map_err(Failure::invalid)?)
        .unwrap_or(config.timeout);
    let read_cache = variable("BRAID_READ_CACHE").map(|text| size(&text)).transpose()?;
    config.read_cache_bytes = wanted.read_cache_bytes.or(read_cache).unwrap_or(0);
    if let Some(name) = wanted.client_name {
        config.client_name = name;
    }
    Ok(config)
}

/// A key or an agent. A source of higher precedence overrides both kinds in the sources below it.
fn credential(
    key: Option<PathBuf>,
    agent: Option<PathBuf>,
    file: &ClientSection,
) -> Outcome<Credential> {
    let path = |name| variable(name).map(PathBuf::from);
    let sources = [
        (key, agent),
        (path("BRAID_KEY"), path("BRAID_AGENT")),
        (file.key.clone(), file.agent.clone()),
        (
            None,
            Some(PathBuf::from(settings::AGENT_SOCKET_DEFAULT)).filter(|socket| socket.exists()),
        ),
    ];
    for (key, agent) in sources {
        if let Some(key) = key {
            return Ok(Credential::from_key_file(key)?);
        }
        if let Some(agent) = agent {
            return Ok(Credential::Agent(agent));
        }
    }
    Err(Failure::new(
        libc::EACCES,
        "connect: there is neither a key nor an agent to identify the user; \
         try: start braid agent on this host, or BRAID_CONFIG with the braid.toml of the cluster",
    ))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn split(text: &str) -> Vec<String> {
    text.split(',')
        .map(|address| address.trim().to_owned())
        .filter(|address| !address.is_empty())
        .collect()
}

/// Reads the file. Relative paths in it start at its own directory.
fn read(path: &Path) -> Outcome<Document> {
    Document::read(path).map_err(|error| {
        let (errno, hint) = match &error {
            ReadError::Io(error) => (
                error.raw_os_error().unwrap_or(libc::EINVAL),
                "the braid.toml that braid init or braid up wrote",
            ),
            _ => (libc::EINVAL, "braid config explain"),
        };
        Failure::new(errno, format!("reading {}: {error}; try: {hint}", path.display()))
    })
}

fn tls(text: &str) -> Outcome<TlsPolicy> {
    settings::tls(text).map_err(Failure::invalid)
}

fn size(text: &str) -> Outcome<u64> {
    settings::size(text).map_err(|why| Failure::invalid(format!("BRAID_READ_CACHE: {why}")))
}

fn duration(text: &str) -> Outcome<Duration> {
    settings::duration(text).map_err(Failure::invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_command_is_read_and_an_unknown_key_in_it_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("braid.toml");
        let read_text = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path)
        };
        let found =
            read_text("[cluster]\nmds = ['a:1', 'b:2']\ntls = 'never'\n[client]\ntimeout = '5s'\n")
                .unwrap();
        assert_eq!(
            (found.cluster.mds.len(), found.timeout()),
            (2, Ok(Some(Duration::from_secs(5))))
        );
        let refused = read_text("[cluster]\nmds = ['a:1']\n[client]\ntimout = '5s'\n").unwrap_err();
        assert_eq!(refused.errno, libc::EINVAL);
        assert!(refused.text.contains("line 4: unknown field `timout`"), "{}", refused.text);
        assert!(
            refused.text.contains("braid.toml") && refused.text.contains("; try: "),
            "{}",
            refused.text
        );
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(&path).unwrap_err().errno, libc::ENOENT);
    }

    #[test]
    fn a_location_is_a_file_or_addresses() {
        let parse = ClusterLocation::parse;
        assert!(matches!(parse("./x"), ClusterLocation::File(path) if path == Path::new("./x")));
        assert!(matches!(parse("my.toml"), ClusterLocation::File(_)));
        let several = parse("a:1, b:2");
        assert!(matches!(several, ClusterLocation::Addresses(list) if list == ["a:1", "b:2"]));
    }
}
