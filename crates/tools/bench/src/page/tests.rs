use braid_testbed::stats::Summary;
use serde_json::json;

use super::*;
use crate::measure::Measure;

/// The stored form of these measures.
fn kept(row: &str, measures: &[Measure]) -> StoredResults {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kept.json");
    papers::store::store_row(&file, row, "a machine", false, measures).unwrap();
    papers::store::read(&file).unwrap()
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

#[test]
fn the_page_and_its_plots_are_what_was_kept_makes() {
    let stale = stale(&project()).unwrap();
    assert!(stale.is_empty(), "differs from docs/*.json: {stale:?}; try: cargo xtask bench tables");
}

#[test]
fn a_figure_that_was_changed_by_hand_is_found_and_mended() {
    let dir = tempfile::tempdir().unwrap();
    let (root, docs) = (dir.path(), dir.path().join("docs"));
    fs::create_dir(&docs).unwrap();
    let core = kept("read", &[Measure::new("read.rate", "MB/s", Summary::once(123.0))]);
    fs::write(docs.join("core.json"), json!(core).to_string()).unwrap();
    let file = root.join(RESULTS).join("core.md");
    assert_eq!(stale(root).unwrap(), std::slice::from_ref(&file));
    write(&wanted(root).unwrap()).unwrap();
    assert_eq!(stale(root).unwrap(), [""; 0].map(PathBuf::from));
    let page = fs::read_to_string(&file).unwrap();
    assert!(
        page.contains("| read.rate | MB/s | 123 |  |\n") && page.contains("(core-notes.md)"),
        "{page}"
    );
    fs::write(&file, page.replace("| 123 |", "| 124 |")).unwrap();
    assert_eq!(stale(root).unwrap(), [file]);
}

#[test]
fn a_plot_that_nothing_makes_is_stale() {
    let dir = tempfile::tempdir().unwrap();
    let plots = dir.path().join(PLOTS);
    fs::create_dir_all(&plots).unwrap();
    fs::write(plots.join("old.svg"), "").unwrap();
    assert_eq!(stale(dir.path()).unwrap(), [plots.join("old.svg")]);
}

#[test]
fn lines_of_text_end_at_the_column_and_tables_stay() {
    let long = "word ".repeat(40);
    let table = format!("| {long}|");
    let text = wrapped(&format!("{long}\n- {long}\n{table}\nends  \nhere"));
    let code = format!("`{}`", ["code"; 10].join(" "));
    assert!(wrapped(&format!("{} {code}", "word ".repeat(15))).lines().any(|line| line == code));
    assert!(
        text.lines().filter(|line| !line.starts_with('|')).all(|line| line.len() <= COLUMNS),
        "{text}"
    );
    assert!(
        text.contains("\n  word") && text.contains(&table) && text.contains("ends  \nhere"),
        "{text}"
    );
}

#[test]
fn every_page_of_tables_has_notes_beside_it() {
    for section in SECTIONS {
        let notes = project().join(RESULTS).join(format!("{}-notes.md", section.name));
        assert!(notes.is_file(), "{} is missing", notes.display());
    }
}

/// Every plot of the stored results.
fn plots() -> Vec<Plot> {
    let kept = |section: &Section| {
        papers::store::read(&project().join(format!("docs/{}.json", section.name))).unwrap()
    };
    SECTIONS.iter().flat_map(|section| (section.plots)(&kept(section))).collect()
}

#[test]
fn no_text_of_any_plot_is_clipped() {
    let plots = plots();
    assert!(plots.len() >= 20, "{}", plots.len());
    for (name, text) in plots {
        assert_eq!(braid_bench_user::report::clipped(&text), [""; 0], "{name}");
    }
}

/// The text of a picture.
fn words(picture: &str) -> Vec<&str> {
    let parts = picture.split("<text").skip(1);
    parts.filter_map(|part| Some(part.split_once('>')?.1.split_once('<')?.0)).collect()
}

#[test]
fn plots_speak_in_words_and_not_in_names_of_rows() {
    for (name, text) in plots() {
        for words in words(&text) {
            let dotted =
                words.split(' ').any(|word| word.contains('.') && word.parse::<f64>().is_err())
                    && !words.ends_with('.')
                    && !words.contains(". ");
            assert!(!words.contains('_') && !dotted, "{words} in {name}");
        }
    }
}

#[test]
fn tls_and_its_bar_stand_beside_the_plain_ones_where_there_is_any() {
    let cpu = Measure::new("read.cpu", "s/GiB", Summary { median: 2.0, min: 1.0, max: 3.0 })
        .at_most(1.5, "1.3 x all")
        .beside_tls_at_most(Some(Summary::once(4.0)), 2.5);
    let text = plain::render(
        "core",
        rows::ROWS,
        &kept("read", &[cpu, Measure::new("read.x", "s", Summary::once(1.0))]),
    );
    let wanted = "| measure | unit | plain | bar | TLS | bar |\n|---|---|---|---|---|---|\n\
                  | read.cpu | s/GiB | 2.00 [1.00 – 3.00] | <= 1.50 (1.3 x all): DOES NOT HOLD | \
                  4.00 | <= 5.00 (2.5 x plain): holds |\n\
                  | read.x | s | 1.00 |  |  |  |\n";
    assert!(text.contains(wanted), "{text}");
    assert!(
        text.contains(
            "**read**: sequential read, 1 MiB calls  \na machine; `cargo xtask bench core read`\n"
        ),
        "{text}"
    );
}

#[test]
fn each_file_system_has_a_column_and_our_bar_is_the_last() {
    let once = |name: &str, value| Measure::new(name, "MB/s", Summary::once(value));
    let ours = once("parallel.read.braid", 9.0).at_least(8.0, "1.3 x gluster");
    let all = [
        once("parallel.read.ext4", 20.0),
        ours,
        once("parallel.read.gluster", 6.0),
        once("parallel.write.ext4", 5.0),
    ];
    let text = mount::render(&kept("parallel", &all));
    let wanted = "| measure | unit | BraidFS | ext4 | GlusterFS | bar \
        |\n|---|---|---|---|---|---|\n\
                  | parallel.read | MB/s | 9.00 | 20.0 | 6.00 | >= 8.00 (1.3 x gluster): holds |\n\
                  | parallel.write | MB/s |  | 5.00 |  |  |\n";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn every_file_system_that_is_measured_has_a_column() {
    use crate::mount::subject::NAMES;
    let once =
        |name: &&str| Measure::new(format!("parallel.read.{name}"), "MB/s", Summary::once(9.0));
    let text = mount::render(&kept("parallel", &NAMES.iter().map(once).collect::<Vec<_>>()));
    let row = text.lines().find(|line| line.starts_with("| parallel.read |")).unwrap();
    assert_eq!(row.matches("| 9.00 ").count(), NAMES.len(), "{text}");
}
