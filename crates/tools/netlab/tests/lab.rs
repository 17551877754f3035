//! A lab starts, transfers data, keeps its rates, loses hosts and gets them back, and leaves
//! nothing.

mod harness;

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use braid_client::{Client, OpenOptions};
use braid_netlab::{Delay, Spec};
use braid_testbed::{random::noise, shell::sh, wait::wait_for};
use harness::{PATIENCE, eventually, lab, namespaces};

/// Enough data for every daemon of a small lab.
const STRIPES: usize = 8 << 20;

/// Creates a file of `bytes` bytes with the pattern.
fn write(client: &Client, path: &str, bytes: usize) {
    let options = OpenOptions::new().read(true).write(true).create(true);
    let file = client.open(path, &options).unwrap();
    file.write_at(&noise(bytes, 1), 0).unwrap();
    file.close().unwrap();
}

/// The expected content of a file of `bytes` bytes.
fn read(client: &Client, path: &str, bytes: usize) -> braid_client::Result<Vec<u8>> {
    let file = client.open(path, &OpenOptions::new().read(true))?;
    let mut buffer = vec![0; bytes];
    let count = file.read_at(&mut buffer, 0)?;
    buffer.truncate(count);
    Ok(buffer)
}

#[test]
fn bytes_come_back_and_no_link_is_faster_than_its_rate() {
    const BYTES: usize = 20_000_000;
    const MBIT: u64 = 100;
    let Some(lab) = lab(Spec { iods: 2, rate: MBIT * 1_000_000, ..Spec::default() }) else {
        return;
    };
    let time = lab.client_host(0).unwrap().inside(|| {
        let client = lab.connect(PATIENCE)?;
        write(&client, "/file", BYTES);
        let start = std::time::Instant::now();
        assert_eq!(read(&client, "/file", BYTES)?, noise(BYTES, 1));
        Ok(start.elapsed())
    });
    let mbit_per_second = BYTES as f64 * 8e-6 / time.unwrap().as_secs_f64();
    // Only the upper bound is checked: the slowdown of a busy machine is unknown. The initial
    // content of the buckets passes without delay.
    assert!(mbit_per_second < MBIT as f64, "{mbit_per_second:.1} Mbit/s on a link of {MBIT}");
}

#[test]
fn commands_on_a_client_find_the_cluster_by_their_environment() {
    let Some(lab) = lab(Spec { iods: 1, cards: 2, ..Spec::default() }) else { return };
    let host = lab.client_host(0).unwrap();
    let braid = harness::braid();
    let said = host
        .command(braid.path())
        .args(["ls", "/", "--json"])
        .envs(lab.environment())
        .output()
        .unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    // Clients get both interfaces of the daemon, and can reach both.
    let addresses = host
        .inside(|| Ok(lab.connect(PATIENCE)?.cluster_map()?.iods[0].addresses.clone()))
        .unwrap();
    assert_eq!(addresses, ["10.77.0.10:7700", "10.77.1.10:7700"]);
    for address in addresses {
        host.inside(|| Ok(std::net::TcpStream::connect(&address)?)).unwrap();
    }
}

