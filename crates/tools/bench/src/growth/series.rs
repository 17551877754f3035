//! Measurements along a size.

use braid_testbed::stats::Summary;
use serde_json::{Value as Json, json};

use super::{
    fit::{self, Cost, NonLinearStep, STEP_ROOM, WHOLE_ROOM},
    memory::Memory,
    reasons,
};
use crate::measure::Measure;

/// The unit of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// CPU in s/GiB, rates in MB/s.
    Gib,
    /// CPU in us for each, rates in operations a second.
    Each,
    /// CPU in us a second for each, no rates.
    Second,
}

impl Unit {
    /// The units of CPU and of rates.
    pub fn names(self) -> [&'static str; 2] {
        match self {
            Self::Gib => ["s/GiB", "MB/s"],
            Self::Each => ["us each", "per s"],
            Self::Second => ["us/s each", ""],
        }
    }
}

/// One size.
#[derive(Clone, Debug)]
pub struct Point {
    /// Number of daemons, clients, bytes, entries, parts or extents.
    pub size: u64,
    /// CPU time of all processes for a unit.
    pub cpu: Summary,
    /// The client's part; medians.
    pub client: f64,
    /// The metadata server's part.
    pub mds: f64,
    /// The part of all I/O daemons.
    pub iods: f64,
    /// Units a second, by wall-clock time.
    pub rate: Summary,
    /// Memory after it.
    pub memory: Memory,
}

/// One kind of work at several sizes.
#[derive(Clone, Debug)]
pub struct Series {
    name: &'static str,
    about: &'static str,
    unit: Unit,
    natural: f64,
    client: Option<&'static str>,
    points: Vec<Point>,
}

impl Series {
    /// A series whose unit should cost the same at every size.
    pub fn flat(name: &'static str, about: &'static str, unit: Unit) -> Self {
        Self { name, about, unit, natural: 0.0, client: None, points: Vec::new() }
    }

    /// A series whose unit touches everything that grows, so that its cost may grow with the size.
    pub fn linear(name: &'static str, about: &'static str, unit: Unit) -> Self {
        Self { natural: 1.0, ..Self::flat(name, about, unit) }
    }

    /// A series whose memory is shown too, as that of this client.
    pub fn with_memory_of(self, client: &'static str) -> Self {
        Self { client: Some(client), ..self }
    }

    /// Adds the next size.
    pub fn push(&mut self, point: Point) {
        eprintln!(
            "bench:   {} at {}: {:.3} {}",
            self.name,
            point.size,
            point.cpu.median,
            self.unit.names()[0]
        );
        self.points.push(point);
    }

    /// Whether it could not be measured.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    fn costs(&self) -> Vec<Cost> {
        self.points.iter().map(|point| (point.size, point.cpu)).collect()
    }

    fn steep(&self) -> Vec<NonLinearStep> {
        fit::steep(&self.costs(), self.natural)
    }

    fn to_json(&self) -> Json {
        let points: Vec<Json> = self.points.iter().map(point).collect();
        let steps: Vec<Option<f64>> = self.costs().windows(2).map(fit::of).collect();
        let named = |steep: &NonLinearStep| {
            json!({
                "from": steep.sizes.0, "to": steep.sizes.1,
                "exponent": steep.exponent, "limit": steep.limit })
        };
        json!({
            "name": self.name, "about": self.about,
            "cpu_unit": self.unit.names()[0], "rate_unit": self.unit.names()[1],
            "natural": self.natural, "memory_of": self.client,
            "exponent": fit::of(&self.costs()), "steps": steps,
            "steep": self.steep().iter().map(named).collect::<Vec<_>>(), "points": points,
        })
    }
}

fn point(point: &Point) -> Json {
    let Memory { client, mds, iod, iods } = point.memory;
    let summary = |summary: Summary| json!([summary.median, summary.min, summary.max]);
    json!({
        "size": point.size, "cpu": summary(point.cpu),
        "client": point.client, "mds": point.mds, "iods": point.iods,
        "rate": summary(point.rate),
        "memory": { "client": client, "mds": mds, "iod": iod, "iods": iods },
    })
}

/// All series of a curve.
#[derive(Debug)]
pub struct Curve {
    /// The name of its plan.
    pub name: &'static str,
    /// What was measured.
    pub series: Vec<Series>,
}

