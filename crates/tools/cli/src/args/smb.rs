//! Arguments of `braid smb`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `braid smb`.
#[derive(Args, Debug, Clone, Default)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SmbArgs {
    /// A command about the users.
    #[command(subcommand)]
    pub command: Option<SmbCommand>,
    /// Address to listen on, HOST:PORT [default: 0.0.0.0:445]
    #[arg(long, value_delimiter = ',', value_name = "ADDR")]
    pub listen: Vec<String>,
    /// A directory to share, NAME=PATH[,OPTION...], instead of those in braid.toml (can be
    /// repeated)
    #[arg(long, value_name = "SHARE")]
    pub share: Vec<String>,
    /// Users file [default: /etc/braid/smb-users]
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,
    /// Refuse clients that do not sign
    #[arg(long)]
    pub require_signing: bool,
}

/// Commands of `braid smb`.
#[derive(Subcommand, Debug, Clone)]
pub enum SmbCommand {
    /// Add, remove and list the users that may log on
    #[command(subcommand, after_help = super::SMB_USER_EXAMPLES)]
    User(SmbUserCommand),
}

/// `braid smb user`.
#[derive(Subcommand, Debug, Clone)]
pub enum SmbUserCommand {
    /// Add a user, or change the password of one; running gateways see it immediately
    Add {
        /// The name of a user of this host
        name: String,
        /// Read the password from the first line of standard input
        #[arg(long)]
        password_stdin: bool,
        /// The users file.
        #[command(flatten)]
        file: SmbUsersFileArgs,
    },
    /// Remove a user; sessions that have begun go on until the client ends them
    Remove {
        /// The name
        name: String,
        /// The users file.
        #[command(flatten)]
        file: SmbUsersFileArgs,
    },
    /// List the users, and which users of this host they are
    List {
        /// The users file.
        #[command(flatten)]
        file: SmbUsersFileArgs,
    },
}

/// The users file of a command.
#[derive(Args, Debug, Clone, Default)]
pub struct SmbUsersFileArgs {
    /// Users file [default: that of braid.toml, or /etc/braid/smb-users]
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,
}
