//! Transport layer security that an export requires: `xprtsec=` of exports(5).

use std::str::FromStr;

use super::ConfigError;

/// How the bytes of a connection are protected. Each is stronger than those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Transport {
    /// `none`: not at all.
    Plain,
    /// `tls`: RPC-over-TLS, by a client without a certificate.
    Tls,
    /// `mtls`: RPC-over-TLS, by a client with a certificate that the server trusts.
    MutualTls,
}

impl Transport {
    /// The word of exports(5).
    pub fn keyword(self) -> &'static str {
        match self {
            Self::Plain => "none",
            Self::Tls => "tls",
            Self::MutualTls => "mtls",
        }
    }

    /// Whether an export that names these modes may be used over this connection. Other than with
    /// Linux's server, `tls` allows clients with a certificate too: a client that proves more is
    /// not refused.
    pub fn is_allowed_by(self, modes: &[Self]) -> bool {
        modes.contains(&self) || self == Self::MutualTls && modes.contains(&Self::Tls)
    }
}

impl FromStr for Transport {
    type Err = ConfigError;
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Ok(match text {
            "none" => Self::Plain,
            "tls" => Self::Tls,
            "mtls" => Self::MutualTls,
            _ => return Err(ConfigError::Transport(text.into())),
        })
    }
}
