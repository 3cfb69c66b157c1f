//! How long to wait when the server does not say.

use core::time::Duration;

use crate::policy::{BACKOFF_BASE, BACKOFF_CAP, DIAL_BACKOFF_BASE, DIAL_BACKOFF_CAP};

/// The wait before a retry: `min(100 ms · 2^taken, 10 s)` times a factor in [0.5, 1). `taken` backoffs went before
/// it; `random` is in [0, 1).
pub fn backoff(taken: u32, random: f64) -> Duration {
    let doubled = 1_u32.checked_shl(taken).and_then(|factor| BACKOFF_BASE.checked_mul(factor));
    let full = doubled.map_or(BACKOFF_CAP, |wait| wait.min(BACKOFF_CAP));
    full.mul_f64(0.5 + 0.5 * unit(random))
}

/// The wait before an origin is dialled again: `min(0.5 s · 1.5^(failed - 1), 10 s)`, ± 50 %, and at most 10 s.
/// `failed` dials in a row went before it; `random` is in [0, 1). Growth stops before the jitter is applied, so that
/// clients which failed together do not end up dialling together.
pub fn dial_backoff(failed: u32, random: f64) -> Duration {
    let cap = DIAL_BACKOFF_CAP.as_secs_f64();
    let mut seconds = DIAL_BACKOFF_BASE.as_secs_f64();
    for _ in 1..failed {
        if seconds >= cap {
            break;
        }
        seconds *= 1.5;
    }
    Duration::from_secs_f64((seconds.min(cap) * (0.5 + unit(random))).min(cap))
}

/// A random number that a caller may have drawn wrongly.
pub(crate) fn unit(random: f64) -> f64 {
    if random >= 0.0 { random.min(1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wait_is_50_to_100_ms_and_the_longest_stays_below_10_s() {
        assert_eq!(backoff(0, 0.0), Duration::from_millis(50));
        assert!(backoff(0, 0.999_999) < Duration::from_millis(100));
        assert_eq!(backoff(6, 0.0), Duration::from_millis(3200));
        assert_eq!(backoff(7, 0.0), Duration::from_secs(5));
        for taken in [31, 32, u32::MAX] {
            assert_eq!(backoff(taken, 0.0), Duration::from_secs(5));
        }
    }

    #[test]
    fn dial_waits_grow_by_half_and_keep_their_jitter_at_the_cap() {
        assert_eq!(dial_backoff(1, 0.5), Duration::from_millis(500));
        assert_eq!(dial_backoff(2, 0.5), Duration::from_millis(750));
        assert_eq!(dial_backoff(1, 0.0), Duration::from_millis(250));
        assert_eq!(dial_backoff(u32::MAX, 0.999), DIAL_BACKOFF_CAP);
        assert_eq!(dial_backoff(u32::MAX, 0.0), Duration::from_secs(5));
    }

    #[test]
    fn a_random_number_out_of_range_does_no_harm() {
        for random in [-1.0, 2.0, f64::NAN, f64::INFINITY] {
            assert!(backoff(0, random) <= Duration::from_millis(100));
        }
    }
}
