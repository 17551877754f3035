//! `braid.toml`, the one configuration file of clients and daemons. The `braid` command and the C
//! library read it here.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    time::Duration,
};

use braid_net::TlsPolicy;
use serde::{Deserialize, Serialize};

/// The file. Unknown keys are refused, so that a misspelt key is not ignored.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Document {
    /// The cluster.
    pub cluster: ClusterSection,
    /// This host as a client.
    pub client: ClientSection,
    /// This host as metadata server.
    pub mds: MdsSection,
    /// This host as I/O daemon.
    pub iod: IodSection,
    /// This host as NFS gateway.
    #[serde(skip_serializing_if = "NfsSection::is_empty")]
    pub nfs: NfsSection,
    /// This host as SMB gateway.
    #[serde(skip_serializing_if = "SmbSection::is_empty")]
    pub smb: SmbSection,
}

/// `[cluster]`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ClusterSection {
    /// The cluster's UUID; daemons refuse directories of another cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Addresses of the metadata server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mds: Vec<String>,
    /// When connections use TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// `cluster.tls`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tls {
    /// Except when both ends are on this machine.
    UnlessLoopback,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// `[client]`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ClientSection {
    /// Key file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The agent's socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<PathBuf>,
    /// The longest time of a call, such as "30s".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
}

/// `[mds]`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct MdsSection {
    /// The metadata server's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// The addresses at which it listens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listen: Vec<String>,
    /// The addresses announced to clients and I/O daemons, if different from `listen`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advertise: Vec<String>,
    /// The server key file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_key: Option<PathBuf>,
    /// The address of the Prometheus metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
}

/// `[iod]`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct IodSection {
    /// The I/O daemon's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// The addresses at which it listens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listen: Vec<String>,
    /// The addresses announced to clients, if different from `listen`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advertise: Vec<String>,
    /// The addresses at which it serves NFS clients with layouts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nfs_listen: Vec<String>,
    /// The addresses announced to NFS clients, if different from `nfs-listen`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nfs_advertise: Vec<String>,
    /// Labels for placement.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The server key file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_key: Option<PathBuf>,
    /// The address of the Prometheus metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
}

/// `[nfs]`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct NfsSection {
    /// The addresses at which it listens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listen: Vec<String>,
    /// The name of the server for its clients, unique in the cluster; if unset, the host's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How long a client may be silent before others can take its locks, such as `60s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// The keytab with the key of `nfs/HOST`, for exports with Kerberos; if unset,
    /// `/etc/krb5.keytab`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keytab: Option<PathBuf>,
    /// The only principal of the keytab that clients may use; if unset, all of `nfs/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The server's certificate for RPC-over-TLS and those between it and its CA, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    /// The certificates of the CAs whose clients are known (`mtls`), in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_client_ca: Option<PathBuf>,
    /// Whether clients get delegations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegations: Option<bool>,
    /// The domain of user and group names, such as `example.org`; if unset, clients get numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The exported directories: nothing else is exported.
    #[serde(rename = "export", skip_serializing_if = "Vec::is_empty")]
    pub exports: Vec<NfsExport>,
}

impl NfsSection {
    /// Whether nothing is set.
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// `[[nfs.export]]`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NfsExport {
    /// The directory.
    pub path: String,
    /// Addresses that may use it: `10.1.0.0/16`, `fd00::/8`, or `*` for all.
    pub clients: Vec<String>,
    /// Security flavours, best first: `krb5p`, `krb5i`, `krb5`, `sys`.
    pub security: Vec<String>,
    /// Whether nothing may be changed through it.
    #[serde(default)]
    pub read_only: bool,
    /// Which users act as the anonymous user: `root` (if unset), `all` or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub squash: Option<String>,
    /// The user id of the anonymous user; 65534 if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anonymous_uid: Option<u32>,
    /// The group id of the anonymous user; 65534 if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anonymous_gid: Option<u32>,
    /// Transport layer security that clients may use: `none`, `tls`, `mtls`; all if it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub xprtsec: Vec<String>,
    /// Whether clients get layouts, and reach the I/O daemons directly, where nothing is encrypted.
    /// If unset, only clients that use neither Kerberos nor TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pnfs: Option<bool>,
    /// Files of fewer bytes are read and written through the gateway; 65536 if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pnfs_threshold: Option<u64>,
}

