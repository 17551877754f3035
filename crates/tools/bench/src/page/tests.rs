use serde_json::json;

use super::*;
use crate::{measure::Measure, stats::Summary};

/// What a run keeps of these.
fn kept(row: &str, measures: &[Measure]) -> Kept {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kept.json");
    papers::store::keep(&file, row, "a machine", false, measures).unwrap();
    papers::store::read(&file).unwrap()
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

#[test]
fn the_page_and_its_plots_are_what_was_kept_makes() {
    let stale = stale(&project()).unwrap();
    assert!(stale.is_empty(), "not what docs/*.json make: {stale:?}; try: cargo xtask bench tables");
}

#[test]
fn a_figure_that_was_changed_by_hand_is_found_and_mended() {
    let dir = tempfile::tempdir().unwrap();
    let (root, docs) = (dir.path(), dir.path().join("docs"));
    fs::create_dir(&docs).unwrap();
    let page: String = SECTIONS
        .iter()
        .map(|section| format!("text\n{}old\n<!-- {}: end -->\n", section.begin(), section.name))
        .collect();
    fs::write(docs.join("performance.md"), page).unwrap();
    let core = kept("read", &[Measure::new("read.rate", "MB/s", Summary::once(123.0))]);
    fs::write(docs.join("core.json"), json!(core).to_string()).unwrap();
    assert_eq!(stale(root).unwrap(), [root.join(PAGE)]);
    write(root, &made(root).unwrap()).unwrap();
    assert_eq!(stale(root).unwrap(), [""; 0].map(PathBuf::from));
    let page = read_page(root).unwrap();
    assert!(page.contains("| read.rate | MB/s | 123 |  |\n") && !page.contains("old"), "{page}");
    fs::write(docs.join("performance.md"), page.replace("| 123 |", "| 124 |")).unwrap();
    assert_eq!(stale(root).unwrap(), [root.join(PAGE)]);
}

#[test]
fn a_page_without_a_place_is_an_error_that_says_which() {
    let error = SECTIONS[0].put("no marks", &Kept::new()).unwrap_err().to_string();
    assert!(error.contains("no place for the tables of core"), "{error}");
}

#[test]
fn tls_and_its_bar_stand_beside_the_plain_ones_where_there_is_any() {
    let cpu = Measure::new("read.cpu", "s/GiB", Summary { median: 2.0, min: 1.0, max: 3.0 })
        .at_most(1.5, "1.3 x all")
        .beside_tls_at_most(Some(Summary::once(4.0)), 2.5);
    let text =
        plain::render("core", rows::ROWS, &kept("read", &[cpu, Measure::new("read.x", "s", Summary::once(1.0))]));
    let wanted = "| measure | unit | plain | bar | TLS | bar |\n|---|---|---|---|---|---|\n\
                  | read.cpu | s/GiB | 2.00 [1.00 – 3.00] | <= 1.50 (1.3 x all): DOES NOT HOLD | 4.00 | <= 5.00 (2.5 x plain): holds |\n\
                  | read.x | s | 1.00 |  |  |  |\n";
    assert!(text.contains(wanted), "{text}");
    assert!(
        text.contains("**read**: sequential read, 1 MiB calls  \na machine; `cargo xtask bench core read`\n"),
        "{text}"
    );
}

#[test]
fn each_file_system_has_a_column_and_our_bar_is_the_last() {
    let once = |name: &str, value| Measure::new(name, "MB/s", Summary::once(value));
    let ours = once("parallel.read.braid", 9.0).at_least(8.0, "1.3 x gluster");
    let all =
        [once("parallel.read.ext4", 20.0), ours, once("parallel.read.gluster", 6.0), once("parallel.write.ext4", 5.0)];
    let text = mount::render(&kept("parallel", &all));
    let wanted = "| measure | unit | BraidFS | ext4 | GlusterFS | bar |\n|---|---|---|---|---|---|\n\
                  | parallel.read | MB/s | 9.00 | 20.0 | 6.00 | >= 8.00 (1.3 x gluster): holds |\n\
                  | parallel.write | MB/s |  | 5.00 |  |  |\n";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn every_file_system_that_is_measured_has_a_column() {
    use crate::mount::subject::NAMES;
    let once = |name: &&str| Measure::new(format!("parallel.read.{name}"), "MB/s", Summary::once(9.0));
    let text = mount::render(&kept("parallel", &NAMES.iter().map(once).collect::<Vec<_>>()));
    let row = text.lines().find(|line| line.starts_with("| parallel.read |")).unwrap();
    assert_eq!(row.matches("| 9.00 ").count(), NAMES.len(), "{text}");
}
