//! A row measured again with encrypted connections, next to the plain ones.

use crate::measure::Measure;

/// The limit of TLS's CPU time, as a multiple of the plain connection's.
const CPU_FACTOR_MAX: f64 = 2.5;
/// Parts of the names of measures without connections of ours.
const NOT_OURS: [&str; 3] = [".limit", ".iperf3", ".passthrough"];

/// Each measure with that of the same name over TLS. The target is for the CPU time of each byte.
pub fn beside(plain: Vec<Measure>, tls: &[Measure]) -> Vec<Measure> {
    let over = |measure: &Measure| {
        let is_ours = NOT_OURS.iter().all(|part| !measure.name.contains(part));
        let other = tls.iter().find(|other| is_ours && other.name == measure.name)?;
        Some(other.plain.summary)
    };
    plain
        .into_iter()
        .map(|measure| match (over(&measure), measure.unit) {
            (summary @ Some(_), "s/GiB") => measure.beside_tls_at_most(summary, CPU_FACTOR_MAX),
            (summary, _) => measure.beside_tls(summary),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_testbed::stats::Summary;

    #[test]
    fn the_cpu_of_tls_has_a_bar_its_rate_has_none_and_others_have_no_tls() {
        let measures = |rate: f64, cpu: f64| {
            [
                ("a", "MB/s", rate),
                ("a.cpu", "s/GiB", cpu),
                ("a.limit", "MB/s", 9.0),
                ("a.iperf3.cpu", "s/GiB", 1.0),
            ]
            .map(|(name, unit, value)| Measure::new(name, unit, Summary::once(value)))
            .to_vec()
        };
        let all = beside(measures(100.0, 1.0), &measures(80.0, 2.6));
        let tls: Vec<Option<Option<bool>>> = all
            .iter()
            .map(|measure| measure.tls.as_ref().map(crate::measure::Value::holds))
            .collect();
        assert_eq!(tls, [Some(None), Some(Some(false)), None, None]);
        assert_eq!(all[0].tls.as_ref().unwrap().summary.median, 80.0);
        assert_eq!(
            beside(measures(100.0, 1.0), &measures(80.0, 2.5))[1].tls.as_ref().unwrap().holds(),
            Some(true)
        );
        assert!(beside(measures(1.0, 1.0), &[]).iter().all(|measure| measure.tls.is_none()));
    }
}
