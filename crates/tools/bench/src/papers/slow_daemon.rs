//! One slow daemon: the papers' systems run at the pace of the slowest.

use std::time::Duration;

use anyhow::Result;
use braid_netlab::{Delay, Spec};

use super::{
    Papers, Sample, measures,
    one_client::{DAEMONS, GIGABIT, one_task},
    tasks::{DIRECTIONS, fill, together},
    with_target,
};
use crate::measure::Measure;

/// Ten times the round trip between two hosts of a lab (0.2 ms), half of it in each direction.
const EACH_WAY: Duration = Duration::from_millis(1);
/// The daemons without delay: all but the last.
const OTHERS: u16 = 3;

/// `late`: a file on the other three, with and without a slow fourth daemon; and one on all four.
pub fn run(papers: &Papers) -> Result<Vec<Measure>> {
    let spec = Spec { iods: DAEMONS, rate: GIGABIT, ..Spec::default() };
    let even = papers.lab(&spec, &[(0, 0)])?;
    let delays = vec![Delay { iod: DAEMONS - 1, each_way: EACH_WAY }];
    let late = papers.lab_at(&Spec { delays, ..spec }, even.divide)?;
    let on_others = one_task(papers, even.lab.spec().rate);
    let mut on_all = on_others.clone();
    on_all.iter_mut().for_each(|task| task.path = "/all".to_owned());
    for lab in [&even.lab, &late.lab] {
        fill(papers, lab, &on_others, Some(OTHERS))?;
        fill(papers, lab, &on_all, None)?;
    }
    let mut all = Vec::new();
    for way in DIRECTIONS {
        let (mut without, mut beside, mut with) = (
            || together(papers, &even.lab, &on_others, way),
            || together(papers, &late.lab, &on_others, way),
            || together(papers, &late.lab, &on_all, way),
        );
        let samples = papers.alternate::<Sample>(&mut [&mut without, &mut beside, &mut with])?;
        let word = way.word();
        let (without, _) = measures(&format!("late.nobody.{word}"), &samples[0]);
        let what = format!("where no daemon is late{}, ", even.rate_note());
        let limit = without.plain.summary.median;
        all.push(without);
        all.extend(with_target(&format!("late.not_on_it.{word}"), &samples[1], 0.98, limit, &what));
        all.push(measures(&format!("late.on_it.{word}"), &samples[2]).0);
    }
    Ok(all)
}
