//! The exported symbols of the library, compared with braid.h.
#![cfg(target_os = "linux")]

use std::{collections::BTreeSet, fs, process::Command};

use crate::support::{self, here, installed, ok};

/// Names of dynamic symbols, with their versions.
fn symbols() -> Vec<(String, String)> {
    let library = installed().join("lib/libbraid.so");
    let listed = ok(Command::new("nm")
        .args(["-D", "--defined-only", "--with-symbol-versions"])
        .arg(library));
    let lines = listed.lines().filter_map(|line| line.split_whitespace().nth(2));
    let split = |name: &str| {
        name.split_once('@').map(|(name, version)| (name.to_owned(), version.to_owned()))
    };
    lines.filter_map(split).collect()
}

/// The text of braid.h without comments, with single blanks.
fn header() -> String {
    plain(&fs::read_to_string(here().join("include/braid.h")).unwrap())
}

fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        plain.push_str(before);
        rest = after.split_once("*/").unwrap().1;
    }
    plain.push_str(rest);
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn names_in_header() -> BTreeSet<String> {
    let header = header();
    let words = header.split(['(', ' ', '*']).zip(header.match_indices(['(', ' ', '*']));
    words
        // A function type ends in a parenthesis.
        .filter(|(word, (_, end))| {
            *end == "(" && word.starts_with("braid_") && !word.ends_with(')')
        })
        .map(|(word, _)| word.to_owned())
        .collect()
}

#[test]
fn every_symbol_has_a_version_and_is_in_the_header() {
    let symbols = symbols();
    assert!(symbols.len() > 60, "{symbols:?}");
    for (name, version) in &symbols {
        assert_eq!(version, "@BRAID_0.1", "{name}");
    }
    let exported: BTreeSet<String> = symbols.into_iter().map(|(name, _)| name).collect();
    assert_eq!(exported, names_in_header());
}

#[test]
fn nothing_else_is_exported_and_the_library_has_a_name() {
    let library = installed().join("lib/libbraid.so");
    let listed = ok(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let others: Vec<&str> = listed
        .lines()
        .filter(|line| !line.contains(" T braid_") && !line.contains(" A BRAID_0.1"))
        .collect();
    assert_eq!(others, [""; 0]);
    let dynamic = ok(Command::new("readelf").arg("-d").arg(&library));
    assert!(dynamic.contains("soname: [libbraid.so.0]"), "{dynamic}");
}

/// The C name of a Rust type.
fn c_type(rust: &str) -> String {
    if let Some(to) = rust.strip_prefix("*const *const ") {
        return format!("const {} *const *", c_type(to));
    }
    if let Some(to) = rust.strip_prefix("*const ") {
        return format!("const {} *", c_type(to));
    }
    if let Some(to) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(to));
    }
    let plain = match rust {
        "c_int" => "int",
        "c_char" => "char",
        "c_void" => "void",
        "usize" => "size_t",
        "i64" => "int64_t",
        "u64" => "uint64_t",
        "u32" => "uint32_t",
        "ssize_t" | "mode_t" | "uid_t" | "gid_t" | "braid_all_gather" => rust,
        other => return format!("struct {other}"),
    };
    plain.to_owned()
}

/// The C prototypes of the exported functions of a source file.
fn prototypes(source: &str) -> Vec<String> {
    let functions = source.split("#[unsafe(no_mangle)]").skip(1);
    let prototype = |function: &str| {
        let (_, function) = function.split_once("extern \"C\" fn ").unwrap();
        let (head, _) = function.split_once(" {").unwrap();
        let (name, rest) = head.split_once('(').unwrap();
        let (arguments, result) = rest.rsplit_once(')').unwrap();
        let arguments: Vec<String> = arguments
            .split(',')
            .map(str::trim)
            .filter(|argument| !argument.is_empty())
            .map(|argument| {
                let (name, kind) = argument.split_once(": ").unwrap();
                format!("{} {}", c_type(kind), name.trim_start_matches("r#"))
            })
            .collect();
        let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
        let result = result.trim().strip_prefix("-> ").map_or("void".to_owned(), c_type);
        format!("{result} {name}({arguments});")
    };
    functions.map(prototype).collect()
}

fn sources(dir: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![fs::read_to_string(&path).unwrap()],
        })
        .collect()
}

#[test]
fn the_header_is_not_stale() {
    let squeeze = |text: &str| text.replace("* ", "*").replace("( ", "(");
    let header = squeeze(&header());
    let wanted: Vec<String> =
        sources(&here().join("src")).iter().flat_map(|source| prototypes(source)).collect();
    assert!(wanted.len() > 60);
    let missing: Vec<&String> =
        wanted.iter().filter(|prototype| !header.contains(&squeeze(prototype))).collect();
    assert!(missing.is_empty(), "not in braid.h: {missing:#?}; try: BLESS=1 cargo xtask ci header");
    assert_eq!(wanted.len(), names_in_header().len(), "braid.h has functions that are no more");
}

