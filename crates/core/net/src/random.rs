//! Random bytes of the system.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};

/// Fresh random bytes, good enough for keys.
///
/// # Panics
/// When the system has none.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system has random bytes");
    bytes
}
