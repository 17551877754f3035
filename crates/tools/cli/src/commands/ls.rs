//! `braid ls`. A file whose attributes cannot be read is shown with `?`, and the reason follows at
//! the end. It does not hide other files.

use braid_client::{Client, Error};
use braid_types::Status;
use braid_wire::message::{FileKind, types::Attributes};
use serde_json::{Value, json};

use crate::{
    args::LsArgs,
    commands::{
        format::{attributes_json, kind_letter, kind_word, mode_text, time_text},
        user_names::UserNames,
    },
    config::Settings,
    connect,
    output::{Fault, Printer, human_bytes, quoted},
    transfer::path::{join, show},
};

/// Lists directories and files.
pub fn ls(args: &LsArgs, settings: &Settings, out: Printer) -> Result<(), Fault> {
    let client = connect::client(settings)?;
    let names = UserNames::default();
    let mut listing = Listing {
        client: &client,
        args,
        out,
        names,
        facts: Vec::new(),
        rows: 0,
        first_file: None,
        unknown: Vec::new(),
    };
    let mut queue: Vec<Vec<u8>> = Vec::new();
    for path in &args.paths {
        let found = if args.directory { client.lstat(path) } else { client.stat(path) };
        let bytes = path.as_bytes().to_vec();
        match found {
            Ok(found) if found.kind == FileKind::Directory && !args.directory => queue.push(bytes),
            found => {
                let found = listing.known(found)?;
                // Only files need an I/O daemon for their attributes; all other types are known.
                let kind = found.as_ref().map_or(FileKind::File, |found| found.kind);
                listing.print(vec![Row { name: bytes.clone(), path: bytes, kind, found }])?;
            }
        }
    }
    queue.reverse();
    let titles = args.recursive || queue.len() > 1;
    while let Some(path) = queue.pop() {
        if titles && !out.json {
            out.line(format!("{}:", show(&path)));
        }
        let mut below = listing.directory(&path)?;
        if args.recursive {
            below.reverse();
            queue.append(&mut below);
        }
    }
    if out.json {
        out.value(&listing.facts);
    }
    if let Some(fault) = listing.fault() {
        return Err(fault);
    }
    if !out.json {
        listing.next();
    }
    Ok(())
}

/// One line of the listing.
struct Row {
    name: Vec<u8>,
    path: Vec<u8>,
    kind: FileKind,
    /// `None`: the I/O daemon that knows the size is down.
    found: Option<Attributes>,
}

struct Listing<'a> {
    client: &'a Client,
    args: &'a LsArgs,
    out: Printer,
    names: UserNames,
    facts: Vec<Value>,
    rows: usize,
    first_file: Option<Vec<u8>>,
    /// Why attributes of files could not be read.
    unknown: Vec<Error>,
}

impl Listing<'_> {
    /// Lists one directory in the order of names; returns the directories in it.
    fn directory(&mut self, path: &[u8]) -> Result<Vec<Vec<u8>>, Fault> {
        let mut rows = Vec::new();
        let needs_attributes = self.args.long || self.out.json;
        for entry in self.client.read_dir(path, needs_attributes)? {
            let entry = entry?;
            if !self.args.all && entry.name.starts_with(b".") {
                continue;
            }
            let child = join(path, &entry.name);
            let found = match entry.attributes {
                None if needs_attributes => match self.client.lstat(&child[..]) {
                    // The file was removed meanwhile.
                    Err(error) if error.status() == Status::NotFound => continue,
                    found => self.known(found)?,
                },
                found => found,
            };
            rows.push(Row { name: entry.name, path: child, kind: entry.kind, found });
        }
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        let below =
            rows.iter().filter(|row| row.kind == FileKind::Directory).map(|row| row.path.clone());
        let below = below.collect();
        self.print(rows)?;
        Ok(below)
    }

    /// Attributes; `None` if the I/O daemon that knows the size is down.
    fn known(&mut self, found: Result<Attributes, Error>) -> Result<Option<Attributes>, Fault> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.server().is_some_and(|server| server.starts_with("I/O daemon")) => {
                self.unknown.push(error);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The failure of the command, if some attributes could not be read.
    fn fault(&self) -> Option<Fault> {
        let first = Fault::from(self.unknown.first()?.clone());
        let count = self.unknown.len();
        let files = if count == 1 { "file" } else { "files" };
        let what = format!("reading the attributes of {count} {files}");
        Some(Fault { what, why: format!("{}: {}", first.what, first.why), ..first })
    }

    /// Suggests the next command: from names to attributes to layouts.
    fn next(&self) {
        let paths: Vec<String> = self.args.paths.iter().map(|path| quoted(path)).collect();
        match &self.first_file {
            _ if self.rows == 0 && !self.args.all => {
                self.out.next(format!(
                    "braid put -r SOMETHING {}    (ls -a shows names with a dot)",
                    paths[0]
                ));
            }
            _ if !self.args.long => self.out.next(format!("braid ls -l {}", paths.join(" "))),
            Some(file) => self.out.next(format!("braid layout show {}", quoted(&show(file)))),
            None => {}
        }
    }

    fn print(&mut self, rows: Vec<Row>) -> Result<(), Fault> {
        self.rows += rows.len();
        if self.first_file.is_none() {
            self.first_file =
                rows.iter().find(|row| row.kind == FileKind::File).map(|row| row.path.clone());
        }
        if self.out.json {
            self.facts.extend(rows.iter().map(|row| match &row.found {
                Some(found) => attributes_json(&row.path, found),
                None => {
                    json!({ "path": show(&row.path), "kind": kind_word(row.kind), "bytes": null })
                }
            }));
            return Ok(());
        }
        if !self.args.long {
            rows.iter().for_each(|row| self.out.line(show(&row.name)));
            return Ok(());
        }
        self.print_long(&rows)
    }

    fn print_long(&mut self, rows: &[Row]) -> Result<(), Fault> {
        let human = self.args.human;
        let size = |bytes: u64| if human { human_bytes(bytes) } else { bytes.to_string() };
        let cells: Vec<[String; 6]> = rows.iter().map(|row| self.cells(row, size)).collect();
        let width = |column: usize| {
            cells.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0)
        };
        let (links, user, group, bytes) = (width(1), width(2), width(3), width(4));
        for (row, cells) in rows.iter().zip(&cells) {
            let target = match row.kind {
                FileKind::Symlink => {
                    format!(" -> {}", show(&self.client.read_link(&row.path[..])?))
                }
                _ => String::new(),
            };
            let [mode, n, owner, of, size, time] = cells;
            self.out.line(format!(
                "{mode} {n:>links$} {owner:<user$} {of:<group$} {size:>bytes$} {time} {}{target}",
                show(&row.name)
            ));
        }
        Ok(())
    }

    /// Mode, links, owner, group, size, time.
    fn cells(&mut self, row: &Row, size: impl Fn(u64) -> String) -> [String; 6] {
        let Some(found) = &row.found else {
            let unknown = || "?".to_owned();
            let mode = format!("{}?????????", kind_letter(row.kind));
            return [mode, unknown(), unknown(), unknown(), unknown(), format!("{:<20}", "?")];
        };
        let (owner, group) = match self.args.numeric {
            true => (found.uid.to_string(), found.gid.to_string()),
            false => {
                (self.names.user(found.uid).to_owned(), self.names.group(found.gid).to_owned())
            }
        };
        let mode = mode_text(found.kind, found.mode);
        [mode, found.links.to_string(), owner, group, size(found.bytes.0), time_text(found.mtime)]
    }
}
