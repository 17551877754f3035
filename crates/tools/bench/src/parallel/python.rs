//! Many small ranges from Python, as pandas or zarr read them: fsspec's `cat_ranges` in one call,
//! one `cat_file` for each range, and one `read_at` for each of an open file. The module is the
//! wheel's, built for release; Python measures the times.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use braid_testbed::{programs::need, shell::sh, stats::Summary};
use serde_json::Value;

use crate::{bench::Bench, daemons::release_build, measure::Measure};

/// Bytes of a range, as in `cat_ranges.py`.
const RANGE_BYTES: u64 = 4096;
/// The issue's target, compared with one read for each range.
const FACTOR: f64 = 10.0;
/// The program's names of its methods, and the names of the measures.
const WAYS: [(&str, &str); 3] = [
    ("cat_file each", "python.cat_file_per_range"),
    ("read_at each, open", "python.read_at_per_range"),
    ("cat_ranges", "python.cat_ranges"),
];
/// An environment with the fsspec version of the package's tests, and the package as in a wheel.
const INSTALL: &str = r#"
test -x "$1/venv/bin/python" || python3 -m venv "$1/venv"
"$1/venv/bin/python" -m pip install --quiet "$(grep '^fsspec==' "$2/tests/requirements.txt")"
rm -rf "$1/package"
mkdir -p "$1/package"
cp -r "$2/python/braid" "$1/package/braid"
cp "$3" "$1/package/braid/_braid.abi3.so"
"#;
const RUN: &str = r#"
PYTHONPATH="$1/package" PYTHONDONTWRITEBYTECODE=1 exec "$1/venv/bin/python" "$2" "$3" \
    --ranges "$4" --rounds "$5" --json
"#;

/// `python`.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bind/python");
    let home = match install(&source) {
        Ok(home) => home,
        Err(error) => {
            bench.note(format!("no rows of Python: {error:#}"));
            return Ok(Vec::new());
        }
    };
    let ranges = bench.size(10_000_u64, 2_000);
    let (ranges_text, rounds) = (ranges.to_string(), bench.repetitions.to_string());
    let program = text(&source.join("bench/cat_ranges.py"));
    let said = sh(RUN, &[&text(&home), &program, &text(&config(bench)?), &ranges_text, &rounds])?;
    measures(&said, ranges * RANGE_BYTES).with_context(|| format!("{program} printed {said}"))
}

/// The directory of the environment and the package.
fn install(source: &Path) -> Result<PathBuf> {
    need("python3", &["python3", "python3-venv"])?;
    let module = release_build("braid-python", "libbraid_python.so")?;
    let home = module.with_file_name("bench-python");
    fs::create_dir_all(&home)?;
    sh(INSTALL, &[&text(&home), &text(source), &text(&module)])?;
    Ok(home)
}

/// A configuration file with the cluster and a client key.
fn config(bench: &Bench) -> Result<PathBuf> {
    let (cluster, path) = (bench.cluster()?, bench.scratch.join("python.toml"));
    let key = text(&cluster.key);
    fs::write(
        &path,
        format!("[cluster]\nmds = [{:?}]\n\n[client]\nkey = {key:?}\n", cluster.mds_address),
    )?;
    Ok(path)
}

/// Measures from the seconds of each round, by method.
fn measures(said: &str, bytes: u64) -> Result<Vec<Measure>> {
    let times: Value = serde_json::from_str(said.trim())?;
    let rate = |(way, name): &(&str, &'static str)| {
        let seconds = times[*way].as_array().with_context(|| format!("{way} is missing"))?;
        let rates: Vec<f64> = seconds
            .iter()
            .filter_map(Value::as_f64)
            .map(|time| bytes as f64 / 1e6 / time)
            .collect();
        ensure!(rates.len() == seconds.len(), "{way}: not all are times");
        let summary = Summary::of(rates).with_context(|| format!("{way}: no round"))?;
        Ok(Measure::new(*name, "MB/s", summary))
    };
    let mut measures: Vec<Measure> = WAYS.iter().map(rate).collect::<Result<_>>()?;
    let each = measures[0].plain.summary.median;
    if let Some(ours) = measures.pop() {
        measures.push(
            ours.at_least(
                FACTOR * each,
                format!("{FACTOR} x one cat_file for each range, {each:.0}"),
            ),
        );
    }
    Ok(measures)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_ten_times_one_read_for_each_range() {
        let said = r#"{"cat_ranges": [0.1, 0.2, 0.1], "cat_file each": [1.5, 1.5, 2],
            "read_at each, open": [0.5]}"#;
        let measures = measures(said, 1_000_000).unwrap();
        let names: Vec<&str> = measures.iter().map(|measure| measure.name.as_str()).collect();
        assert_eq!(
            names,
            ["python.cat_file_per_range", "python.read_at_per_range", "python.cat_ranges"]
        );
        let ours = &measures[2].plain;
        assert_eq!((ours.summary.median, ours.holds()), (10.0, Some(true)));
        assert!((ours.target.as_ref().unwrap().limit() - 10.0 / 1.5).abs() < 1e-9);
    }

    #[test]
    fn a_way_that_was_not_measured_is_an_error() {
        let error = measures(r#"{"cat_ranges": [0.1], "cat_file each": []}"#, 1).unwrap_err();
        assert_eq!(error.to_string(), "cat_file each: no round");
        assert!(measures(r#"{"cat_ranges": [0.1], "cat_file each": ["x"]}"#, 1).is_err());
        assert!(measures("", 1).is_err());
    }
}
