//! `braid ls`.

use braid_client::Client;
use braid_wire::message::{FileKind, types::Attributes};
use serde_json::Value;

use crate::{
    args::LsArgs,
    commands::facts::{attributes_json, mode_text, time_text},
    config::Settings,
    connect,
    output::{Fault, Printer, quoted},
    transfer::path::{join, show},
};

/// Lists directories and files.
pub fn ls(args: &LsArgs, settings: &Settings, out: Printer) -> Result<(), Fault> {
    let client = connect::client(settings)?;
    let mut listing = Listing { client: &client, args, out, facts: Vec::new(), rows: 0, first_file: None };
    let mut queue: Vec<Vec<u8>> = Vec::new();
    for path in &args.paths {
        let found = if args.directory { client.lstat(path)? } else { client.stat(path)? };
        if found.kind == FileKind::Directory && !args.directory {
            queue.push(path.as_bytes().to_vec());
        } else {
            listing.print(vec![(path.as_bytes().to_vec(), path.as_bytes().to_vec(), found)])?;
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
    } else {
        listing.next();
    }
    Ok(())
}

struct Listing<'a> {
    client: &'a Client,
    args: &'a LsArgs,
    out: Printer,
    facts: Vec<Value>,
    rows: usize,
    first_file: Option<Vec<u8>>,
}

impl Listing<'_> {
    /// Lists one directory in the order of names; returns the directories in it.
    fn directory(&mut self, path: &[u8]) -> Result<Vec<Vec<u8>>, Fault> {
        let mut rows = Vec::new();
        for entry in self.client.read_dir(path, true)? {
            let entry = entry?;
            if !self.args.all && entry.name.starts_with(b".") {
                continue;
            }
            let child = join(path, &entry.name);
            let found = match entry.attributes {
                Some(found) => found,
                None => self.client.lstat(&child[..])?,
            };
            rows.push((entry.name, child, found));
        }
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        let below =
            rows.iter().filter(|(_, _, found)| found.kind == FileKind::Directory).map(|(_, path, _)| path.clone());
        let below = below.collect();
        self.print(rows)?;
        Ok(below)
    }

    /// From names to attributes to where the bytes lie.
    fn next(&self) {
        let paths: Vec<String> = self.args.paths.iter().map(|path| quoted(path)).collect();
        match &self.first_file {
            _ if self.rows == 0 && !self.args.all => {
                self.out.next(format!("braid put -r SOMETHING {}    (ls -a shows names with a dot)", paths[0]));
            }
            _ if !self.args.long => self.out.next(format!("braid ls -l {}", paths.join(" "))),
            Some(file) => self.out.next(format!("braid layout show {}", quoted(&show(file)))),
            None => {}
        }
    }

    fn print(&mut self, rows: Vec<(Vec<u8>, Vec<u8>, Attributes)>) -> Result<(), Fault> {
        self.rows += rows.len();
        if self.first_file.is_none() {
            self.first_file = rows.iter().find(|row| row.2.kind == FileKind::File).map(|row| row.1.clone());
        }
        if self.out.json {
            self.facts.extend(rows.iter().map(|(_, path, found)| attributes_json(path, found)));
            return Ok(());
        }
        if !self.args.long {
            rows.iter().for_each(|(name, _, _)| self.out.line(show(name)));
            return Ok(());
        }
        let wide = rows.iter().map(|(_, _, found)| found.bytes.0.to_string().len()).max().unwrap_or(1);
        for (name, path, found) in rows {
            let target = match found.kind {
                FileKind::Symlink => format!(" -> {}", show(&self.client.read_link(&path[..])?)),
                _ => String::new(),
            };
            let mode = mode_text(found.kind, found.mode);
            let (links, uid, gid, bytes) = (found.links, found.uid, found.gid, found.bytes.0);
            let time = time_text(found.mtime);
            self.out.line(format!("{mode} {links:>3} {uid:>5} {gid:>5} {bytes:>wide$} {time} {}{target}", show(&name)));
        }
        Ok(())
    }
}
