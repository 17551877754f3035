//! From the captures of `braid-walk` to functions of the source.
//!
//! 1. A function counts when most captures of the operation have it and most idle captures have
//!    not: a heartbeat that falls into a capture, or a wait that happens now and then, is left out.
//! 2. Instances of a generic or macro, and closures and `async` bodies, are the function in whose
//!    text they stand.
//! 3. Nothing else is left out: an accessor of one line counts. What the compiler derives has no
//!    counters and does not count.

pub mod coverage;
pub mod fold;
mod names;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Result, ensure};

use crate::context::Context;
use coverage::{Record, Tools};
use fold::Fold;

/// Where our own source lies; functions elsewhere do not count.
const OURS: &str = "crates/";
/// The program that runs the operations does not count.
const PROGRAM: &str = "crates/tools/";

/// One row of the table.
pub struct Side {
    /// The operation, as the captures are named.
    operation: &'static str,
    /// Whose captures: of the client's process or of the servers'.
    process: &'static str,
    /// Only functions whose file is below one of these; none: all.
    folders: &'static [&'static str],
    /// The operation in words.
    pub what: &'static str,
    /// The side in words.
    pub part: &'static str,
}

/// The operations of the issue, and their sides.
pub const SIDES: [Side; 5] = [
    Side {
        operation: "read",
        process: "client",
        folders: &[],
        what: "4 KiB read by the library",
        part: "client",
    },
    Side {
        operation: "read",
        process: "servers",
        folders: &[],
        what: "4 KiB read by the library",
        part: "I/O daemon",
    },
    Side {
        operation: "create",
        process: "client",
        folders: &[],
        what: "create by the library",
        part: "client",
    },
    Side {
        operation: "create",
        process: "servers",
        folders: &[],
        what: "create by the library",
        part: "servers",
    },
    Side {
        operation: "mount",
        process: "client",
        folders: &["crates/gateway/fuse/", "crates/client/vfs/"],
        what: "4 KiB read on the mount",
        part: "fuse and vfs",
    },
];

/// A function of the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// Relative to the workspace.
    pub file: String,
    /// The line on which it begins.
    pub line: u64,
    /// Its name, with that of its type.
    pub name: String,
    /// Its body has one line at most.
    pub short: bool,
}

/// What one side crosses.
pub struct Counted {
    /// Which side.
    pub side: &'static Side,
    /// In order of files and lines.
    pub functions: BTreeSet<Function>,
}

impl Counted {
    /// How many of the functions have a body of one line at most.
    pub fn short(&self) -> usize {
        self.functions.iter().filter(|function| function.short).count()
    }

    /// How many files.
    pub fn files(&self) -> usize {
        self.functions.iter().map(|function| &function.file).collect::<BTreeSet<_>>().len()
    }
}

/// Which function of the source each symbol of the program is.
pub struct Source {
    functions: BTreeMap<String, Function>,
}

impl Source {
    /// Reads where each symbol begins from the program, and its name from the source there.
    pub fn read(context: &Context, tools: &Tools, program: &Path, captures: &Path) -> Result<Self> {
        let root = format!("{}/", context.root.display());
        let ours = |record: Record| {
            let file = record.file.strip_prefix(&root).unwrap_or(&record.file).to_owned();
            let counts = file.starts_with(OURS) && !file.starts_with(PROGRAM);
            counts.then_some(Record { file, ..record })
        };
        let records: Vec<Record> =
            tools.records(program, captures)?.into_iter().filter_map(ours).collect();
        ensure!(!records.is_empty(), "{}: no function of {OURS} is in it", program.display());
        let fold = Fold::new(&records);
        let mut texts: BTreeMap<String, String> = BTreeMap::new();
        let mut functions = BTreeMap::new();
        for record in &records {
            let line = fold.line(record);
            if !texts.contains_key(&record.file) {
                let text = fs::read_to_string(context.root.join(&record.file))?;
                texts.insert(record.file.clone(), text);
            }
            let text = &texts[&record.file];
            let (name, short) = (names::at(text, line), names::is_short(text, line));
            let function = Function { file: record.file.clone(), line, name, short };
            functions.insert(record.symbol.clone(), function);
        }
        Ok(Self { functions })
    }

    /// What this side crosses, from its captures.
    pub fn count(&self, tools: &Tools, captures: &Path, side: &'static Side) -> Result<Counted> {
        let of = |kind: &str| -> Result<Vec<BTreeSet<Function>>> {
            let prefix = format!("{}.{}.{kind}.", side.process, side.operation);
            let files = coverage::files(captures, &prefix)?;
            ensure!(!files.is_empty(), "{}: no capture {prefix}*", captures.display());
            files.iter().map(|file| Ok(self.functions(&tools.executed(file)?))).collect()
        };
        let (operation, idle) = (of("operation")?, of("idle")?);
        let wanted = |function: &Function| {
            side.folders.is_empty() || side.folders.iter().any(|f| function.file.starts_with(f))
        };
        let functions = fold::in_most(&operation, &idle).into_iter().filter(wanted).collect();
        Ok(Counted { side, functions })
    }

    fn functions(&self, symbols: &[String]) -> BTreeSet<Function> {
        symbols.iter().filter_map(|symbol| self.functions.get(symbol)).cloned().collect()
    }
}
