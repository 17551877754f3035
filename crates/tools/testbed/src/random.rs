//! Pseudo-random numbers and bytes that are the same in each run.

pub use braid_types::Random;

/// Bytes without repetitions, which no compression can shorten; other ones for each seed.
pub fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut noise = Vec::with_capacity(bytes + 8);
    while noise.len() < bytes {
        noise.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    noise.truncate(bytes);
    noise
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_its_length_repeats_and_differs_by_seed() {
        assert_eq!(noise(13, 1), noise(21, 1)[..13]);
        assert_ne!(noise(13, 1), noise(13, 2));
        let noise = noise(1 << 16, 3);
        let words: std::collections::HashSet<&[u8]> = noise.chunks(8).collect();
        assert_eq!(words.len(), noise.len() / 8);
    }
}
