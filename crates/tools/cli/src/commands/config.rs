//! `braid config explain`: every setting, its value and the source of the value.

use crate::{config::Settings, output::Printer};

/// Prints the table.
pub fn explain(settings: &Settings, out: Printer) {
    let rows = settings.explain();
    if out.json {
        let facts: Vec<_> = rows
            .iter()
            .map(|(name, value, source)| {
                serde_json::json!({ "setting": name, "value": value, "source": source })
            })
            .collect();
        return out.value(&facts);
    }
    let rows: Vec<_> = rows
        .into_iter()
        .map(|(name, value, source)| vec![name.to_owned(), value, source])
        .collect();
    out.table(&["SETTING", "VALUE", "FROM"], &rows);
    match &settings.path {
        Some(_) => out.next("braid status    (with these settings)"),
        None => out.next(
            "braid up DIR, or braid init DIR    (no configuration file was found; both write one)",
        ),
    }
}
