//! Configuration: options, then environment, then one TOML file, then defaults. Each setting knows
//! its source.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use braid_client::settings::{self, Document, IodSection, MdsSection, ReadError};

use crate::{
    args::{Global, TlsArg},
    output::Fault,
};

/// The source of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// An option of the command, or its environment variable.
    Flag(&'static str),
    /// The configuration file.
    File(PathBuf),
    /// No source sets it.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "{name}"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and its source.
#[derive(Clone, Debug)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Its source.
    pub source: Source,
}

/// The configuration after all sources are read.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file that was read.
    pub path: Option<PathBuf>,
    /// Its parsed contents.
    pub file: Document,
    /// Addresses of the metadata server.
    pub mds: Setting<Vec<String>>,
    /// When connections use TLS.
    pub tls: Setting<TlsArg>,
    /// Key file.
    pub key: Setting<Option<PathBuf>>,
    /// Socket of the agent.
    pub agent: Setting<Option<PathBuf>>,
    /// Maximum wait of a call.
    pub timeout: Setting<Duration>,
}

impl Settings {
    /// Reads the file; options and environment have precedence over it.
    pub fn load(global: &Global) -> Result<Self, Fault> {
        if global.config.is_none()
            && let Some(why) = settings::passed_over()
        {
            tracing::warn!("{why}");
        }
        let path = global.config.clone().or_else(settings::file);
        let file = path.as_deref().map(read).transpose()?.unwrap_or_default();
        let from_file = || path.clone().map_or(Source::Default, Source::File);
        let timeout = match (&global.timeout, &file.client.timeout) {
            (Some(time), _) => {
                Setting { value: *time, source: Source::Flag("--timeout or BRAID_TIMEOUT") }
            }
            (None, Some(text)) => Setting {
                value: settings::duration(text).map_err(|why| {
                    Fault::usage(format!("reading client.timeout in {}", from_file()), why)
                })?,
                source: from_file(),
            },
            (None, None) => Setting {
                value: Duration::from_secs(braid_types::limits::TIMEOUT_SECONDS_DEFAULT),
                source: Source::Default,
            },
        };
        let (key, agent) = credentials(global, &file, from_file());
        Ok(Self {
            mds: with_ports(pick_list(
                "--mds or BRAID_MDS",
                &global.mds,
                &file.cluster.mds,
                from_file(),
                settings::MDS_DEFAULT,
            )),
            tls: pick(
                "--tls or BRAID_TLS",
                global.tls,
                file.cluster.tls.map(TlsArg::from),
                from_file(),
            )
            .or(TlsArg::default()),
            key,
            agent,
            timeout,
            path,
            file,
        })
    }

    /// Every setting as (name, value, source), for `braid config explain`.
    pub fn explain(&self) -> Vec<(&'static str, String, String)> {
        let path = |p: &Option<PathBuf>| p.as_ref().map_or("-".into(), |p| p.display().to_string());
        let row = |name, value, source: &Source| (name, value, source.to_string());
        let mut rows = vec![
            row(
                "cluster.uuid",
                self.file.cluster.uuid.clone().unwrap_or_else(|| "-".into()),
                &match self.file.cluster.uuid {
                    Some(_) => self.path.clone().map_or(Source::Default, Source::File),
                    None => Source::Default,
                },
            ),
            row("cluster.mds", self.mds.value.join(","), &self.mds.source),
            row("cluster.tls", self.tls.value.keyword(), &self.tls.source),
            row("client.key", path(&self.key.value), &self.key.source),
            row("client.agent", path(&self.agent.value), &self.agent.source),
            row("client.timeout", format!("{:?}", self.timeout.value), &self.timeout.source),
        ];
        let file = self.path.clone().map_or(Source::Default, Source::File);
        for (name, value) in
            explain_mds(&self.file.mds).into_iter().chain(explain_iod(&self.file.iod))
        {
            let source = if value.is_some() { &file } else { &Source::Default };
            rows.push(row(name, value.unwrap_or_else(|| "-".into()), source));
        }
        rows
    }
}