/// `[smb]`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SmbSection {
    /// The addresses at which it listens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listen: Vec<String>,
    /// The file with the users and the hashes of their passwords; if unset,
    /// `/etc/braid/smb-users`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users_file: Option<PathBuf>,
    /// The name of the server for its clients, at most 15 characters; if unset, the host's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The workgroup; `WORKGROUP` if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workgroup: Option<String>,
    /// Whether clients must sign.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub require_signing: bool,
    /// The gateways with the same shares, this one among them, as clients name them: `HOST` or
    /// `HOST:PORT`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<String>,
    /// The shared directories: nothing else is shared.
    #[serde(rename = "share", skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<SmbShare>,
}

impl SmbSection {
    /// Whether nothing is set.
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// `[[smb.share]]`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SmbShare {
    /// Its name for clients.
    pub name: String,
    /// The directory.
    pub path: String,
    /// A remark that clients show.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// Users and `@groups` of the host that may use it; all users of the users file if it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Whether nothing may be changed through it.
    #[serde(default)]
    pub read_only: bool,
    /// Whether it can be used without a password, as the anonymous user.
    #[serde(default)]
    pub guest: bool,
    /// Whether lists of shares leave it out.
    #[serde(default)]
    pub hidden: bool,
    /// Whether its requests must be encrypted.
    #[serde(default)]
    pub encrypt: bool,
}

/// Why a configuration file could not be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// It could not be read.
    Io(io::Error),
    /// It is invalid: `line N: ` and the reason.
    Wrong(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Wrong(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ReadError {}

impl Document {
    /// Reads a file. Relative paths in it are relative to its own directory.
    ///
    /// # Errors
    /// [`ReadError::Io`] with the error of the system; [`ReadError::Wrong`] for invalid TOML, an
    /// unknown key, or a value of a wrong type.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let text = std::fs::read_to_string(path).map_err(ReadError::Io)?;
        Self::parse(&text, path.parent().unwrap_or(Path::new(""))).map_err(ReadError::Wrong)
    }

    /// Parses a text. Relative paths in it are relative to `base`.
    ///
    /// ```
    /// use braid_client::settings::Document;
    /// let text = "[client]\nkey = 'client.key'\n";
    /// let document = Document::parse(text, "/etc/braid".as_ref()).unwrap();
    /// assert_eq!(document.client.key.unwrap(), std::path::Path::new("/etc/braid/client.key"));
    /// let wrong = Document::parse("[cluster]\nmsd = ['a:1']\n", "".as_ref()).unwrap_err();
    /// assert!(wrong.starts_with("line 2: unknown field `msd`"));
    /// ```
    ///
    /// # Errors
    /// The line and the reason why it is invalid.
    pub fn parse(text: &str, base: &Path) -> Result<Self, String> {
        let mut document: Self = toml::from_str(text).map_err(|error| at_line(text, &error))?;
        document.timeout()?;
        let Self { client, mds, iod, nfs, smb, .. } = &mut document;
        let paths = [
            &mut client.key,
            &mut client.agent,
            &mut mds.dir,
            &mut mds.server_key,
            &mut iod.dir,
            &mut iod.server_key,
            &mut nfs.keytab,
            &mut nfs.tls_cert,
            &mut nfs.tls_key,
            &mut nfs.tls_client_ca,
            &mut smb.users_file,
        ];
        for path in paths.into_iter().flatten() {
            *path = base.join(&*path);
        }
        Ok(document)
    }

    /// The text of a file with these settings.
    ///
    /// # Errors
    /// A path that is not valid UTF-8.
    pub fn to_text(&self) -> Result<String, String> {
        toml::to_string(self).map_err(|error| error.to_string())
    }

    /// The value of `client.timeout`.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub fn timeout(&self) -> Result<Option<Duration>, String> {
        let read = |text| super::duration(text).map_err(|why| format!("client.timeout: {why}"));
        self.client.timeout.as_deref().map(read).transpose()
    }
}

