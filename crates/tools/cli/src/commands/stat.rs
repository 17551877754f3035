//! `braid stat`.

use braid_wire::message::FileKind;

use crate::{
    commands::format::{attributes_json, kind_word, mode_text, time_text},
    config::Settings,
    connect,
    output::{Fault, Printer, human_bytes, quoted},
};

/// Prints attributes.
pub fn stat(
    paths: &[String],
    follow: bool,
    settings: &Settings,
    out: Printer,
) -> Result<(), Fault> {
    let client = connect::client(settings)?;
    let (mut facts, mut last) = (Vec::new(), None);
    for path in paths {
        let found = if follow { client.stat(path)? } else { client.lstat(path)? };
        if out.json {
            facts.push(attributes_json(path.as_bytes(), &found));
            continue;
        }
        let bytes = found.bytes.0;
        out.line(format!(
            "{path}: {}, {} bytes ({})",
            kind_word(found.kind),
            bytes,
            human_bytes(bytes)
        ));
        out.line(format!(
            "  mode {} owner {}:{} links {}",
            mode_text(found.kind, found.mode),
            found.uid,
            found.gid,
            found.links
        ));
        out.line(format!(
            "  index {} change {} size generation {}",
            found.file, found.change, found.size_generation
        ));
        for (name, time) in [
            ("accessed", found.atime),
            ("modified", found.mtime),
            ("changed", found.ctime),
            ("born", found.btime),
        ] {
            out.line(format!("  {name:<8} {}", time_text(time)));
        }
        last = Some((path.clone(), found.kind));
    }
    if out.json {
        out.value(&facts);
    } else if let Some((path, kind)) = last {
        next(&path, kind, out);
    }
    Ok(())
}

fn next(path: &str, kind: FileKind, out: Printer) {
    let path = quoted(path);
    match kind {
        FileKind::Directory => out.next(format!("braid ls -l {path}")),
        FileKind::File => out.next(format!("braid layout show {path}")),
        FileKind::Symlink => out.next(format!("braid stat {path}    (its target)")),
        _ => {}
    }
}