#[test]
fn a_partitioned_daemon_is_an_error_that_names_it_and_heals() {
    const BYTES: usize = STRIPES;
    let Some(lab) = lab(Spec { iods: 2, ..Spec::default() }) else { return };
    let host = lab.client_host(0).unwrap();
    host.inside(|| lab.connect(PATIENCE).map(|client| write(&client, "/file", BYTES))).unwrap();
    let error = host.inside(|| {
        let client = lab.connect(Duration::from_secs(3))?;
        // Opened before: to find out a size, the metadata server waits for all daemons.
        let file = client.open("/file", &OpenOptions::new().read(true))?;
        lab.network().partition("iod1")?;
        Ok(file
            .read_at(&mut vec![0; BYTES], 0)
            .expect_err("half of it is out of reach")
            .to_string())
    });
    let error = error.unwrap();
    assert!(error.contains("I/O daemon") && error.contains("10.77.0.11"), "{error}");
    lab.network().heal("iod1").unwrap();
    host.inside(|| {
        let client = lab.connect(PATIENCE)?;
        assert_eq!(eventually(|| read(&client, "/file", BYTES)), noise(BYTES, 1));
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_dead_host_is_an_error_and_comes_back_with_what_it_acknowledged() {
    const BYTES: usize = STRIPES;
    let Some(mut lab) = lab(Spec { iods: 2, ..Spec::default() }) else { return };
    let host = lab.client_host(0).unwrap().clone();
    host.inside(|| lab.connect(PATIENCE).map(|client| write(&client, "/file", BYTES))).unwrap();
    lab.kill("iod0").unwrap();
    host.inside(|| {
        let client = lab.connect(Duration::from_secs(3))?;
        assert!(read(&client, "/file", BYTES).is_err());
        Ok(())
    })
    .unwrap();
    lab.restart("iod0").unwrap();
    host.inside(|| {
        let client = lab.connect(PATIENCE)?;
        assert_eq!(eventually(|| read(&client, "/file", BYTES)), noise(BYTES, 1));
        Ok(())
    })
    .unwrap();
    lab.check_alive().unwrap();
}

#[test]
fn a_stopped_host_holds_a_call_up_until_it_goes_on() {
    const BYTES: usize = 1 << 20;
    let Some(mut lab) = lab(Spec { iods: 1, ..Spec::default() }) else { return };
    let host = lab.client_host(0).unwrap().clone();
    host.inside(|| lab.connect(PATIENCE).map(|client| write(&client, "/file", BYTES))).unwrap();
    lab.stop("iod0").unwrap();
    host.inside(|| {
        let client = lab.connect(Duration::from_secs(2))?;
        assert!(read(&client, "/file", BYTES).is_err());
        Ok(())
    })
    .unwrap();
    lab.resume("iod0").unwrap();
    host.inside(|| {
        let client = lab.connect(PATIENCE)?;
        assert_eq!(eventually(|| read(&client, "/file", BYTES)), noise(BYTES, 1));
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_daemon_behind_a_relay_answers_no_earlier_than_its_delay() {
    let each_way = Duration::from_millis(200);
    let Some(lab) =
        lab(Spec { iods: 1, delays: vec![Delay { iod: 0, each_way }], ..Spec::default() })
    else {
        return;
    };
    lab.client_host(0)
        .unwrap()
        .inside(|| {
            let client = lab.connect(PATIENCE)?;
            write(&client, "/file", 1 << 20);
            let file = client.open("/file", &OpenOptions::new().read(true))?;
            let start = std::time::Instant::now();
            assert_eq!(file.read_at(&mut [0; 4096], 0)?, 4096);
            assert!(start.elapsed() >= 2 * each_way, "{:?}", start.elapsed());
            Ok(())
        })
        .unwrap();
}

#[test]
fn packets_that_are_lost_are_sent_again_and_no_byte_is() {
    const BYTES: usize = 4 << 20;
    let Some(lab) = harness::lossy_lab(Spec { iods: 1, loss: 0.01, ..Spec::default() }) else {
        return;
    };
    lab.client_host(0)
        .unwrap()
        .inside(|| {
            let client = lab.connect(PATIENCE)?;
            write(&client, "/file", BYTES);
            assert_eq!(read(&client, "/file", BYTES)?, noise(BYTES, 1));
            Ok(())
        })
        .unwrap();
    assert!(lab.counters().unwrap().retransmits > 0, "of 5,600 packets not one was lost at 1 %");
}

#[test]
fn many_daemons_that_answer_at_once_do_not_overflow_the_clients_port() {
    const BYTES: usize = 16 << 20;
    let Some(lab) = lab(Spec { iods: 8, rate: 100_000_000, queue: 64 << 10, ..Spec::default() })
    else {
        return;
    };
    let sent_again = lab.client_host(0).unwrap().inside(|| {
        write(&lab.connect(PATIENCE)?, "/file", BYTES);
        let client = lab.connect(PATIENCE)?;
        let before = lab.counters()?;
        assert_eq!(read(&client, "/file", BYTES)?, noise(BYTES, 1));
        Ok(lab.counters()? - before)
    });
    // Of 11,600 segments; over 1,000 if each daemon sends as its own connection permits.
    let sent_again = sent_again.unwrap().retransmits;
    assert!(sent_again < 200, "{sent_again} segments were sent again");
}

#[test]
fn a_dropped_lab_leaves_nothing() {
    let Some(lab) = lab(Spec { iods: 1, ..Spec::default() }) else { return };
    let own: Vec<String> =
        lab.network().hosts().iter().map(|host| host.namespace.clone()).collect();
    let dir = lab.dir().to_owned();
    assert!(own.iter().all(|name| namespaces().contains(name)) && dir.exists());
    drop(lab);
    assert!(!own.iter().any(|name| namespaces().contains(name)), "{own:?} of {:?}", namespaces());
    assert!(!dir.exists());
}

#[test]
fn a_lab_whose_process_was_killed_leaves_nothing() {
    if harness::unable() {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid-netlab"));
    command
        .args(["--iods", "1", "run", "sh", "-c", "echo up; sleep 1000"])
        .env("BRAID_BIN", harness::braid().path());
    let mut lab = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(lab.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    assert_eq!(line, "up\n");
    let prefix = format!("braid-lab-{}-", lab.id());
    assert!(namespaces().iter().any(|name| name.starts_with(&prefix)));
    lab.kill().unwrap();
    lab.wait().unwrap();
    wait_for("its namespaces are gone", || {
        !namespaces().iter().any(|name| name.starts_with(&prefix))
    });
}

#[test]
fn what_a_dead_process_left_is_removed_by_the_next_lab() {
    if harness::unable() {
        return;
    }
    let mut dead = Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    let name = format!("braid-lab-{}-0-iod0", dead.id());
    sh("ip netns add \"$1\"", &[&name]).unwrap();
    let Some(_lab) = lab(Spec { iods: 1, ..Spec::default() }) else { return };
    assert!(!namespaces().contains(&name));
}
