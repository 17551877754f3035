//! Random bytes of the system.
//!
//! Not from aws-lc: its first use in a process also draws from a source of its own, which takes 30
//! ms of processor time. Most processes that connect live no longer (`braid ls`, each rank of a
//! parallel program).

/// Fresh random bytes, suitable for keys.
///
/// # Panics
/// When the system has none.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    bytes
}