#[test]
fn structs_are_as_the_header_has_them() {
    use std::mem::offset_of;
    macro_rules! layouts {
        ($($type:ident { $($field:ident),* })*) => {
            (
                concat!($(
                    "    S(", stringify!($type), ")\n",
                    $("    F(", stringify!($type), ", ", stringify!($field), ")\n",)*
                )*),
                [$(
                    format!("{} {}\n", stringify!($type), size_of::<braid::$type>()),
                    $(format!(
                        "{}.{} {}\n",
                        stringify!($type),
                        stringify!($field),
                        offset_of!(braid::$type, $field)
                    ),)*
                )*].concat(),
            )
        };
    }
    let (calls, expected) = layouts! {
        braid_options { key_file, agent, client_name, timeout_ms, tls, read_cache_bytes, reserved }
        braid_layout {
            distribution, iod_count, first_iod, placement, stripe_bytes, group_width, group_depth,
            strips, strip_count, labels, label_count
        }
        braid_strip { part, bytes }
        braid_extent { offset, bytes }
        braid_piece { offset, memory, bytes }
        braid_dirent { file, cookie, kind, name_bytes, name }
        braid_space { total_bytes, available_bytes, files, iods, iods_up }
        braid_mount { manager, iods, iods_up, total_bytes, available_bytes }
        braid_metadata { stripe_bytes, base, node_count }
        braid_partition { offset, group_size, stride }
    };
    let source = format!(
        "#include <braid.h>\n#include <stdio.h>\n\
         #define S(t) printf(#t \" %zu\\n\", sizeof(struct t));\n\
         #define F(t, f) printf(#t \".\" #f \" %zu\\n\", offsetof(struct t, f));\n\
         int main(void) {{\n{calls}}}\n"
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("layouts.c");
    fs::write(&path, source).unwrap();
    let program = support::compile(&path, support::Link::Shared);
    assert_eq!(ok(Command::new(program).env("LD_LIBRARY_PATH", installed().join("lib"))), expected);
}

#[test]
fn the_header_is_for_cplusplus_and_strict_c_too() {
    let header = here().join("include/braid.h");
    let strict = ["-x", "c", "-std=c99", "-pedantic"];
    let posix =
        ["-x", "c", "-std=c99", "-pedantic", "-D_POSIX_C_SOURCE=200809L", "-D_DEFAULT_SOURCE"];
    let cplusplus = ["-x", "c++", "-std=c++11", "-pedantic"];
    for flags in [&strict[..], &posix[..], &cplusplus[..]] {
        ok(Command::new("cc")
            .args(flags)
            .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only"])
            .arg(&header));
    }
}

#[test]
fn examples_are_strict_c_too() {
    for example in fs::read_dir(here().join("examples")).unwrap() {
        let flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"];
        ok(Command::new("cc")
            .args(flags)
            .arg("-I")
            .arg(here().join("include"))
            .arg(example.unwrap().path()));
    }
}

#[test]
fn man_pages_show_each_struct_what_is_returned_and_what_can_fail() {
    let pages = fs::read_dir(here().join("man")).unwrap().map(|page| page.unwrap().path());
    let pages: Vec<(String, String)> =
        pages.map(|page| (page.display().to_string(), fs::read_to_string(page).unwrap())).collect();
    for (name, page) in &pages {
        for section in ["SYNOPSIS", "DESCRIPTION", "RETURN VALUE", "ERRORS", "SEE ALSO"] {
            assert!(page.contains(&format!("\n.SH {section}\n")), "{name} has no {section}");
        }
    }
    let shown = plain(&pages.into_iter().map(|(_, page)| page).collect::<String>());
    let header = header();
    // Only structs that the header defines; no functions or members.
    let is_name =
        |word: &str| word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let body = |(at, _): (usize, &str)| {
        let text = &header[at..];
        let (name, rest) = text.strip_prefix("struct ")?.split_once(" {")?;
        is_name(name).then_some(&text[..text.len() - rest.len() + rest.find("};")? + 2])
    };
    let structs: Vec<&str> = header.match_indices("struct braid_").filter_map(body).collect();
    assert_eq!(structs.len(), 10, "{structs:#?}");
    let missing: Vec<&&str> = structs.iter().filter(|body| !shown.contains(**body)).collect();
    assert!(missing.is_empty(), "in no man page as braid.h has it: {missing:#?}");
}

#[test]
fn the_shared_library_has_no_debug_information() {
    let sections =
        ok(Command::new("readelf").args(["-S", "-W"]).arg(installed().join("lib/libbraid.so.0")));
    assert!(sections.contains(".text") && !sections.contains(".debug_"), "{sections}");
}

#[test]
fn every_function_has_a_man_page() {
    let man = installed().join("share/man/man3");
    let missing: Vec<String> = names_in_header()
        .into_iter()
        .filter(|name| !man.join(format!("{name}.3")).is_file())
        .collect();
    assert_eq!(missing, [""; 0]);
    for page in fs::read_dir(here().join("man")).unwrap() {
        let page = page.unwrap().path();
        // groff reports unknown requests on standard error.
        let shown = Command::new("man")
            .args(["--warnings", "-l"])
            .arg(&page)
            .env("MANPAGER", "cat")
            .env("LC_ALL", "C.UTF-8")
            .output();
        let shown = shown.unwrap();
        assert!(
            shown.status.success() && shown.stderr.is_empty(),
            "{}: {}",
            page.display(),
            support::text(&shown)
        );
    }
}
