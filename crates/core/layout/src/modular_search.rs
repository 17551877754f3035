//! The arithmetic that lets a job skip instead of scan: it finds the first `i` for which `a*i mod
//! m` lies in an interval, with an algorithm like Euclid's.

/// The greatest common divisor; `gcd(0, b) == b`.
pub(crate) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while a != 0 {
        (a, b) = (b % a, a);
    }
    b
}

/// The least `i >= 1` with `low <= (step * i) mod modulus <= high`, or `None` when there is none.
///
/// Requires `1 <= low <= high < modulus`. O(log modulus): either a multiple of `step` lies in the
/// interval before the first wrap at the modulus, or the number of wraps solves the same problem
/// modulo `step`.
pub(crate) fn first_multiple_in(step: u64, modulus: u64, low: u64, high: u64) -> Option<u64> {
    debug_assert!(1 <= low && low <= high && high < modulus);
    let step = step % modulus;
    if step == 0 {
        return None;
    }
    let direct = low.div_ceil(step);
    if direct <= high / step {
        return Some(direct);
    }
    // No multiple of `step` is in [low, high]. So neither bound is one, and both lie between the
    // same two.
    let wraps = first_multiple_in(modulus % step, step, step - high % step, step - low % step)?;
    // The result is below `modulus`; the product may not be.
    match wraps.checked_mul(modulus).and_then(|all| all.checked_add(low)) {
        Some(target) => Some(target.div_ceil(step)),
        None => Some(
            (u128::from(wraps) * u128::from(modulus) + u128::from(low)).div_ceil(u128::from(step))
                as u64,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scanned(step: u64, modulus: u64, low: u64, high: u64) -> Option<u64> {
        (1..=modulus).find(|i| (low..=high).contains(&(step * i % modulus)))
    }

    #[test]
    fn first_multiple_agrees_with_scanning_for_all_small_moduli() {
        for modulus in 2..14 {
            for step in 0..2 * modulus {
                for low in 1..modulus {
                    for high in low..modulus {
                        assert_eq!(
                            first_multiple_in(step, modulus, low, high),
                            scanned(step, modulus, low, high),
                            "{step} * i mod {modulus} in {low}..={high}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn first_multiple_holds_at_the_64_bit_edge() {
        let m = u64::MAX;
        assert_eq!(first_multiple_in(m - 1, m, 1, 1), Some(m - 1), "-i = 1");
        assert_eq!(first_multiple_in(2, m, 1, 1), Some(m / 2 + 1));
        assert_eq!(first_multiple_in(3, m, 1, 2), None, "3 divides 2^64-1");
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn first_multiple_is_a_hit_and_the_first(
            step in 0u64..3000,
            m in 2u64..2000,
            a in 0u64..2000,
            b in 0u64..2000,
        ) {
            let (a, b) = (1 + a % (m - 1), 1 + b % (m - 1));
            prop_assert_eq!(
                first_multiple_in(step, m, a.min(b), a.max(b)),
                scanned(step, m, a.min(b), a.max(b))
            );
        }

        #[test]
        fn first_multiple_of_large_moduli_is_a_hit(
            step: u64,
            m in 2u64..,
            low: u64,
            width in 0u64..1 << 40,
        ) {
            let low = 1 + low % (m - 1);
            let high = low.saturating_add(width).min(m - 1);
            if let Some(i) = first_multiple_in(step, m, low, high) {
                let at = (u128::from(step) * u128::from(i) % u128::from(m)) as u64;
                prop_assert!((low..=high).contains(&at));
            }
        }
    }
}
