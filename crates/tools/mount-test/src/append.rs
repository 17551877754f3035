//! Records appended by several processes on several mounts: none is torn or lost, and each writer's
//! records are in order.

use anyhow::{Context, Result, ensure};
use braid_types::Random;

use crate::{
    actor::handle::Handle,
    cases::{Case, Outcome, TestDirs},
};

/// Number of processes that append.
const WRITERS: u32 = 4;
/// Records of each process.
const RECORDS: u32 = 5_000;
const RECORDS_FULL: u32 = 100_000;
/// Maximum length of a record's filling: records of many lengths cross stripes in many ways.
const FILLING_MAX: u64 = 600;

pub const CASES: &[Case] = &[Case { name: "append::no_record_is_torn_or_lost", run: appended }];

/// `writer sequence filling checksum`, one line.
pub fn record(writer: u32, sequence: u32, random: &mut Random) -> Vec<u8> {
    let letter = char::from(b'a' + (random.below(26)) as u8);
    let filling: String =
        std::iter::repeat_n(letter, random.below(FILLING_MAX) as usize + 1).collect();
    let text = format!("{writer} {sequence} {filling}");
    format!("{text} {:08x}\n", checksum(text.as_bytes())).into_bytes()
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

pub fn appended(ground: &TestDirs) -> Result<Outcome> {
    let records = ground.size(RECORDS, RECORDS_FULL);
    std::fs::write(ground.first().join("appended"), "")?;
    let mut actors: Vec<Handle> = (0..WRITERS).map(|_| Handle::start()).collect::<Result<_>>()?;
    for (writer, actor) in actors.iter_mut().enumerate() {
        let path = ground.dir_of_turn(writer).join("appended");
        let seed = ground.seed.wrapping_add(writer as u64);
        let path = path.to_str().context("the path is not UTF-8")?;
        actor.send(&[
            "append",
            path,
            &writer.to_string(),
            &records.to_string(),
            &seed.to_string(),
        ])?;
    }
    for actor in &actors {
        let answer = actor
            .answer_within(std::time::Duration::from_secs(1200))?
            .context("over 20 minutes")?;
        ensure!(answer.starts_with("ok "), "{answer}");
    }
    for dir in &ground.dirs {
        judge(&std::fs::read(dir.join("appended"))?, records)
            .with_context(|| format!("read by {}", dir.display()))?;
    }
    Ok(Outcome::Passed(format!("{} records by {WRITERS} processes", records * WRITERS)))
}

/// Every record of every writer is there once, complete, and in its writer's order.
fn judge(found: &[u8], records: u32) -> Result<()> {
    let mut next = [0; WRITERS as usize];
    let mut offset = 0;
    for line in found.split_inclusive(|byte| *byte == b'\n') {
        let (writer, sequence) = parse(line).with_context(|| {
            format!(
                "torn at offset {offset}: {:?}",
                String::from_utf8_lossy(&line[..line.len().min(80)])
            )
        })?;
        let wanted = next
            .get_mut(writer as usize)
            .with_context(|| format!("writer {writer} at offset {offset}"))?;
        ensure!(
            sequence == *wanted,
            "writer {writer}: record {sequence} at offset {offset}, expected {wanted}: \
             lost or out of order"
        );
        *wanted += 1;
        offset += line.len();
    }
    ensure!(
        next == [records; WRITERS as usize],
        "records lost at the end: {next:?} of {records} each"
    );
    Ok(())
}

fn parse(line: &[u8]) -> Option<(u32, u32)> {
    let text = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (text, sum) = text.rsplit_once(' ')?;
    let mut words = text.split(' ');
    let numbers = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (u32::from_str_radix(sum, 16).ok()? == checksum(text.as_bytes())).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(records: u32) -> Vec<Vec<u8>> {
        let mut random = Random::new(1);
        let all =
            (0..records).flat_map(|sequence| (0..WRITERS).map(move |writer| (writer, sequence)));
        all.map(|(writer, sequence)| record(writer, sequence, &mut random)).collect()
    }

    #[test]
    fn a_whole_file_passes() {
        judge(&file(3).concat(), 3).unwrap();
    }

    #[test]
    fn a_lost_a_torn_and_a_doubled_record_are_found() {
        let whole = file(3);
        let mut lost = whole.clone();
        lost.remove(5);
        assert!(judge(&lost.concat(), 3).unwrap_err().to_string().contains("lost"));
        let mut last = whole.clone();
        last.pop();
        assert!(judge(&last.concat(), 3).unwrap_err().to_string().contains("lost at the end"));
        let mut doubled = whole.clone();
        doubled.insert(4, whole[4].clone());
        assert!(judge(&doubled.concat(), 3).is_err());
        let mut torn = whole.concat();
        torn[whole[0].len() + 6] = 0;
        assert!(judge(&torn, 3).unwrap_err().to_string().contains("torn"));
    }
}
