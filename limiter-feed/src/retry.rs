//! The pause after a round that could not read its source, or did not believe it.

use std::time::{Duration, SystemTime};

use ureq::http::{HeaderMap, header::RETRY_AFTER};

/// The pause after the first failure. It doubles with each further one.
const FIRST: Duration = Duration::from_secs(5);

/// The longest pause of a feed with a shorter interval. The pauses of others grow to their interval.
const LATER: Duration = Duration::from_secs(60);

/// The longest pause that a server may ask for.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The failures since the last success.
#[derive(Debug, Default)]
pub struct Retry(u32);

impl Retry {
    /// Begins anew after a success.
    pub fn reset(&mut self) {
        self.0 = 0;
    }

    /// Counts a failure of a feed with this `interval`. Returns the pause, which is not shorter than `shortest`.
    pub fn failed(&mut self, shortest: Duration, interval: Duration) -> Duration {
        let growing = FIRST.saturating_mul(1 << self.0.min(16));
        self.0 = self.0.saturating_add(1);
        growing.min(interval.max(LATER)).max(shortest)
    }
}

/// The pause that a server asks for: seconds, or a date.
pub fn asked_for(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = text.parse().ok().map(Duration::from_secs);
    let until = || {
        httpdate::parse_http_date(text)
            .ok()?
            .duration_since(now)
            .ok()
    };
    Some(seconds.or_else(until)?.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_interval_and_begin_anew_after_a_success() {
        let seconds = Duration::from_secs;
        for (interval, shortest, pauses) in [
            (1, 0, &[5, 10, 20, 40, 60, 60][..]),
            (100, 0, &[5, 10, 20, 40, 80, 100, 100]),
            (3600, 0, &[5, 10, 20]),
            // A server that has answered is left alone for the interval.
            (3600, 3600, &[3600, 3600]),
            (5, 30, &[30, 30, 30, 40, 60]),
        ] {
            let mut retry = Retry::default();
            for pause in pauses {
                let found = retry.failed(seconds(shortest), seconds(interval));
                assert_eq!(found, seconds(*pause), "{interval} {shortest}");
            }
            retry.reset();
            let first = retry.failed(seconds(shortest), seconds(interval));
            assert_eq!(first, seconds(pauses[0]));
        }
        let mut long = Retry(u32::MAX);
        assert_eq!(long.failed(Duration::ZERO, seconds(3600)), seconds(3600));
    }

    #[test]
    fn servers_ask_for_seconds_or_name_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (value, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:49:30 GMT", None),
            ("99999999", Some(24 * 3600)),
            ("Sat, 06 Nov 2094 08:49:37 GMT", Some(24 * 3600)),
            ("soon", None),
            ("-1", None),
            ("1.5", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
            let pause = asked_for(&headers, now).map(|pause| pause.as_secs());
            assert_eq!(pause, seconds, "{value}");
        }
        assert_eq!(asked_for(&HeaderMap::new(), now), None);
    }
}
