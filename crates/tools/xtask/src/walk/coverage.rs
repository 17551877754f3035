//! What `llvm-profdata` and `llvm-cov` print about a program with counters.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, de::IgnoredAny};

use crate::context::Context;
use braid_testbed::process::Process;

/// A file of counters, as the program writes it.
const RAW: &str = "profraw";

/// A line and a column, from 1.
pub type Position = (u64, u64);

/// Where one symbol of the program stands in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The mangled name.
    pub symbol: String,
    /// Its file.
    pub file: String,
    /// Where it begins.
    pub start: Position,
    /// Where it ends.
    pub end: Position,
}

/// The tools of the compiler that built the program: each version has a format of its own.
pub struct Tools {
    /// What the compiler builds for.
    pub host: String,
    profdata: PathBuf,
    cov: PathBuf,
}

impl Tools {
    /// Finds them beside the compiler, or says how to install them.
    pub fn find(context: &Context) -> Result<Self> {
        let rustc = |args: &[&str]| Process::new("rustc").args(args).dir(&context.root).run();
        let version = rustc(&["-vV"])?.stdout;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.context("rustc -vV names no host")?.to_owned();
        let root = PathBuf::from(rustc(&["--print", "sysroot"])?.stdout.trim());
        let folder = root.join("lib/rustlib").join(&host).join("bin");
        let tools =
            Self { host, profdata: folder.join("llvm-profdata"), cov: folder.join("llvm-cov") };
        let there = tools.profdata.is_file() && tools.cov.is_file();
        ensure!(there, "llvm-cov is missing; try: rustup component add llvm-tools");
        Ok(tools)
    }

    /// Where each symbol of the program stands, whether it was executed or not.
    pub fn records(&self, program: &Path, captures: &Path) -> Result<Vec<Record>> {
        let merged = captures.join("all.profdata");
        let raw = files(captures, "")?;
        let merge = Process::new(&self.profdata).args(["merge", "--sparse", "-o"]);
        merge.args([&merged]).args(&raw).run()?;
        let export = Process::new(&self.cov).args([
            "export".as_ref(),
            "--format=text".as_ref(),
            "--skip-expansions".as_ref(),
            "--instr-profile".as_ref(),
            merged.as_os_str(),
            program.as_os_str(),
        ]);
        parse_records(&export.run()?.stdout)
    }

    /// The symbols that one capture has: those with any counter above 0. The entry alone does not
    /// say it, since a loop that runs since before the capture enters its function no more.
    pub fn executed(&self, capture: &Path) -> Result<Vec<String>> {
        let show = ["show", "--all-functions", "--counts"];
        let finished = Process::new(&self.profdata).args(show).args([capture]).run()?;
        Ok(parse_executed(&finished.stdout))
    }
}

/// The files of counters in this directory whose names begin so, in order.
pub fn files(dir: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let named = path.file_name().and_then(|name| name.to_str());
        if named.is_some_and(|name| name.starts_with(prefix))
            && path.extension().is_some_and(|extension| extension == RAW)
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[derive(Deserialize)]
struct Export {
    data: Vec<ExportData>,
}

#[derive(Deserialize)]
struct ExportData {
    functions: Vec<ExportFunction>,
}

#[derive(Deserialize)]
struct ExportFunction {
    name: String,
    filenames: Vec<String>,
    regions: Vec<ExportRegion>,
}

/// Line and column of the start and of the end, count, file, expanded file, kind.
#[derive(Deserialize)]
struct ExportRegion(u64, u64, u64, u64, IgnoredAny, usize, IgnoredAny, IgnoredAny);

/// The text form of `llvm-cov export`, which is JSON.
fn parse_records(json: &str) -> Result<Vec<Record>> {
    let export: Export = serde_json::from_str(json).context("the output of llvm-cov export")?;
    let functions = export.data.into_iter().flat_map(|data| data.functions);
    Ok(functions.filter_map(ExportFunction::record).collect())
}

impl ExportFunction {
    /// Of the regions in the file in which it begins.
    fn record(self) -> Option<Record> {
        let file_of = |region: &ExportRegion| region.5;
        let first = file_of(self.regions.first()?);
        let regions = || self.regions.iter().filter(|region| file_of(region) == first);
        Some(Record {
            start: regions().map(|region| (region.0, region.1)).min()?,
            end: regions().map(|region| (region.2, region.3)).max()?,
            file: self.filenames.get(first)?.clone(),
            symbol: self.name,
        })
    }
}

/// The output of `llvm-profdata show --all-functions --counts`.
fn parse_executed(text: &str) -> Vec<String> {
    let (mut executed, mut symbol) = (Vec::<String>::new(), "");
    for line in text.lines() {
        let name = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '));
        if let Some(name) = name.and_then(|name| name.strip_suffix(':')) {
            symbol = name;
        }
        let counts = line.trim_start();
        let counts = counts
            .strip_prefix("Function count: ")
            .or_else(|| counts.strip_prefix("Block counts: "));
        let mut counts = counts.unwrap_or_default().split([',', ' ', '[', ']']);
        let any = counts.any(|count| count.parse::<u64>().is_ok_and(|count| count > 0));
        if any && executed.last().is_none_or(|last| last != symbol) {
            executed.push(symbol.to_owned());
        }
    }
    executed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_with_any_counter_above_zero_is_executed() {
        let text = "Counters:
  _RNvCs1_1a4read:
    Hash: 0x1408bfe785cbf8b0
    Counters: 2
    Function count: 1
    Block counts: [3]
  _RNvCs1_1a5never:
    Hash: 0x56de31738fe99d5f
    Counters: 3
    Function count: 0
    Block counts: [0, 0]
  _RNvCs1_1a5serve:
    Hash: 0x56de31738fe99d5f
    Counters: 3
    Function count: 0
    Block counts: [0, 12]
Instrumentation level: Front-end
Functions shown: 3
";
        assert_eq!(parse_executed(text), ["_RNvCs1_1a4read", "_RNvCs1_1a5serve"]);
    }

    #[test]
    fn a_record_spans_the_regions_of_its_own_file() {
        let json = r#"{"type": "llvm.coverage.json.export", "version": "2.0.1", "data": [{
            "files": [], "totals": {},
            "functions": [
                {"name": "_RNvCs1_1a4read", "count": 1, "branches": [],
                 "filenames": ["/w/crates/a/src/lib.rs", "/w/crates/a/src/macros.rs"],
                 "regions": [[6, 1, 6, 27, 1, 0, 0, 0], [99, 1, 99, 9, 1, 1, 0, 0],
                             [8, 5, 8, 7, 18446744073709551615, 0, 0, 0],
                             [7, 5, 7, 30, 1, 0, 0, 0]]},
                {"name": "_RNvCs1_1a5empty", "count": 0, "filenames": ["a"], "regions": []}
            ]}]}"#;
        let wanted = Record {
            symbol: "_RNvCs1_1a4read".to_owned(),
            file: "/w/crates/a/src/lib.rs".to_owned(),
            start: (6, 1),
            end: (8, 7),
        };
        assert_eq!(parse_records(json).unwrap(), [wanted]);
    }

    #[test]
    fn only_counters_with_the_prefix_are_found_in_order() {
        let names = ["client.read.1.profraw", "client.read.0.profraw", "client.read.all.profdata"];
        let dir = std::env::temp_dir().join(format!("walk-files-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        names.iter().for_each(|name| fs::write(dir.join(name), "").unwrap());
        let found = files(&dir, "client.read.").unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(found, [dir.join(names[1]), dir.join(names[0])]);
    }
}