/// A setting's name and its value in the file.
type InFile = (&'static str, Option<String>);

fn explain_mds(mds: &MdsSection) -> [InFile; 5] {
    [
        ("mds.dir", shown_path(&mds.dir)),
        ("mds.listen", shown_list(&mds.listen)),
        ("mds.advertise", shown_list(&mds.advertise)),
        ("mds.server-key", shown_path(&mds.server_key)),
        ("mds.metrics", mds.metrics.clone()),
    ]
}

fn explain_iod(iod: &IodSection) -> [InFile; 6] {
    [
        ("iod.dir", shown_path(&iod.dir)),
        ("iod.listen", shown_list(&iod.listen)),
        ("iod.advertise", shown_list(&iod.advertise)),
        ("iod.labels", shown_list(&iod.labels)),
        ("iod.server-key", shown_path(&iod.server_key)),
        ("iod.metrics", iod.metrics.clone()),
    ]
}

fn shown_path(path: &Option<PathBuf>) -> Option<String> {
    path.as_ref().map(|path| path.display().to_string())
}

fn shown_list(list: &[String]) -> Option<String> {
    (!list.is_empty()).then(|| list.join(","))
}

/// A key or an agent. A source of higher precedence overrides both kinds in the sources below it.
fn credentials(
    global: &Global,
    file: &Document,
    from_file: Source,
) -> (Setting<Option<PathBuf>>, Setting<Option<PathBuf>>) {
    let none = Setting { value: None, source: Source::Default };
    if global.key.is_some() {
        return (
            Setting { value: global.key.clone(), source: Source::Flag("--key or BRAID_KEY") },
            none,
        );
    }
    if global.agent.is_some() {
        return (
            none,
            Setting { value: global.agent.clone(), source: Source::Flag("--agent or BRAID_AGENT") },
        );
    }
    if file.client.key.is_some() {
        return (Setting { value: file.client.key.clone(), source: from_file }, none);
    }
    if file.client.agent.is_some() {
        return (none, Setting { value: file.client.agent.clone(), source: from_file });
    }
    let agent = PathBuf::from(settings::AGENT_SOCKET_DEFAULT);
    let value = agent.exists().then_some(agent);
    (none.clone(), Setting { value, source: Source::Default })
}

fn pick<T>(
    flag: &'static str,
    given: Option<T>,
    in_file: Option<T>,
    file: Source,
) -> Setting<Option<T>> {
    match (given, in_file) {
        (Some(value), _) => Setting { value: Some(value), source: Source::Flag(flag) },
        (None, Some(value)) => Setting { value: Some(value), source: file },
        (None, None) => Setting { value: None, source: Source::Default },
    }
}

fn pick_list(
    flag: &'static str,
    given: &[String],
    in_file: &[String],
    file: Source,
    default: &str,
) -> Setting<Vec<String>> {
    let some = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
    pick(flag, some(given), some(in_file), file).or(vec![default.to_owned()])
}

/// Adds the default port to an address without one. Port 0 never answers, and a call to it would
/// wait for its whole time-out.
fn with_ports(mds: Setting<Vec<String>>) -> Setting<Vec<String>> {
    Setting { value: mds.value.iter().map(|address| settings::with_port(address)).collect(), ..mds }
}

impl<T> Setting<Option<T>> {
    fn or(self, default: T) -> Setting<T> {
        Setting { value: self.value.unwrap_or(default), source: self.source }
    }
}

/// Reads one file. Relative paths in it start at its own directory.
pub fn read(path: &Path) -> Result<Document, Fault> {
    Document::read(path).map_err(|error| {
        let hint = match error {
            ReadError::Io(_) => "--config with the braid.toml that braid init or braid up wrote",
            _ => "braid config explain",
        };
        Fault::usage(format!("reading {}", path.display()), error.to_string()).hint(hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, global: Global) -> Result<Settings, Fault> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("braid.toml");
        std::fs::write(&path, text).unwrap();
        Settings::load(&Global { config: Some(path), ..global })
    }

    #[test]
    fn a_misspelt_key_is_refused_and_named() {
        let fault = load("[cluster]\nmsd = ['a:1']\n", Global::default()).unwrap_err().to_string();
        assert!(
            fault.contains("msd") && fault.contains("`mds`") && fault.contains("try:"),
            "{fault}"
        );
    }

    #[test]
    fn labels_are_of_io_daemons_and_refused_elsewhere() {
        let settings = load("[iod]\nlabels = ['rack=1']\n", Global::default()).unwrap();
        assert!(
            settings
                .explain()
                .iter()
                .any(|(name, value, _)| (*name, value.as_str()) == ("iod.labels", "rack=1"))
        );
        let fault =
            load("[mds]\nlabels = ['rack=1']\n", Global::default()).unwrap_err().to_string();
        assert!(fault.contains("unknown field `labels`"), "{fault}");
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let text = "[cluster]\nmds = ['file:1']\n[client]\ntimeout = '5s'\n";
        let settings =
            load(text, Global { mds: vec!["flag:1".into()], ..Global::default() }).unwrap();
        assert_eq!(
            (settings.mds.value[0].as_str(), settings.mds.source.clone()),
            ("flag:1", Source::Flag("--mds or BRAID_MDS"))
        );
        assert_eq!(settings.timeout.value, Duration::from_secs(5));
        assert_eq!(settings.tls.source, Source::Default);
    }

    #[test]
    fn paths_in_a_file_are_relative_to_it() {
        let settings = load("[client]\nkey = 'client.key'\n", Global::default()).unwrap();
        assert!(settings.key.value.unwrap().is_absolute());
    }
}
