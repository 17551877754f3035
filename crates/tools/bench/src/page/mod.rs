//! `docs/results/NAME.md` and `docs/plots/*.svg`: generated from `docs/NAME.json` alone.
//!
//! ```text
//!   bench core|parallel|mount --keep FILE, papers|growth --json FILE ──► docs/NAME.json
//!       docs/NAME.json ── bench tables ──► docs/results/NAME.md, docs/plots/*.svg
//! ```
//!
//! `docs/performance.md` and `docs/results/NAME-notes.md` are written by hand and explain the
//! tables.
//!
//! A test generates tables and plots again and compares them with the files. It finds figures that
//! were changed by hand, and stored results that are not shown.

mod mount;
pub mod mount_plots;
mod plain;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value as Json};

use crate::{args::TablesArgs, growth, nfs, papers, parallel, rows, smb, union};

const RESULTS: &str = "docs/results";
const PLOTS: &str = "docs/plots";
/// The directory of the plots, relative to a page of tables.
pub const PLOTS_FROM_RESULTS: &str = "../plots";
/// Lines of text end here; those of tables cannot be broken.
const COLUMNS: usize = 100;

/// Rows of a file, by name.
pub type StoredResults = Map<String, Json>;
/// A plot's name and its text.
pub type Plot = (String, String);

/// One page of tables, generated from one file.
pub struct Section {
    /// The page is `docs/results/NAME.md`, its file `docs/NAME.json`.
    name: &'static str,
    title: &'static str,
    render: fn(&StoredResults) -> String,
    plots: fn(&StoredResults) -> Vec<Plot>,
}

const SECTIONS: &[Section] = &[
    Section {
        name: "core",
        title: "One cluster on one machine: tables",
        render: |kept| plain::render("core", rows::ROWS, kept),
        plots: |_| Vec::new(),
    },
    Section {
        name: "parallel",
        title: "Programs of several tasks: tables",
        render: |kept| plain::render("parallel", parallel::ROWS, kept),
        plots: |_| Vec::new(),
    },
    Section {
        name: "nfs",
        title: "NFSv4.1 and pNFS: tables",
        render: |kept| plain::render("nfs", nfs::ROWS, kept),
        plots: |_| Vec::new(),
    },
    Section {
        name: "smb",
        title: "SMB: tables",
        render: |kept| plain::render("smb", smb::ROWS, kept),
        plots: |_| Vec::new(),
    },
    Section {
        name: "union",
        title: "A union of local disks: tables",
        render: |kept| plain::render("union", union::ROWS, kept),
        plots: |_| Vec::new(),
    },
    Section {
        name: "mount",
        title: "The mount beside other file systems: tables",
        render: mount::render,
        plots: mount_plots::all,
    },
    Section {
        name: "growth",
        title: "Cost as it grows: tables",
        render: growth::tables::render,
        plots: growth::tables::all_plots,
    },
    Section {
        name: "papers",
        title: "The figures of the papers: tables",
        render: papers::tables::render,
        plots: papers::plots::all,
    },
];

/// A file and its expected content.
type GeneratedFile = (PathBuf, String);

