//! Labels of the papers' measures in plots.

use braid_bench_user::report::chart::Owner;

/// The heading and the label of a bar, and its owner.
#[derive(PartialEq, Debug)]
pub struct Label {
    pub group: String,
    pub label: String,
    pub owner: Owner,
}

/// The title of a row's plot.
pub fn title(row: &str) -> Option<&'static str> {
    Some(match row {
        "fast_client" => "A client of 4 Gbit/s and 1 to 4 data servers of 1 Gbit/s",
        "mount" => "Clients of 1 and 4 Gbit/s through a mount, 1 to 4 data servers",
        "mpi" => "Clients of 1 and 4 Gbit/s through MPI-IO, 1 to 4 data servers",
        "incast" => "One client of 1 Gbit/s reads from many data servers",
        "clients" => "8 clients and 6 data servers",
        "small_calls" => "8 clients, 6 data servers: small calls through mounts",
        "client_count" => "1 to 8 clients of 1 Gbit/s and 6 data servers",
        "slow_lines" => "1 to 8 clients of 100 Mbit/s and 6 data servers",
        "patterns" => "Access patterns of programs: 8 tasks, 6 data servers",
        "cards" => "60 tasks on 15 hosts, 4 data servers of 2 x 1 Gbit/s",
        "streams" => "1 to 16 hosts and 4 data servers of 2 x 1 Gbit/s",
        "late" => "One data server has 10 times the delay of the others",
        "request_size" => "Calls of 16 KiB to 4 MiB at 100 Mbit/s, one data server",
        "daemon_count" => "1 to 8 data servers at 100 Mbit/s",
        "stripe_size" => "Stripes of 4 to 256 KiB at 100 Mbit/s, 4 data servers",
        "partition" => "4 tasks read their parts of one file at 100 Mbit/s",
        _ => return None,
    })
}

/// What limits a row in its plot.
pub fn limit(row: &str) -> &'static str {
    match row {
        "mpi" => "the library in the same run",
        "incast" => "with 2 data servers",
        "late" => "where no server is late",
        "patterns" => "the limit that braid bench names",
        _ => "what the links carry",
    }
}

/// `name` is what follows the row's name; `None` for measures without a bar in the plot.
pub fn of(row: &str, name: &str) -> Option<Label> {
    let parts: Vec<&str> = name.split('.').collect();
    let ours = |group: String, label: String| Some(Label { group, label, owner: Owner::Ours });
    let reference =
        |group: String, label: String| Some(Label { group, label, owner: Owner::Reference });
    match (row, parts.as_slice()) {
        ("fast_client", [count, way]) => ours(servers(count), way_of(way)?),
        ("fast_client", [count, way, "iperf3"]) => {
            reference(servers(count), format!("iperf3, {}", way_of(way)?))
        }
        ("mount" | "mpi", ["one_client", way]) => {
            ours("Client of 1 Gbit/s, 4 data servers".to_owned(), way_of(way)?)
        }
        ("mount" | "mpi", ["fast_client", count, way]) => {
            ours(format!("Client of 4 Gbit/s, {}", servers(count)), way_of(way)?)
        }
        ("incast", [queue, "iperf3_16"]) => {
            reference(switch(queue), "16 iperf3 streams".to_owned())
        }
        ("incast", [queue, count]) => ours(switch(queue), servers(count)),
        ("clients", [files, way]) => ours(files_of(files)?, way_of(way)?),
        ("small_calls", [files, way, size @ ("8KiB" | "2MiB")]) => ours(
            format!("{}, {}", files_of(files)?, way_of(way)?),
            format!("calls of {}", bytes(size)),
        ),
        ("client_count" | "slow_lines", [files, count, way]) => {
            ours(format!("{}, {}", files_of(files)?, way_of(way)?), counted(count, "client"))
        }
        ("patterns", ["atlas"]) => {
            ours("ATLAS, writes of many sizes".to_owned(), "write".to_owned())
        }
        ("patterns", ["btio", way]) => ours("BTIO, blocks of an array".to_owned(), way_of(way)?),
        ("cards", [way]) => ours("All tasks together".to_owned(), way_of(way)?),
        ("streams", [shape, way]) => {
            let (hosts, tasks) = shape.split_once('x')?;
            ours(
                format!("{} on each host, {}", counted(tasks, "task"), way_of(way)?),
                counted(hosts, "host"),
            )
        }
        ("late", [whose, way]) => ours(capital(&way_of(way)?), late(whose)?.to_owned()),
        ("request_size", [size, way]) => {
            ours(capital(&way_of(way)?), format!("calls of {}", bytes(size)))
        }
        ("daemon_count", [count, size]) => {
            ours(capital(&servers(count)), format!("calls of {}", bytes(size)))
        }
        ("stripe_size", [stripe, size]) => {
            ours(format!("Stripes of {}", bytes(stripe)), format!("calls of {}", bytes(size)))
        }
        ("partition", ["separate_files"]) => {
            ours("Each task its own file".to_owned(), "stripes of 16 KiB".to_owned())
        }
        ("partition", [shape]) => {
            let (group, stripe) = shape.split_once("_in_")?;
            let same = if group == stripe { " (as the stripe)" } else { "" };
            ours(
                format!("Stripes of {}", bytes(stripe)),
                format!("pieces of {}{same}", bytes(group)),
            )
        }
        _ => None,
    }
}

