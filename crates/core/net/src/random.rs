//! Random bytes of the system.
//!
//! Not by way of aws-lc: the first time in a process it draws from a source of its own too, which takes 30 ms of the processor, and most
//! processes that connect live no longer (`braid ls`, each rank of a parallel program).

/// Fresh random bytes, good enough for keys.
///
/// # Panics
/// When the system has none.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    bytes
}
