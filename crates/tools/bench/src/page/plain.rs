//! The tables of `bench core` and `bench parallel`.

use std::fmt::Write as _;

use serde_json::Value as Json;

use super::{StoredResults, measures, spread, target_cell};
use crate::rows::Row;

const TLS: &str = ".tls";

/// A table of each row, in the order of a whole run.
pub fn render(bench: &str, rows: &[Row], kept: &StoredResults) -> String {
    let mut text = String::new();
    for row in rows {
        let Some(one) = kept.get(row.name) else { continue };
        let machine = one["machine"].as_str().unwrap_or_default();
        let (name, about) = (row.name, row.about);
        let _ = write!(
            text,
            "\n**{name}**: {about}  \n{machine}; `cargo xtask bench {bench} {name}`\n\n"
        );
        text += &table(one);
    }
    text + "\n"
}

fn table(row: &Json) -> String {
    let over_tls = |name: &str| {
        let wanted = format!("{name}{TLS}");
        measures(row).find(|(other, _)| *other == wanted).map(|(_, measure)| measure)
    };
    let has_tls = measures(row).any(|(name, _)| name.ends_with(TLS));
    let more = |text: &str| if has_tls { text.to_owned() } else { String::new() };
    let mut text = format!(
        "| measure | unit | plain | bar |{}\n|---|---|---|---|{}\n",
        more(" TLS | bar |"),
        more("---|---|")
    );
    for (name, measure) in measures(row).filter(|(name, _)| !name.ends_with(TLS)) {
        let tls = over_tls(name).map(|tls| (spread(tls), target_cell(tls))).unwrap_or_default();
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} |{}",
            measure["unit"].as_str().unwrap_or_default(),
            spread(measure),
            target_cell(measure),
            more(&format!(" {} | {} |", tls.0, tls.1))
        );
    }
    text
}
