//! Makes clients from settings, and CLI errors from library errors.

use std::path::Path;

use braid_client::{Client, Config, Credential, Error};
use braid_net::TlsPolicy;
use braid_types::Status;
use braid_wire::message::types::{DistributionHint, IodInfo, IodState, LayoutHint, Placement};

use crate::{
    args::{DistributionArg, LayoutArgs, PlacementArg, TlsArg},
    config::{Settings, Source},
    output::{Exit, Fault, quoted},
};

/// Connects with the identity in the settings.
pub fn client(settings: &Settings) -> Result<Client, Fault> {
    Ok(Client::connect(client_config(settings)?)?)
}

/// How to connect with the identity in the settings.
pub fn client_config(settings: &Settings) -> Result<Config, Fault> {
    let mut config = Config::new(settings.mds.value.clone(), credential(settings)?);
    config.tls = tls(settings.tls.value);
    config.timeout = settings.timeout.value;
    config.client_name = format!("{} ({})", host(), config.client_name);
    Ok(config)
}

fn credential(settings: &Settings) -> Result<Credential, Fault> {
    if let Some(key) = &settings.key.value {
        return Credential::from_key_file(key).map_err(|error| missing_key(settings, key, error));
    }
    if let Some(agent) = &settings.agent.value {
        return Ok(Credential::Agent(agent.clone()));
    }
    Err(Fault::new(
        Exit::Usage,
        "connecting",
        "there is neither a key nor an agent to identify you",
    )
    .hint("--key FILE, or start `braid agent` on this host, or run this where braid.toml is"))
}

/// After `braid init`, the configuration names a key that the administrator has not created yet.
fn missing_key(settings: &Settings, key: &Path, error: Error) -> Fault {
    let fault = Fault::from(error);
    match &settings.key.source {
        Source::File(config) if !key.exists() => {
            let shown = |path: &Path| quoted(&path.display().to_string());
            fault.hint(format!(
                "braid key add client --config {} --out {}",
                shown(config),
                shown(key)
            ))
        }
        _ => fault,
    }
}

/// The TLS policy of an option.
pub fn tls(arg: TlsArg) -> TlsPolicy {
    match arg {
        TlsArg::UnlessLoopback => TlsPolicy::UnlessLoopback,
        TlsArg::Always => TlsPolicy::Always,
        TlsArg::Never => TlsPolicy::Never,
    }
}

/// This host's name, for `braid status`.
pub fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("COMPUTERNAME").ok());
    name.map_or_else(|| "host".to_owned(), |name| name.trim().to_owned())
}

/// A layout hint from options.
pub fn layout_hint(args: &LayoutArgs, client: &Client) -> Result<LayoutHint, Fault> {
    if let Some(count) = args.iod_count {
        let is_there = |iod: &&IodInfo| iod.state != IodState::Removed;
        let iods = client.cluster_map()?.iods.iter().filter(is_there).count();
        if usize::from(count) > iods {
            let why = format!("the cluster has {iods} I/O daemons");
            let hint = format!(
                "--iod-count {iods}, or --parts {count} with several parts of a file on each"
            );
            return Err(Fault::usage(format!("reading --iod-count {count}"), why).hint(hint));
        }
    }
    if !args.strips.is_empty() && args.distribution.is_some_and(|d| d != DistributionArg::Varstrip)
    {
        return Err(Fault::usage("reading --strips", "strips are for --distribution varstrip"));
    }
    let distribution = args.distribution.map(|kind| match kind {
        DistributionArg::SimpleStripe => DistributionHint::SimpleStripe,
        DistributionArg::Single => DistributionHint::Single,
        DistributionArg::Varstrip => DistributionHint::VarStrip,
        DistributionArg::Grouped => DistributionHint::Grouped,
    });
    let placement = args.placement.map(|kind| match kind {
        PlacementArg::RoundRobin => Placement::RoundRobin,
        PlacementArg::FreeSpace => Placement::FreeSpace,
        PlacementArg::Owner => Placement::Owner,
    });
    Ok(LayoutHint {
        distribution: distribution
            .or((!args.strips.is_empty()).then_some(DistributionHint::VarStrip)),
        stripe_bytes: args.stripe_size,
        parts: args.iod_count.or(args.parts),
        first_iod: args.first_iod,
        strips: args.strips.clone(),
        group_width: args.group_width,
        group_depth: args.group_depth,
        placement,
        labels: args.labels.clone(),
    })
}

/// Reads a key file, for daemons.
pub fn key_file(path: &Path) -> Result<braid_client::KeyFile, Fault> {
    Ok(braid_client::KeyFile::load(path)?)
}

/// Advice with options of the command, where the library has only general advice.
fn advice(error: &Error) -> Option<&'static str> {
    let advice = match error.status() {
        Status::Invalid => "the same command with --help",
        Status::NotEmpty => "braid rm -r",
        Status::IsDirectory => "braid ls, or the same command with -r",
        Status::Exists => "another name, or braid rm first",
        Status::QuotaExceeded => "braid quota get with --user, --group or --dir",
        _ => return None,
    };
    error.has_general_hint().then_some(advice)
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let exit = match error.status() {
            Status::NotFound => Exit::NotFound,
            Status::PermissionDenied
            | Status::NotPermitted
            | Status::AuthenticationFailed
            | Status::WrongRole
            | Status::BadCapability
            | Status::Fenced => Exit::Refused,
            Status::Unreachable | Status::ConnectionLost | Status::NotServing => Exit::Unreachable,
            Status::NoSpace | Status::QuotaExceeded | Status::NoIods => Exit::NoSpace,
            Status::Invalid | Status::NameTooLong | Status::Unsupported => Exit::Usage,
            _ => Exit::Failed,
        };
        let text = error.to_string();
        let (said, hint) = text.rsplit_once("; try: ").unwrap_or((&text, error.hint()));
        // `braid status` would use the same wrong address.
        let hint = if said.contains("invalid socket address")
            || said.contains("failed to lookup address")
        {
            "an address HOST:PORT; braid config explain shows its source"
        } else {
            advice(&error).unwrap_or(hint)
        };
        let (what, why) = said.split_once(": ").unwrap_or(("calling the cluster", said));
        Self::new(exit, what, why).hint(hint)
    }
}