fn way_of(way: &str) -> Option<String> {
    matches!(way, "read" | "write").then(|| way.to_owned())
}

fn files_of(files: &str) -> Option<String> {
    match files {
        "separate" => Some("A file for each client".to_owned()),
        "one_file" => Some("One file for all".to_owned()),
        _ => None,
    }
}

fn late(whose: &str) -> Option<&'static str> {
    match whose {
        "nobody" => Some("no server is late"),
        "not_on_it" => Some("one is late, the file is not on it"),
        "on_it" => Some("one is late, the file is on it"),
        _ => None,
    }
}

fn servers(count: &str) -> String {
    counted(count, "data server")
}

fn switch(queue: &str) -> String {
    format!("Queue of the switch: {}", bytes(queue))
}

/// `2 clients`.
fn counted(count: &str, what: &str) -> String {
    format!("{count} {what}{}", if count == "1" { "" } else { "s" })
}

/// `16KiB` with a space before the unit.
fn bytes(size: &str) -> String {
    size.find(|character: char| !character.is_ascii_digit())
        .map_or_else(|| size.to_owned(), |at| format!("{} {}", &size[..at], &size[at..]))
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_has_a_group_a_label_and_an_owner() {
        let cases = [
            ("streams", "16x4.write", "4 tasks on each host, write", "16 hosts", Owner::Ours),
            ("fast_client", "1.read.iperf3", "1 data server", "iperf3, read", Owner::Reference),
            ("partition", "4KiB_in_16KiB", "Stripes of 16 KiB", "pieces of 4 KiB", Owner::Ours),
            (
                "partition",
                "4KiB_in_4KiB",
                "Stripes of 4 KiB",
                "pieces of 4 KiB (as the stripe)",
                Owner::Ours,
            ),
            ("late", "on_it.read", "Read", "one is late, the file is on it", Owner::Ours),
        ];
        for (row, name, group, label, owner) in cases {
            let wanted = Label { group: group.to_owned(), label: label.to_owned(), owner };
            assert_eq!(of(row, name), Some(wanted));
        }
        assert_eq!(of("small_calls", "separate.write.passthrough"), None);
        assert_eq!(of("unknown", "x"), None);
    }

    #[test]
    fn every_row_that_can_have_a_plot_has_a_title() {
        let own_code = ["one_client", "rivals"];
        let rows = crate::papers::ROWS.iter().filter(|row| !own_code.contains(&row.name));
        rows.for_each(|row| assert!(title(row.name).is_some(), "{}", row.name));
    }
}
