//! A number from a daemon's Prometheus endpoint.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use anyhow::{Context, Result};

/// Queries `address` and returns the value of `name`.
pub fn metric(address: &str, name: &str) -> Result<u64> {
    let mut stream =
        TcpStream::connect(address).with_context(|| format!("query {address} for metrics"))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    find(&answer, name).with_context(|| format!("{address} has no metric {name}"))
}

fn find(answer: &str, name: &str) -> Option<u64> {
    let rest = answer
        .lines()
        .find_map(|line| line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' '])))?;
    rest.rsplit(' ').next()?.trim().parse::<f64>().ok().map(|value| value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let answer = "HTTP/1.0 200 OK\r\n\r\n# HELP braid_calls x\nbraid_calls_total{iod=\"3\"} \
            7\nbraid_calls 5\n";
        assert_eq!(find(answer, "braid_calls_total"), Some(7));
        assert_eq!(find(answer, "braid_calls"), Some(5));
        assert_eq!(find(answer, "braid_call"), None);
    }
}
