//! The `braid` command: all daemons, the embedded cluster, and the tools for users and
//! administrators.

mod admin;
mod args;
mod commands;
mod config;
mod connect;
mod embedded;
mod log;
#[cfg(target_os = "linux")]
mod mount;
mod nfs;
mod output;
mod private_file;
mod servers;
mod smb;
mod transfer;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    args::{Cli, Command, Global},
    config::Settings,
    output::{Fault, Printer},
};

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(code) = mount::watchdog::run(std::env::args_os()) {
        return code;
    }
    #[cfg(target_os = "linux")]
    let Some(arguments) = mount::mount_helper::arguments(std::env::args_os()) else {
        return ExitCode::SUCCESS;
    };
    #[cfg(not(target_os = "linux"))]
    let arguments = std::env::args_os();
    let cli = Cli::try_parse_from(arguments)
        .unwrap_or_else(|error| args::without_environment_flags(error).exit());
    let out = Printer { json: cli.global.json, quiet: cli.global.quiet };
    match start_log(&cli.global, &cli.command).and_then(|()| run(cli, out)) {
        Ok(code) => code,
        Err(fault) => fault.report(out.json),
    }
}

fn run(cli: Cli, out: Printer) -> Result<ExitCode, Fault> {
    let global = &cli.global;
    let settings = || Settings::load(global);
    match cli.command {
        Command::Completions { shell } => commands::docs::completions(shell)?,
        Command::Man { dir } => commands::docs::man(dir.as_deref(), out)?,
        Command::Bench(args) => commands::bench::bench(&args, settings, out)?,
        Command::Config(_) => commands::config::explain(&settings()?, out),
        Command::Up(args) => return commands::up::up(&args, global, out),
        Command::Down { dir } => commands::up::down(&dir, out)?,
        Command::Init(args) => commands::init::init(&args, out)?,
        Command::Mds(args) => servers::mds(&args, &settings()?, out)?,
        Command::Iod(args) => match &args.command {
            Some(command) => commands::iod::run(command, &settings()?, out)?,
            None => servers::iod(&args, &settings()?, out)?,
        },
        Command::Nfs(args) => nfs::run(&args, &settings()?, out)?,
        Command::Smb(args) => smb::run(&args, settings, out)?,
        Command::Agent(args) => servers::agent(&args, &settings()?, out)?,
        Command::Key(command) => commands::key::run(&command, &settings()?, out)?,
        Command::Status => commands::status::status(&settings()?, out)?,
        Command::Ls(args) => commands::ls::ls(&args, &settings()?, out)?,
        Command::Stat { paths, no_follow } => {
            commands::stat::stat(&paths, !no_follow, &settings()?, out)?
        }
        Command::Put(args) => transfer::put(&args, &settings()?, out)?,
        Command::Get(args) => transfer::get(&args, &settings()?, out)?,
        Command::Cat { paths } => commands::cat::cat(&paths, &settings()?)?,
        Command::Mkdir { paths, parents, mode } => {
            commands::names::mkdir(&paths, parents, mode, &settings()?, out)?
        }
        Command::Rm { paths, recursive, force } => {
            commands::names::rm(&paths, recursive, force, &settings()?, out)?
        }
        Command::Mv { from, to, no_replace, exchange } => {
            commands::names::mv(&from, &to, no_replace, exchange, &settings()?, out)?;
        }
        Command::Ln { target, link, symbolic } => {
            commands::names::ln(&target, &link, symbolic, &settings()?, out)?
        }
        Command::Cp { paths, recursive, layout } => {
            transfer::cp(&paths, recursive, &layout, &settings()?, out)?
        }
        Command::Du(args) => commands::space::du(&args.paths, &settings()?, out)?,
        Command::Quota(command) => commands::quota::run(&command, &settings()?, out)?,
        Command::Union(command) => return commands::union::run(&command, settings, out),
        Command::Df(_) => commands::space::df(&settings()?, out)?,
        Command::Layout(command) => commands::layout::run(&command, &settings()?, out)?,
        Command::Mount(args) => return commands::mount::mount(&args, global, out),
        Command::Umount(args) => commands::mount::umount(&args, out)?,
        Command::Sync { paths } => commands::sync::sync(&paths, settings, out)?,
        Command::Fsck { affected_by: Some(iod), .. } => {
            commands::fsck::affected_by(iod, &settings()?, out)?
        }
        Command::Fsck { mend, .. } => return commands::fsck::fsck(mend, &settings()?, out),
    }
    Ok(ExitCode::SUCCESS)
}

/// Logs warnings of commands and information of daemons; more with `-v`. A mount in the background
/// has no terminal.
fn start_log(global: &Global, command: &Command) -> Result<(), Fault> {
    let daemon = match command {
        Command::Mds(args) => args.command.is_none(),
        Command::Iod(args) => args.command.is_none(),
        Command::Smb(args) => args.command.is_none(),
        Command::Agent(_) | Command::Nfs(_) | Command::Mount(_) => true,
        Command::Union(args::UnionCommand::Up(_)) => true,
        _ => false,
    };
    let level = match (global.verbose, daemon) {
        (0, false) => "warn",
        (0, true) | (1, _) => "info",
        (2, _) => "debug",
        _ => "trace",
    };
    #[cfg(target_os = "linux")]
    if let Command::Mount(args) = command {
        return match (mount::options::log_file(args), mount::background::is_child()) {
            (Some(path), _) => log::start(log::LogTarget::File(&path), level),
            (None, true) => match mount::options::default_log(args) {
                Some(path) => log::start(log::LogTarget::Bounded(&path), level),
                None => log::start(log::LogTarget::System, level),
            },
            (None, false) => log::start(log::LogTarget::StandardError, level),
        };
    }
    #[cfg(target_os = "linux")]
    let of_union = match command {
        Command::Up(args) => !args.union.is_empty(),
        command => matches!(command, Command::Union(_)),
    };
    if of_union && mount::background::is_child() {
        return log::start(log::LogTarget::System, level);
    }
    log::start(log::LogTarget::StandardError, level)
}
