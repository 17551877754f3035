//! The report for programs.

use serde_json::{Value as Json, json};

use crate::{measure::Measure, measure::Value};

/// One object: the machine, notes, and `measures`, each with name, value, unit, spread, bar (the
/// target), holds, command.
pub fn render(machine: &str, notes: &[String], measures: &[Measure]) -> String {
    let rows: Vec<Json> = measures
        .iter()
        .flat_map(|measure| {
            measure.values().map(|(name, value)| entry(measure, &name, value)).collect::<Vec<_>>()
        })
        .collect();
    let report = json!({ "machine": machine, "notes": notes, "measures": rows });
    format!("{report:#}")
}

/// `bar` and `holds` are null without a target.
fn entry(measure: &Measure, name: &str, value: &Value) -> Json {
    let bar = value
        .target
        .as_ref()
        .map(|bar| json!({ "sign": bar.sign(), "limit": bar.limit(), "reason": bar.reason() }));
    json!({
        "name": name,
        "value": value.summary.median,
        "unit": measure.unit,
        "spread": [value.summary.min, value.summary.max],
        "bar": bar,
        "holds": value.holds(),
        "command": measure.command,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_testbed::stats::Summary;

    #[test]
    fn every_value_has_name_value_unit_spread_bar_holds() {
        let measure =
            Measure::new("read.cpu", "s/GiB", Summary { median: 2.0, min: 1.0, max: 3.0 })
                .at_most(1.5, "1.3 x all")
                .beside_tls(Some(Summary::once(4.0)))
                .made_by("make it");
        let report: Json = serde_json::from_str(&render("a machine", &[], &[measure])).unwrap();
        let plain = &report["measures"][0];
        assert_eq!(plain["name"], "read.cpu");
        assert_eq!(plain["value"], 2.0);
        assert_eq!(plain["unit"], "s/GiB");
        assert_eq!(plain["spread"], json!([1.0, 3.0]));
        assert_eq!(plain["bar"], json!({ "sign": "<=", "limit": 1.5, "reason": "1.3 x all" }));
        assert_eq!(plain["holds"], false);
        assert_eq!(plain["command"], "make it");
        let tls = &report["measures"][1];
        assert_eq!((&tls["name"], &tls["holds"]), (&json!("read.cpu.tls"), &Json::Null));
    }
}