/// `cargo xtask bench tables`.
pub fn run(args: &TablesArgs) -> Result<ExitCode> {
    let root = Path::new(".");
    ensure!(root.join("docs").is_dir(), "there is no docs/ here; try: in the root of the project");
    if !args.check {
        for file in leftover(root, &wanted(root)?)? {
            fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
        }
        write(&wanted(root)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let stale = stale(root)?;
    stale.iter().for_each(|file| {
        eprintln!(
            "bench: {} differs from docs/*.json; try: cargo xtask bench tables",
            file.display()
        )
    });
    Ok(ExitCode::from(u8::from(!stale.is_empty())))
}

/// Writes the tables and plots of one file: `--tables FILE` of the bench with this name.
pub fn write_section(name: &str, file: &Path) -> Result<()> {
    let section =
        SECTIONS.iter().find(|section| section.name == name).context("a section of this name")?;
    let kept = papers::store::read(file)?;
    ensure!(
        !kept.is_empty(),
        "{} has no rows; try: cargo xtask bench {name} --json FILE",
        file.display()
    );
    write(&section.wanted(Path::new("."), &kept))
}

/// All pages and plots; nothing for a file that does not exist.
fn wanted(root: &Path) -> Result<Vec<GeneratedFile>> {
    let mut all = Vec::new();
    for section in SECTIONS {
        let kept = papers::store::read(&root.join(format!("docs/{}.json", section.name)))?;
        if !kept.is_empty() {
            all.extend(section.wanted(root, &kept));
        }
    }
    Ok(all)
}

/// Files that differ from what the stored results produce, and plots without results.
fn stale(root: &Path) -> Result<Vec<PathBuf>> {
    let wanted = wanted(root)?;
    let mut stale = leftover(root, &wanted)?;
    stale.extend(
        wanted
            .into_iter()
            .filter(|(file, text)| fs::read_to_string(file).ok().as_ref() != Some(text))
            .map(|(file, _)| file),
    );
    Ok(stale)
}

/// Plots that no result produces.
fn leftover(root: &Path, wanted: &[GeneratedFile]) -> Result<Vec<PathBuf>> {
    let Ok(plots) = fs::read_dir(root.join(PLOTS)) else { return Ok(Vec::new()) };
    let files: Vec<PathBuf> =
        plots.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    Ok(files.into_iter().filter(|file| wanted.iter().all(|(other, _)| other != file)).collect())
}

fn write(wanted: &[GeneratedFile]) -> Result<()> {
    for (file, text) in wanted {
        let parent = file.parent().context("a file in a directory")?;
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

impl Section {
    fn wanted(&self, root: &Path, kept: &StoredResults) -> Vec<GeneratedFile> {
        let plot = |(name, text): Plot| (root.join(PLOTS).join(format!("{name}.svg")), text);
        let mut all = vec![(root.join(RESULTS).join(format!("{}.md", self.name)), self.page(kept))];
        all.extend((self.plots)(kept).into_iter().map(plot));
        all
    }

    fn page(&self, kept: &StoredResults) -> String {
        let (name, title) = (self.name, self.title);
        wrapped(&format!(
            "# {title}\n\n\
             <!-- Written by cargo xtask bench tables from docs/{name}.json. Do not edit. -->\n\n\
             How it is measured, and what the figures mean: [{name}-notes.md]({name}-notes.md). \
             Figures are medians, with \
             the smallest and the largest sample in brackets. *Bar* is the target of a row.\n{}",
            (self.render)(kept).trim_end()
        )) + "\n"
    }
}

/// Wraps text at [`COLUMNS`] columns. Tables, headings and pictures stay as they are.
fn wrapped(text: &str) -> String {
    let whole = |line: &str| ["|", "#", "!", "<!--"].iter().any(|begin| line.starts_with(begin));
    let broken = text.lines().map(|line| if whole(line) { line.to_owned() } else { broken(line) });
    broken.collect::<Vec<_>>().join("\n")
}

fn broken(line: &str) -> String {
    let indent = if line.starts_with("- ") { "  " } else { "" };
    let hard_break = if line.ends_with("  ") { "  " } else { "" };
    let mut lines: Vec<String> = vec![String::new()];
    for word in words(line) {
        let last = lines.last_mut().expect("there is always one");
        if last.trim().is_empty() {
            last.push_str(&word);
        } else if last.chars().count() + 1 + word.chars().count() <= COLUMNS {
            last.push(' ');
            last.push_str(&word);
        } else {
            lines.push(format!("{indent}{word}"));
        }
    }
    lines.join("\n") + hard_break
}

/// Words; text between backquotes is one word.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in line.split_whitespace() {
        match words.last_mut().filter(|last| last.matches('`').count() % 2 == 1) {
            Some(open) => {
                open.push(' ');
                open.push_str(part);
            }
            None => words.push(part.to_owned()),
        }
    }
    words
}

/// The measures of a stored row: name and value.
pub fn measures(row: &Json) -> impl Iterator<Item = (&str, &Json)> {
    let all = row["measures"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(|measure| (measure["name"].as_str().unwrap_or_default(), measure))
}

/// `5.00 [4.00 – 6.00]`; one number where there is no spread.
fn spread(measure: &Json) -> String {
    let number = |json: &Json| json.as_f64().map(crate::report::short).unwrap_or_default();
    let (value, low, high) = (&measure["value"], &measure["spread"][0], &measure["spread"][1]);
    if low == high {
        number(value)
    } else {
        format!("{} [{} – {}]", number(value), number(low), number(high))
    }
}

/// `<= 9.00 (explanation): holds`; empty without a target.
fn target_cell(measure: &Json) -> String {
    let bar = &measure["bar"];
    let (Some(sign), Some(limit), Some(reason)) =
        (bar["sign"].as_str(), bar["limit"].as_f64(), bar["reason"].as_str())
    else {
        return String::new();
    };
    let verdict = if measure["holds"] == true { "holds" } else { "DOES NOT HOLD" };
    format!("{sign} {} ({reason}): {verdict}", crate::report::short(limit))
}

#[cfg(test)]
mod tests;
