//! `docs/performance.md`: what stands between its marks is made of what runs kept, and of nothing else; so are the plots beside it.
//!
//! ```text
//!   bench core|parallel|mount --keep FILE, papers|growth --json FILE ──► docs/NAME.json ── bench tables ──► docs/performance.md, docs/plots
//! ```
//!
//! A test makes both anew and compares, so that a figure that was changed by hand, or kept and not shown, is found.

mod mount;
mod plain;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value as Json};

use crate::{args::TablesArgs, growth, papers, parallel, rows};

const PAGE: &str = "docs/performance.md";
const PLOTS: &str = "docs/plots";
/// Where the plots are for the page that shows them.
pub const PLOTS_BELOW_PAGE: &str = "plots";

/// Rows of a file, by name.
pub type Kept = Map<String, Json>;
/// A plot's name and its text.
pub type Plot = (String, String);

/// A part of the page, made of one file.
pub struct Section {
    /// In its marks; its file is `docs/NAME.json`.
    name: &'static str,
    render: fn(&Kept) -> String,
    plots: fn(&Kept) -> Vec<Plot>,
}

/// In no order: each has its place in the page.
const SECTIONS: &[Section] = &[
    Section { name: "core", render: |kept| plain::render("core", rows::ROWS, kept), plots: |_| Vec::new() },
    Section { name: "parallel", render: |kept| plain::render("parallel", parallel::ROWS, kept), plots: |_| Vec::new() },
    Section { name: "mount", render: mount::render, plots: |_| Vec::new() },
    Section { name: "growth", render: growth::tables::render, plots: growth::tables::all_plots },
    Section { name: "papers", render: papers::tables::render, plots: papers::plots::all },
];

/// The page and all plots, with the root of the project before their paths.
struct Made {
    page: String,
    plots: Vec<(PathBuf, String)>,
}

/// `cargo xtask bench tables`.
pub fn run(args: &TablesArgs) -> Result<ExitCode> {
    let root = Path::new(".");
    if !args.check {
        write(root, &made(root)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let stale = stale(root)?;
    stale.iter().for_each(|file| {
        eprintln!("bench: {} is not what docs/*.json make; try: cargo xtask bench tables", file.display())
    });
    Ok(ExitCode::from(u8::from(!stale.is_empty())))
}

/// Puts the tables of one file into the page, and its plots beside it: `--tables FILE` of a bench of this name.
pub fn write_section(name: &str, file: &Path) -> Result<()> {
    let section = SECTIONS.iter().find(|section| section.name == name).context("a section of this name")?;
    let kept = papers::store::read(file)?;
    ensure!(!kept.is_empty(), "{} has no rows; try: cargo xtask bench {name} --json FILE", file.display());
    let page = section.put(&read_page(Path::new("."))?, &kept)?;
    let plots = (section.plots)(&kept).into_iter().map(|plot| at(Path::new("."), plot)).collect();
    write(Path::new("."), &Made { page, plots })
}

/// All sections anew.
fn made(root: &Path) -> Result<Made> {
    let (mut page, mut plots) = (read_page(root)?, Vec::new());
    for section in SECTIONS {
        let kept = papers::store::read(&root.join(format!("docs/{}.json", section.name)))?;
        page = section.put(&page, &kept)?;
        plots.extend((section.plots)(&kept).into_iter().map(|plot| at(root, plot)));
    }
    Ok(Made { page, plots })
}

/// The files that are not what was kept makes.
fn stale(root: &Path) -> Result<Vec<PathBuf>> {
    let made = made(root)?;
    let wanted = made.plots.into_iter().chain([(root.join(PAGE), made.page)]);
    Ok(wanted
        .filter(|(file, text)| fs::read_to_string(file).ok().as_ref() != Some(text))
        .map(|(file, _)| file)
        .collect())
}

fn read_page(root: &Path) -> Result<String> {
    let file = root.join(PAGE);
    fs::read_to_string(&file).with_context(|| format!("reading {}; try: in the root of the project", file.display()))
}

fn at(root: &Path, (name, text): Plot) -> (PathBuf, String) {
    (root.join(PLOTS).join(format!("{name}.svg")), text)
}

fn write(root: &Path, made: &Made) -> Result<()> {
    fs::create_dir_all(root.join(PLOTS)).with_context(|| format!("making {PLOTS}"))?;
    let files = made.plots.iter().map(|(file, text)| (file.clone(), text)).chain([(root.join(PAGE), &made.page)]);
    for (file, text) in files {
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

impl Section {
    fn begin(&self) -> String {
        format!("<!-- {}: made by cargo xtask bench tables, do not edit -->\n", self.name)
    }

    /// The page with the tables of these rows between the marks; nothing where nothing was kept.
    fn put(&self, page: &str, kept: &Kept) -> Result<String> {
        let (begin, end) = (self.begin(), format!("<!-- {}: end -->\n", self.name));
        let place = || format!("{PAGE} has no place for the tables of {}: no {}", self.name, begin.trim());
        let (before, rest) = page.split_once(&begin).with_context(place)?;
        let (_, after) = rest.split_once(&end).with_context(place)?;
        let tables = if kept.is_empty() { String::new() } else { (self.render)(kept) };
        Ok(format!("{before}{begin}{tables}{end}{after}"))
    }
}

/// The measures of a kept row: name and all of it.
pub fn measures(row: &Json) -> impl Iterator<Item = (&str, &Json)> {
    let all = row["measures"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(|measure| (measure["name"].as_str().unwrap_or_default(), measure))
}

/// `5.00 [4.00 – 6.00]`; one number where there is no spread.
fn spread(measure: &Json) -> String {
    let number = |json: &Json| json.as_f64().map(crate::report::short).unwrap_or_default();
    let (value, low, high) = (&measure["value"], &measure["spread"][0], &measure["spread"][1]);
    if low == high { number(value) } else { format!("{} [{} – {}]", number(value), number(low), number(high)) }
}

/// `<= 9.00 (how it came about): holds`; nothing without a bar.
fn bar(measure: &Json) -> String {
    let bar = &measure["bar"];
    let (Some(sign), Some(limit), Some(reason)) = (bar["sign"].as_str(), bar["limit"].as_f64(), bar["reason"].as_str())
    else {
        return String::new();
    };
    let verdict = if measure["holds"] == true { "holds" } else { "DOES NOT HOLD" };
    format!("{sign} {} ({reason}): {verdict}", crate::report::short(limit))
}

#[cfg(test)]
mod tests;
