//! `braid bench`, `braid bench compare`, `braid bench rows`.

use std::{
    fs,
    io::IsTerminal,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use braid_bench_user::{
    BenchError, OPTIONS_DEFAULT, Options, PRESETS, preset_names,
    report::{Progress, Report, compare, html, limit_cells, row_cells},
    row_names, run,
};

use crate::{
    args::{BenchArgs, BenchCommand},
    config::Settings,
    connect,
    output::{Exit, Fault, Printer, quoted},
};

/// Samples of a quick run: the minimum that distinguishes noise from a change.
const QUICK_SAMPLES: usize = 4;
const QUICK_BYTES: u64 = 128 << 20;

/// Runs a measurement or a comparison, or lists the rows.
pub fn bench(
    args: &BenchArgs,
    settings: impl FnOnce() -> Result<Settings, Fault>,
    out: Printer,
) -> Result<(), Fault> {
    match &args.command {
        Some(BenchCommand::Compare { first, second }) => print_comparison(first, second, out),
        Some(BenchCommand::Rows) => {
            rows(out);
            Ok(())
        }
        None => measure(args, &settings()?, out),
    }
}

fn measure(args: &BenchArgs, settings: &Settings, out: Printer) -> Result<(), Fault> {
    let options = options(args);
    let client = connect::client(settings)?;
    let stop = stop_flag()?;
    let shows = out.hints() && std::io::stderr().is_terminal();
    let tell = |progress: Progress<'_>| match progress {
        _ if !shows => {}
        Progress::Now(what) => eprintln!("measuring {what}"),
        Progress::Row(row) => eprintln!("  {}", row_cells(row)[1..].join("  ")),
    };
    let report = run(&client, &options, &connect::host(), &stop, &tell)
        .map_err(|error| fault(error, &options))?;
    if let Some(path) = &args.save {
        write(path, &report.to_json())?;
    }
    if let Some(path) = &args.html {
        write(path, &html(&report))?;
    }
    if out.json {
        out.value(&report);
        return Ok(());
    }
    print(&report, out);
    match &args.save {
        Some(path) => {
            out.next(format!(
                "braid bench compare {} LATER.json    (to compare after a change)",
                quoted(&path.to_string_lossy())
            ));
        }
        None => {
            out.next("braid bench --save NOW.json --html NOW.html    (to compare after a change)")
        }
    }
    Ok(())
}

fn options(args: &BenchArgs) -> Options {
    let quick = args.quick;
    Options {
        row_time: args.seconds,
        samples: args.samples.unwrap_or(if quick {
            QUICK_SAMPLES
        } else {
            OPTIONS_DEFAULT.samples
        }),
        bytes_max: args.size.unwrap_or(if quick { QUICK_BYTES } else { OPTIONS_DEFAULT.bytes_max }),
        tasks: args.tasks,
        only: args.only.clone(),
        preset: args.preset.clone(),
        quick,
        at: args.at.clone(),
    }
}

/// A flag that SIGINT and SIGTERM set; the run then removes its files. A second signal ends the
/// process immediately.
fn stop_flag() -> Result<Arc<AtomicBool>, Fault> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let handler = move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        eprintln!("stopping, and removing the files of this run");
    };
    ctrlc::set_handler(handler).map_err(|error| Fault::failed("waiting for signals", error))?;
    Ok(stop)
}

fn fault(error: BenchError, options: &Options) -> Fault {
    let what = "measuring the cluster";
    match error {
        BenchError::Call(error) => error.into(),
        BenchError::Down { .. } => {
            Fault::new(Exit::Unreachable, what, error.to_string()).hint("braid status")
        }
        BenchError::NoIods => {
            Fault::new(Exit::NoSpace, what, error.to_string()).hint("braid iod --dir DISK --init")
        }
        BenchError::TooMuch { .. } => {
            Fault::new(Exit::NoSpace, what, error.to_string()).hint("braid df")
        }
        BenchError::Usage(_) => Fault::usage(what, error.to_string()).hint("braid bench rows"),
        BenchError::Interrupted => {
            Fault::failed(what, error).hint("braid bench --quick, which takes less than a minute")
        }
        BenchError::WrongData { .. } => Fault::failed(what, error).hint("braid fsck"),
        other => Fault::failed(what, other).hint(format!("braid ls {}", quoted(&options.at))),
    }
}

fn print(report: &Report, out: Printer) {
    out.line(report.conditions());
    out.line("");
    out.table(
        &["ROW", "MEDIAN", "SPREAD", "IS", "OF LIMIT"],
        &report.rows.iter().map(row_cells).collect::<Vec<_>>(),
    );
    out.line("");
    out.table(
        &["LIMIT", "MEDIAN", "SPREAD"],
        &report.limits.iter().map(limit_cells).collect::<Vec<_>>(),
    );
    for path in &report.leftovers {
        let remove = format!("braid rm -r {}", quoted(path));
        out.hint(format!("{path} belongs to another run. If that run has ended: {remove}"));
    }
}

fn print_comparison(first: &Path, second: &Path, out: Printer) -> Result<(), Fault> {
    let compared = compare(&read(first)?, &read(second)?);
    if out.json {
        out.value(&compared);
        return Ok(());
    }
    let rows: Vec<_> = compared.iter().map(braid_bench_user::report::Comparison::cells).collect();
    out.table(&["WHAT", "FIRST", "SPREAD", "SECOND", "SPREAD", "VERDICT"], &rows);
    out.next(format!(
        "braid bench --save LATER.json    (to compare with {})",
        quoted(&second.to_string_lossy())
    ));
    Ok(())
}

fn rows(out: Printer) {
    if out.json {
        out.value(&serde_json::json!({ "rows": row_names(), "presets": preset_names() }));
        return;
    }
    row_names().iter().for_each(|name| out.line(name));
    out.line("");
    let presets: Vec<_> = PRESETS
        .iter()
        .map(|(name, _, what)| vec![(*name).to_owned(), (*what).to_owned()])
        .collect();
    out.table(&["PRESET", "WHAT"], &presets);
    out.next("braid bench --only ROW,ROW");
}

fn read(path: &Path) -> Result<Report, Fault> {
    let what = format!("reading {}", path.display());
    let text = fs::read_to_string(path).map_err(|error| {
        let exit = if error.kind() == std::io::ErrorKind::NotFound {
            Exit::NotFound
        } else {
            Exit::Failed
        };
        Fault::new(exit, what.as_str(), error.to_string()).hint("braid bench --save FILE")
    })?;
    Report::from_json(&text).map_err(|why| Fault::usage(what, why).hint("braid bench --save FILE"))
}

fn write(path: &Path, text: &str) -> Result<(), Fault> {
    fs::write(path, text).map_err(|error| {
        Fault::failed(format!("writing {}", path.display()), error)
            .hint("a directory where you may write")
    })
}
