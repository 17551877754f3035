//! Symbols to functions, and captures to what an operation executes.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Function,
    coverage::{Position, Record},
};

/// The functions of each file, by where they begin, with where they end.
pub struct Fold {
    files: BTreeMap<String, BTreeMap<Position, Position>>,
}

impl Fold {
    /// Of all symbols of a program.
    pub fn new(records: &[Record]) -> Self {
        let mut files: BTreeMap<String, BTreeMap<_, _>> = BTreeMap::new();
        for record in records.iter().filter(|record| !is_closure(&record.symbol)) {
            let end = files.entry(record.file.clone()).or_default().entry(record.start);
            let end = end.or_insert(record.end);
            *end = record.end.max(*end);
        }
        Self { files }
    }

    /// The line on which the function of this symbol begins. A closure's is the innermost function
    /// around it. The body of an `async fn` is not inside its function, but directly behind it.
    pub fn line(&self, record: &Record) -> u64 {
        let before = || {
            let functions = self.files.get(&record.file)?;
            let before = functions.range(..=record.start);
            let around = before.clone().rev().find(|(_, end)| **end >= record.end);
            around.or_else(|| before.clone().next_back()).map(|(start, _)| start.0)
        };
        let closure = is_closure(&record.symbol);
        closure.then(before).flatten().unwrap_or(record.start.0)
    }
}

/// Whether a mangled name (v0) is that of a closure or an `async` body.
fn is_closure(symbol: &str) -> bool {
    let path = symbol.strip_prefix("_R").unwrap_or_default();
    path.strip_prefix('I').unwrap_or(path).starts_with("NC")
}

/// What most captures of the operation have, without what most idle captures have.
pub fn in_most(
    operation: &[BTreeSet<Function>],
    idle: &[BTreeSet<Function>],
) -> BTreeSet<Function> {
    let most = |captures: &[BTreeSet<Function>], function: &Function| {
        2 * captures.iter().filter(|one| one.contains(function)).count() > captures.len()
    };
    let all: BTreeSet<&Function> = operation.iter().flatten().collect();
    let chosen = all.into_iter().filter(|f| most(operation, f) && !most(idle, f));
    chosen.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(symbol: &str, start: (u64, u64), end: (u64, u64)) -> Record {
        Record { symbol: symbol.to_owned(), file: "crates/a/src/lib.rs".to_owned(), start, end }
    }

    #[test]
    fn instances_of_a_generic_function_are_one() {
        let instances = [
            record("_RINvCs1_1a4readhE", (3, 1), (9, 2)),
            record("_RINvCs1_1a4readtE", (3, 1), (9, 2)),
        ];
        let fold = Fold::new(&instances);
        assert_eq!(instances.each_ref().map(|one| fold.line(one)), [3, 3]);
    }

    #[test]
    fn a_closure_is_the_innermost_function_around_it() {
        let outer = record("_RNvCs1_1a5outer", (3, 1), (20, 2));
        let inner = record("_RNvNvCs1_1a5outer5inner", (5, 5), (8, 6));
        let in_inner = record("_RNCNvNvCs1_1a5outer5inner0B5_", (6, 9), (6, 30));
        let in_outer = record("_RNCINvCs1_1a5outerhE0B5_", (12, 9), (14, 10));
        let nested = record("_RNCNCNvCs1_1a5outer00B7_", (13, 9), (13, 20));
        let fold = Fold::new(&[outer, inner, in_inner.clone(), in_outer.clone(), nested.clone()]);
        assert_eq!([&in_inner, &in_outer, &nested].map(|one| fold.line(one)), [5, 3, 3]);
    }

    #[test]
    fn the_body_of_an_async_function_is_that_function() {
        let earlier = record("_RNvCs1_1a5first", (1, 1), (3, 2));
        let function = record("_RNvCs1_1a4read", (5, 1), (5, 40));
        let body = record("_RNCNvCs1_1a4read0B3_", (5, 40), (9, 2));
        let fold = Fold::new(&[earlier, function, body.clone()]);
        assert_eq!(fold.line(&body), 5);
    }

    #[test]
    fn what_runs_in_the_background_or_now_and_then_is_left_out() {
        let function = |name: &str| Function {
            file: "crates/a/src/lib.rs".to_owned(),
            line: 1,
            name: name.to_owned(),
            short: false,
        };
        let capture = |names: &[&str]| names.iter().map(|name| function(name)).collect();
        let operation: [BTreeSet<Function>; 3] = [
            capture(&["read", "poll", "heartbeat"]),
            capture(&["read", "poll"]),
            capture(&["read", "poll", "retry"]),
        ];
        let idle: [BTreeSet<Function>; 3] =
            [capture(&["poll"]), capture(&["poll", "heartbeat"]), capture(&[])];
        assert_eq!(in_most(&operation, &idle), capture(&["read"]));
    }
}
