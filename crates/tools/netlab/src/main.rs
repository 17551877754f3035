//! `cargo xtask netlab [OPTIONS] run CMD...`: runs a cluster in a lab, and a command on its first
//! client.

use std::{path::PathBuf, process::ExitCode, thread};

use anyhow::{Context, Result};
use braid_netlab::{Control, Delay, Event, Lab, Spec, parse_bytes, parse_rate, request};
use braid_testbed::braid::Braid;
use clap::{Parser, Subcommand};

/// Run a cluster of hosts on one machine, and a command on its first client
///
/// Each host is a network namespace with interfaces of the given rate on one switch. The metadata
/// server and every I/O daemon have a host of their own. The environment of the command names the
/// cluster, so `braid ls /` works. Everything is removed at the end. Needs root.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask netlab", max_term_width = 100)]
struct Args {
    /// Number of I/O daemons, each on its own host
    #[arg(long, default_value_t = 4)]
    iods: usize,
    /// Number of client hosts; reach the others with `ip netns`
    #[arg(long, default_value_t = 1)]
    clients: usize,
    /// Line rate of every interface, as Ethernet counts it: 1gbit, 100mbit
    #[arg(long, default_value = "1gbit", value_parser = parse_rate)]
    rate: u64,
    /// Line rate of the clients' interfaces, if it differs
    #[arg(long, value_parser = parse_rate)]
    client_rate: Option<u64>,
    /// Run the same cluster this many times slower: rates are divided by it, but segments and
    /// bursts keep the size of the full rates
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    slowed: u64,
    /// Queue of each switch port to its host
    #[arg(long, default_value = "128KiB", value_parser = parse_bytes)]
    queue: u64,
    /// Number of interfaces of each I/O daemon's host
    #[arg(long, default_value_t = 1)]
    cards: usize,
    /// Delay each byte of an I/O daemon by this time in each direction, through a relay: iod2=5ms
    #[arg(long, value_name = "HOST=TIME")]
    delay: Vec<Delay>,
    /// Fraction of packets that the switch drops: 0.001
    #[arg(long, default_value_t = 0.0)]
    loss: f64,
    /// TCP congestion control of the hosts [default: that of the machine]
    #[arg(long)]
    congestion: Option<String>,
    /// Encrypt connections
    #[arg(long)]
    tls: bool,
    /// Directory for the daemons' data, removed at the end [default: the system's temporary
    /// directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run a command on the first client
    Run {
        /// The command and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Run a shell on the first client
    Shell,
    /// In a lab: partition this host; the switch drops all its packets
    Partition(EventArgs),
    /// In a lab: end the partition of this host
    Heal(EventArgs),
    /// In a lab: kill the daemon of this host
    Kill(EventArgs),
    /// In a lab: stop the daemon of this host, with its connections open
    Stop(EventArgs),
    /// In a lab: continue the stopped daemon of this host
    Resume(EventArgs),
    /// In a lab: start the daemon of a dead host again
    Restart(EventArgs),
}

#[derive(clap::Args, Debug)]
struct EventArgs {
    /// Name of the host: mds, iod0, client0 and so on
    host: String,
}

fn main() -> ExitCode {
    run(Args::parse()).unwrap_or_else(|error| {
        eprintln!("netlab: {error:#}");
        ExitCode::from(2)
    })
}

fn run(args: Args) -> Result<ExitCode> {
    let words = match args.command {
        Command::Run { command } => Some(command),
        Command::Shell => None,
        Command::Partition(to) => return happens(Event::Partition, &to),
        Command::Heal(to) => return happens(Event::Heal, &to),
        Command::Kill(to) => return happens(Event::Kill, &to),
        Command::Stop(to) => return happens(Event::Stop, &to),
        Command::Resume(to) => return happens(Event::Resume, &to),
        Command::Restart(to) => return happens(Event::Restart, &to),
    };
    let spec = Spec {
        iods: args.iods,
        clients: args.clients,
        rate: args.rate / args.slowed,
        client_rate: args.client_rate.map(|rate| rate / args.slowed),
        slowed: args.slowed,
        queue: args.queue,
        cards: args.cards,
        delays: args.delay,
        loss: args.loss,
        congestion: args.congestion,
        tls: args.tls,
        nfs: false,
        dir: args.dir,
    };
    spec.check()?;
    braid_netlab::check_requirements()?;
    let braid = Braid::find()?;
    let mut lab = Lab::start(&braid, &spec)?;
    let host = lab.client_host(0)?.clone();
    eprintln!(
        "netlab: {} I/O daemons, {} clients; this is {}",
        spec.iods, spec.clients, host.namespace
    );
    let words = words.unwrap_or_else(|| {
        for host in lab.network().hosts() {
            eprintln!("  {:10} {}", host.name, host.addresses.join(" "));
        }
        let data = lab.dir().display();
        eprintln!("  another host: nsenter --net=/run/netns/NAME (NAMES: ip netns); data: {data}");
        eprintln!("  faults: braid-netlab partition HOST, heal, kill, stop, resume, restart");
        vec![std::env::var("SHELL").unwrap_or_else(|_| "sh".to_owned())]
    });
    let control = Control::new(&lab)?;
    let mut command = host.command(&words[0]);
    command
        .args(&words[1..])
        .envs(lab.environment())
        .envs([control.variable()])
        .env("PATH", with_braid(&braid)?);
    let mut child = command.spawn().with_context(|| format!("starting {}", words[0]))?;
    let status = thread::scope(|scope| {
        scope.spawn(|| control.serve(&mut lab));
        let status = child.wait();
        control.end();
        status
    })?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}

fn happens(event: Event, to: &EventArgs) -> Result<ExitCode> {
    request(event, &to.host).map(|()| ExitCode::SUCCESS)
}

/// The PATH with which the command finds `braid` and this program.
fn with_braid(braid: &Braid) -> Result<std::ffi::OsString> {
    let own = [braid.path().to_owned(), std::env::current_exe()?];
    let dirs = own.iter().filter_map(|binary| binary.parent()).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths(dirs.chain(std::env::split_paths(&path)))?)
}
