//! `braid mds salvage|dump|load`: operations on the directory of a metadata server.

use std::{
    fs::{self, File as LocalFile},
    io::{self, BufReader, BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
};

use braid_meta::salvage::{
    SalvageOutcome, Salvaged, load as load_metadata, salvage as salvage_metadata,
};
use braid_types::{Failure, Status, Timestamp};
use serde_json::json;

use crate::{
    args::MdsCommand,
    commands::init::sync_directory,
    config::Settings,
    output::{Exit, Fault, Printer, quoted},
    servers,
};

/// Maximum lines of one kind in the text output; `--json` has them all.
const LINES_MAX: usize = 20;
/// Size of one read or write of a dump, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// Runs one of the commands.
pub fn run(
    command: &MdsCommand,
    dir: &Path,
    settings: &Settings,
    out: Printer,
) -> Result<(), Fault> {
    match command {
        MdsCommand::Salvage => salvage(dir, settings, out),
        MdsCommand::Dump { file } => dump(dir, file, out),
        MdsCommand::Load { file } => load(dir, file, out),
    }
}

fn fault(what: String, failure: Failure) -> Fault {
    let exit = match failure.status {
        Status::NotFound => Exit::NotFound,
        Status::NoSpace => Exit::NoSpace,
        Status::Exists => Exit::Usage,
        _ => Exit::Failed,
    };
    let said = failure.to_string();
    match said.split_once("; try: ") {
        Some((why, hint)) => Fault::new(exit, what, why).hint(hint),
        None => Fault::new(exit, what, said),
    }
}

fn salvage(dir: &Path, settings: &Settings, out: Printer) -> Result<(), Fault> {
    // Needed only if the record that holds it is lost.
    let uuid = servers::cluster(settings).ok();
    let outcome = salvage_metadata(dir, uuid, Timestamp::now());
    let outcome =
        outcome.map_err(|e| fault(format!("salvaging the metadata of {}", dir.display()), e))?;
    let start = format!(
        "braid mds --dir {}    (then: braid fsck --mend)",
        quoted(&dir.display().to_string())
    );
    match outcome {
        SalvageOutcome::Whole if out.json => out.value(&json!({ "damaged": false })),
        SalvageOutcome::Whole => {
            out.line(format!("the metadata of {} is not damaged; nothing changed", dir.display()))
        }
        SalvageOutcome::Ended(kept) if out.json => {
            out.value(&json!({ "damaged": true, "kept": kept, "ended_earlier": true }))
        }
        SalvageOutcome::Ended(kept) => {
            out.line(format!(
                "an interrupted salvage was completed; the damaged files are in {}",
                kept.display()
            ));
            out.next(start);
        }
        SalvageOutcome::Done(salvaged) if out.json => out.value(&facts(&salvaged)),
        SalvageOutcome::Done(salvaged) => {
            print(&salvaged, out);
            out.next(start);
        }
        _ => out.line("salvaged"),
    }
    Ok(())
}

fn facts(salvaged: &Salvaged) -> serde_json::Value {
    let Salvaged { damage, salvaged: taken, repaired, damaged_directory: kept } = salvaged;
    json!({
        "damaged": true, "why": damage, "kept": kept,
        "damage": taken.damage, "lost_batches": taken.lost,
        "batches": taken.batches, "base_records": taken.base_records, "base_lost": taken.base_lost,
        "base_older_copies": taken.base_strays, "names_in_damage": names(salvaged),
        "names_without_a_file": repaired.dangling,
        "names_without_a_file_count": repaired.dangling_count,
        "entries_repaired": repaired.entries, "cluster_record_made": repaired.cluster,
        "root_made": repaired.root,
    })
}

fn names(salvaged: &Salvaged) -> Vec<String> {
    salvaged.salvaged.names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

fn print(salvaged: &Salvaged, out: Printer) {
    let Salvaged { damage, salvaged: taken, repaired, damaged_directory: kept } = salvaged;
    out.line(format!("damaged: {}", damage.split("; try: ").next().unwrap_or(damage)));
    list("damaged", &taken.damage, taken.damage.len() as u64, out);
    let ranges: Vec<_> =
        taken.lost.iter().map(|(first, last)| format!("batches {first} to {last}")).collect();
    list("lost", &ranges, ranges.len() as u64, out);
    if taken.base_lost > 0 {
        let (lost, copies) = (taken.base_lost, taken.base_strays);
        out.line(format!(
            "lost: {lost} records of the base; {copies} copies of them were found, some of them \
             old"
        ));
    }
    let names = names(salvaged);
    list("name in damaged bytes", &names, names.len() as u64, out);
    list("name without a file", &repaired.dangling, repaired.dangling_count, out);
    if repaired.cluster {
        out.line("lost: the record of the cluster, perhaps with client keys and I/O daemons");
    }
    out.line(format!(
        "recovered: {} records of the base, {} batches of the log; {} entries repaired",
        taken.base_records, taken.batches, repaired.entries
    ));
    out.line(format!("the damaged files are in {}, unchanged", kept.display()));
}

fn list(what: &str, lines: &[String], count: u64, out: Printer) {
    lines.iter().take(LINES_MAX).for_each(|line| out.line(format!("{what}: {line}")));
    if count > LINES_MAX as u64 {
        out.line(format!("{what}: {} more    (--json lists more)", count - LINES_MAX as u64));
    }
}

/// Whether a file name stands for standard input or output.
fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}

fn dump(dir: &Path, file: &Path, out: Printer) -> Result<(), Fault> {
    let doing = || format!("dumping the metadata of {}", dir.display());
    let failed = |e: io::Error| Fault::failed(format!("writing {}", file.display()), e);
    if is_standard(file) {
        if io::stdout().is_terminal() {
            return Err(
                Fault::usage(doing(), "stdout is a terminal").hint("a file, or | zstd > FILE")
            );
        }
        let mut to = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
        return braid_meta::dump(dir, &mut to).map(drop).map_err(|e| fault(doing(), e.into()));
    }
    // The file appears under its name only when it is complete.
    let part = PathBuf::from(format!("{}.part", file.display()));
    let mut options = LocalFile::options();
    options.write(true).create(true).truncate(true);
    // A dump contains the names of all users' files.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut to = BufWriter::with_capacity(BUFFER_BYTES, options.open(&part).map_err(failed)?);
    let dumped = braid_meta::dump(dir, &mut to).map_err(|e| fault(doing(), e.into()))?;
    to.flush().and_then(|()| to.get_ref().sync_all()).map_err(failed)?;
    let bytes = to.get_ref().metadata().map_err(failed)?.len();
    fs::rename(&part, file).map_err(failed)?;
    let above =
        file.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_directory(above).map_err(failed)?;
    if out.json {
        out.value(&json!({
            "file": file, "keys": dumped.keys, "bytes": bytes, "sequence": dumped.last_batch.0,
        }));
        return Ok(());
    }
    let (keys, upto) = (dumped.keys, dumped.last_batch.0);
    let to = file.display();
    out.line(format!("{keys} keys, {bytes} bytes, as of batch {upto}, written to {to}"));
    out.next(format!(
        "braid mds load {} --dir NEW    (to restore it)",
        quoted(&file.display().to_string())
    ));
    Ok(())
}

fn load(dir: &Path, file: &Path, out: Printer) -> Result<(), Fault> {
    let mut from: Box<dyn io::Read> = match is_standard(file) {
        true => Box::new(io::stdin().lock()),
        false => {
            let opened = LocalFile::open(file);
            let opened = opened.map_err(|e| {
                Fault::new(Exit::NotFound, format!("reading {}", file.display()), e.to_string())
            });
            Box::new(BufReader::with_capacity(BUFFER_BYTES, opened?))
        }
    };
    let loaded = load_metadata(dir, &mut from, Timestamp::now());
    let loaded = loaded
        .map_err(|e| fault(format!("loading {} into {}", file.display(), dir.display()), e))?;
    if out.json {
        out.value(&json!({ "dir": dir, "keys": loaded.keys }));
        return Ok(());
    }
    out.line(format!("{} keys loaded into {}", loaded.keys, dir.display()));
    let dir = quoted(&dir.display().to_string());
    out.next(format!(
        "braid mds --dir {dir}    (with the braid.toml and the server key of the dump; \
         then: braid fsck --mend)"
    ));
    Ok(())
}