/// The memory of each kind of process, and its name.
type Part = (&'static str, fn(&Memory) -> u64);
const PARTS: [Part; 3] = [
    ("client", |memory| memory.client),
    ("mds", |memory| memory.mds),
    ("iod", |memory| memory.iod),
];

impl Curve {
    /// The stored form.
    pub fn to_json(&self, machine: &str) -> Json {
        let series: Vec<Json> = self.series.iter().map(Series::to_json).collect();
        json!({ "name": self.name, "machine": machine, "series": series })
    }

    /// An exponent for each series and for the memory of each kind, with its limit; and one for
    /// each reported range.
    pub fn measures(&self) -> Vec<Measure> {
        let command = format!("cargo xtask bench growth {}", self.name);
        let whole = self.series.iter().filter_map(|series| self.whole(series));
        let named = self
            .series
            .iter()
            .flat_map(|series| series.steep().into_iter().map(|steep| self.named(series, &steep)));
        whole.chain(self.memory()).chain(named).map(|measure| measure.made_by(&command)).collect()
    }

    fn whole(&self, series: &Series) -> Option<Measure> {
        let exponent = Summary::once(fit::of(&series.costs())?);
        let name = format!("growth.{}.{}.exponent", self.name, series.name);
        Some(
            Measure::new(name, "", exponent)
                .at_most(series.natural + WHOLE_ROOM, "cost of a unit against the size"),
        )
    }

    fn named(&self, series: &Series, steep: &NonLinearStep) -> Measure {
        let name = format!(
            "growth.{}.{}.from_{}_to_{}",
            self.name, series.name, steep.sizes.0, steep.sizes.1
        );
        Measure::new(name, "", Summary::once(steep.exponent)).at_most(
            steep.limit,
            format!("exponent between these sizes: {}", reasons::of(self.name, series.name)),
        )
    }

    /// The steepest step between neighbours: a base amount of memory would hide the growth in a fit
    /// of the whole.
    fn memory(&self) -> impl Iterator<Item = Measure> {
        PARTS.iter().filter_map(|(name, of)| {
            let points = &self.series.first()?.points;
            let logs: Vec<(f64, f64)> =
                points.iter().map(|point| (point.size as f64, of(&point.memory) as f64)).collect();
            let steepest = logs.windows(2).filter_map(fit::exponent).max_by(f64::total_cmp)?;
            let name = format!("growth.{}.memory.{name}.steepest", self.name);
            let limit = 1.0 + STEP_ROOM;
            Some(
                Measure::new(name, "", Summary::once(steepest))
                    .at_most(limit, "memory against the size, between neighbours"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(cost: impl Fn(u64) -> f64, bytes: impl Fn(u64) -> u64) -> Series {
        let mut series = Series::flat("read", "reading", Unit::Gib);
        for size in [1, 10, 100] {
            let memory = Memory { client: 7, mds: bytes(size), iod: 9, iods: 9 };
            let (cpu, rate) = (Summary::once(cost(size)), Summary::once(1.0));
            series.push(Point { size, cpu, client: 0.0, mds: 0.0, iods: 0.0, rate, memory });
        }
        series
    }

    fn broken(curve: &Curve) -> Vec<String> {
        let broken = |measure: &&Measure| measure.plain.holds() == Some(false);
        curve.measures().iter().filter(broken).map(|measure| measure.name.clone()).collect()
    }

    #[test]
    fn what_stays_breaks_nothing() {
        let curve = Curve { name: "daemons", series: vec![series(|_| 2.0, |size| 100 + size)] };
        assert_eq!(broken(&curve), [""; 0]);
        assert_eq!(curve.measures().len(), 4, "one of CPU, three of memory");
    }

    #[test]
    fn what_is_worse_than_linear_is_named_with_its_points() {
        let curve = Curve {
            name: "daemons",
            series: vec![series(|size| if size > 10 { 9.0 } else { 1.0 }, |size| size * size)],
        };
        let names = broken(&curve);
        for wanted in [
            "growth.daemons.read.exponent",
            "growth.daemons.read.from_10_to_100",
            "growth.daemons.memory.mds.steepest",
        ] {
            assert!(names.iter().any(|name| name == wanted), "{wanted} in {names:?}");
        }
    }

    #[test]
    fn the_json_has_points_steps_and_what_is_named() {
        let json = Curve { name: "x", series: vec![series(|size| size as f64, |_| 1)] }
            .to_json("a machine");
        let series = &json["series"][0];
        assert_eq!(
            (&json["machine"], series["points"].as_array().unwrap().len()),
            (&json!("a machine"), 3)
        );
        assert_eq!(series["steps"].as_array().unwrap().len(), 2);
        assert!((series["exponent"].as_f64().unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(series["steep"][0]["to"], 100);
    }
}