impl From<Tls> for TlsPolicy {
    fn from(tls: Tls) -> Self {
        match tls {
            Tls::UnlessLoopback => Self::UnlessLoopback,
            Tls::Always => Self::Always,
            Tls::Never => Self::Never,
        }
    }
}

/// The error in one line.
fn at_line(text: &str, error: &toml::de::Error) -> String {
    let why = error.message().replace('\n', " ");
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {why}", before.matches('\n').count() + 1),
        None => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        Document::parse(text, Path::new("")).unwrap_err()
    }

    #[test]
    fn every_section_is_read_and_its_paths_are_relative_to_the_file() {
        let text = "[cluster]\nuuid = 'x'\nmds = ['a:1', 'b:2']\ntls = 'always'\n\
                    [client]\nkey = 'keys/client.key'\n\
                    timeout = '5s'\n[mds]\ndir = 'mds'\n[iod]\nserver-key = '/abs.key'\n\
                    [nfs]\nkeytab = 'nfs.keytab'\ntls-key = 'tls.key'\n\
                    [smb]\nusers-file = 'users'\ngateways = ['a', 'b:4450']\n\
                    [[smb.share]]\nname = 'a'\npath = '/'\n";
        let read = Document::parse(text, Path::new("/etc/braid")).unwrap();
        assert_eq!((read.cluster.mds.len(), read.cluster.tls), (2, Some(Tls::Always)));
        assert_eq!(read.client.key.as_deref(), Some(Path::new("/etc/braid/keys/client.key")));
        assert_eq!(read.mds.dir.as_deref(), Some(Path::new("/etc/braid/mds")));
        assert_eq!(read.iod.server_key.as_deref(), Some(Path::new("/abs.key")));
        let [keytab, key] = [&read.nfs.keytab, &read.nfs.tls_key].map(|path| path.as_deref());
        assert_eq!(keytab, Some(Path::new("/etc/braid/nfs.keytab")));
        assert_eq!(key, Some(Path::new("/etc/braid/tls.key")));
        let share = SmbShare { name: "a".into(), path: "/".into(), ..SmbShare::default() };
        assert_eq!(read.smb.users_file.as_deref(), Some(Path::new("/etc/braid/users")));
        assert_eq!(read.smb.shares, [share]);
        assert_eq!(read.smb.gateways, ["a", "b:4450"]);
        assert_eq!(read.timeout(), Ok(Some(Duration::from_secs(5))));
        let again = Document::parse(&read.to_text().unwrap(), Path::new("/elsewhere")).unwrap();
        assert_eq!((again.client.key, again.smb), (read.client.key, read.smb));
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_name_and_line_wherever_it_is() {
        let why = wrong("# mine\n\n[cluster]\nmds = ['a:1']\nmsd = ['a:1']\n");
        assert!(
            why.starts_with("line 5: unknown field `msd`, expected one of `uuid`, `mds`, `tls`"),
            "{why}"
        );
        for (text, line, key) in [
            ("[client]\ntimout = '5s'\n", 2, "timout"),
            ("[mds]\nlabels = ['rack=1']\n", 2, "labels"),
            ("\n[iod]\n\nserver_key = 'x'\n", 4, "server_key"),
            ("[smb]\n[[smb.share]]\nname = 'a'\npath = '/'\nguests = true\n", 5, "guests"),
            ("[cilent]\nkey = 'x'\n", 1, "cilent"),
        ] {
            let why = wrong(text);
            assert!(why.starts_with(&format!("line {line}: unknown field `{key}`")), "{why}");
        }
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for text in [
            "[cluster]\nmds = 'a:1'",
            "[cluster]\ntls = 'perhaps'",
            "[client]\nkey = 7",
            "[client",
            "[client]\nkey = 'a\n",
        ] {
            let why = wrong(text);
            assert!(why.starts_with("line ") && !why.contains('\n'), "{why}");
        }
        assert!(wrong("[client]\ntimeout = '1h'").contains("client.timeout: '1h'"));
    }
}
