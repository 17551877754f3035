//! Where the cluster is and who the program is: what the `braid` command reads, in the same order of who wins.
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

use braid_client::{Config, Credential, TlsPolicy, settings};
use toml::{Table, Value};

use crate::border::{Failure, Outcome};

/// What the program says itself; `None` leaves it to environment and file.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) place: Option<Place>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) agent: Option<PathBuf>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) tls: Option<TlsPolicy>,
    pub(crate) client_name: Option<String>,
}

/// Where a program says that the cluster is.
pub(crate) enum Place {
    /// The file that says it.
    File(PathBuf),
    /// Addresses of the metadata server.
    Addresses(Vec<String>),
}

impl Place {
    /// A path has a slash or ends in `.toml`; all else is addresses, separated by commas.
    pub(crate) fn parse(text: &str) -> Self {
        if text.contains('/') || text.ends_with(".toml") {
            return Self::File(text.into());
        }
        Self::Addresses(split(text))
    }
}

/// Everything resolved.
pub(crate) fn config(wanted: Wanted) -> Outcome<Config> {
    let (named, addresses) = match wanted.place {
        Some(Place::File(path)) => (Some(path), None),
        Some(Place::Addresses(addresses)) => (None, Some(addresses)),
        None => (None, None),
    };
    let path = named.or_else(|| variable("BRAID_CONFIG").map(PathBuf::from)).or_else(settings::file);
    let file = path.as_deref().map(File::read).transpose()?.unwrap_or_default();
    // A file that the program names wins over the surroundings.
    let from_variable = variable("BRAID_MDS").map(|text| split(&text));
    let mds = addresses
        .or(from_variable)
        .or_else(|| file.mds.clone())
        .unwrap_or_else(|| vec![settings::MDS_DEFAULT.to_owned()]);
    let mut config = Config::new(mds, credential(wanted.key, wanted.agent, &file)?);
    let tls = variable("BRAID_TLS").map(|text| self::tls(&text)).transpose()?;
    config.tls = wanted.tls.or(tls).or(file.tls).unwrap_or_default();
    let timeout = variable("BRAID_TIMEOUT").map(|text| duration(&text)).transpose()?;
    config.timeout = wanted.timeout.or(timeout).or(file.timeout).unwrap_or(config.timeout);
    if let Some(name) = wanted.client_name {
        config.client_name = name;
    }
    Ok(config)
}

/// A key or an agent: the more particular source wins over the other kind as well.
fn credential(key: Option<PathBuf>, agent: Option<PathBuf>, file: &File) -> Outcome<Credential> {
    let path = |name| variable(name).map(PathBuf::from);
    let sources = [
        (key, agent),
        (path("BRAID_KEY"), path("BRAID_AGENT")),
        (file.key.clone(), file.agent.clone()),
        (None, Some(PathBuf::from(settings::AGENT_SOCKET_DEFAULT)).filter(|socket| socket.exists())),
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
        "connect: there is neither a key nor an agent to say who you are; try: start braid agent on this host, or \
         BRAID_CONFIG with the braid.toml of the cluster",
    ))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn split(text: &str) -> Vec<String> {
    text.split(',').map(|address| address.trim().to_owned()).filter(|address| !address.is_empty()).collect()
}

/// What a client needs of `braid.toml`. The daemons' sections are theirs.
#[derive(Default)]
struct File {
    mds: Option<Vec<String>>,
    tls: Option<TlsPolicy>,
    key: Option<PathBuf>,
    agent: Option<PathBuf>,
    timeout: Option<Duration>,
}

impl File {
    /// Relative paths in it are taken from its own directory.
    fn read(path: &Path) -> Outcome<Self> {
        let failed = |errno, why: &str| {
            let hint = "try: the braid.toml that braid init or braid up wrote";
            Failure::new(errno, format!("reading {}: {why}; {hint}", path.display()))
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| failed(error.raw_os_error().unwrap_or(libc::EINVAL), &error.to_string()))?;
        let table: Table = text.parse().map_err(|error: toml::de::Error| failed(libc::EINVAL, error.message()))?;
        Self::from_table(&table, path).map_err(|failure| failed(failure.errno, &failure.text))
    }

    fn from_table(table: &Table, path: &Path) -> Outcome<Self> {
        let setting = |section: &str, name: &str| table.get(section).and_then(|section| section.get(name));
        let text = |section, name| setting(section, name).map(|value| as_text(value, name)).transpose();
        let base = path.parent().unwrap_or(Path::new(""));
        let mds = setting("cluster", "mds").map(|value| {
            let list = value.as_array().ok_or_else(|| Failure::invalid("cluster.mds is not a list"))?;
            list.iter().map(|address| as_text(address, "mds").map(str::to_owned)).collect::<Outcome<Vec<_>>>()
        });
        Ok(Self {
            mds: mds.transpose()?.filter(|list| !list.is_empty()),
            tls: text("cluster", "tls")?.map(tls).transpose()?,
            key: text("client", "key")?.map(|key| base.join(key)),
            agent: text("client", "agent")?.map(|agent| base.join(agent)),
            timeout: text("client", "timeout")?.map(duration).transpose()?,
        })
    }
}

fn as_text<'v>(value: &'v Value, name: &str) -> Outcome<&'v str> {
    value.as_str().ok_or_else(|| Failure::invalid(format!("{name} is not a text")))
}

fn tls(text: &str) -> Outcome<TlsPolicy> {
    settings::tls(text).map_err(Failure::invalid)
}

fn duration(text: &str) -> Outcome<Duration> {
    settings::duration(text).map_err(Failure::invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Outcome<File> {
        File::from_table(&text.parse().unwrap(), Path::new("/etc/braid/braid.toml"))
    }

    #[test]
    fn the_file_of_the_command_is_understood() {
        let read = file(
            "[cluster]\nuuid = 'x'\nmds = ['a:1', 'b:2']\ntls = 'always'\n[client]\nkey = 'keys/client.key'\ntimeout = '5s'\n\
             [mds]\ndir = 'mds'\n",
        )
        .unwrap();
        assert_eq!(read.mds.unwrap(), ["a:1", "b:2"]);
        assert_eq!(read.key.unwrap(), Path::new("/etc/braid/keys/client.key"), "relative to the file");
        assert!(matches!(read.tls, Some(TlsPolicy::Always)));
        assert_eq!(read.timeout, Some(Duration::from_secs(5)));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in
            ["[cluster]\nmds = 'a:1'", "[cluster]\ntls = 'perhaps'", "[client]\ntimeout = '1h'", "[client]\nkey = 7"]
        {
            assert_eq!(file(wrong).err().map(|failure| failure.errno), Some(libc::EINVAL), "{wrong}");
        }
    }

    #[test]
    fn a_place_is_a_file_or_addresses() {
        assert!(matches!(Place::parse("./x"), Place::File(path) if path == Path::new("./x")));
        assert!(matches!(Place::parse("my.toml"), Place::File(_)));
        assert!(matches!(Place::parse("a:1, b:2"), Place::Addresses(list) if list == ["a:1", "b:2"]));
    }
}
