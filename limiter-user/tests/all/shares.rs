//! Every limit gets its share of the table, and a limit that a flood of new sources robs of it gets a warning.

use limiter_config::{
    file,
    settings::SOURCES_MAX,
    shares::{Claim, divide, entries},
};
use proptest::prelude::*;

fn claims() -> impl Strategy<Value = Vec<Claim>> {
    let claim = (any::<bool>(), any::<bool>()).prop_map(|(single, quick)| Claim { single, quick });
    prop::collection::vec(claim, 1..=33)
}

proptest! {
    /// This holds whatever other limits hold within their bounds.
    #[test]
    fn shares_of_all_limits_fit_into_the_table(max_sources in 1..=SOURCES_MAX, claims in claims()) {
        let entries = entries(max_sources);
        let shares = divide(entries, &claims);
        if shares.room > 0 {
            let sum: u64 = shares.by_limit.iter().map(|share| u64::from(share.entries)).sum();
            prop_assert!(sum <= shares.room.into() && shares.room <= entries);
            for share in &shares.by_limit {
                let others = sum - u64::from(share.entries);
                prop_assert!(u64::from(share.most) + others <= shares.room.into());
                prop_assert!(share.entries > 0);
            }
        }
    }
}

#[test]
fn only_a_slow_limit_gets_a_table_warning() {
    let text = "[[limit]]\nname = \"ssh\"\nrate = \"5/h\"\nburst = 5\n[[limit]]\nname = \"web\"\nrate = \"1000/s\"\n";
    let warnings_with = |lines: &str| {
        let parsed = file::parse(&format!("{lines}{text}"), std::path::Path::new("."));
        parsed.unwrap().settings.table_warnings(1_522).unwrap()
    };
    assert_eq!(
        warnings_with(""),
        [
            "a flood of new sources fills the table for limit 'ssh' (14336 entries), because each entry is kept for 12m; new sources at the permitted rate need 7200000 entries"
        ]
    );
    assert_eq!(warnings_with("new_sources = \"19/s\"\n"), [""; 0]);
    assert_eq!(warnings_with("new_sources = \"20/s\"\n").len(), 1);
    // A held bucket keeps its entry for the hold and the time to fill it.
    let held = text.replace("1000/s\"", "1000/s\"\nhold = \"10m\"");
    let parsed = file::parse(&held, std::path::Path::new("."));
    let warnings = parsed.unwrap().settings.table_warnings(1_522).unwrap();
    assert_eq!(
        warnings[1..],
        [
            "a flood of new sources fills the table for limit 'web' (28672 entries), because each entry is kept for 10m 1s by a hold (write a shorter one); new sources at the permitted rate need 6010000 entries"
        ]
    );
    // Keys of pairs take two entries.
    let pairs = text.replacen("burst = 5", "burst = 5\nkey = \"source + destination\"", 1);
    let of_pairs = |new_sources: &str| {
        let file = format!("new_sources = \"{new_sources}\"\n{pairs}");
        let parsed = file::parse(&file, std::path::Path::new("."));
        parsed
            .unwrap()
            .settings
            .table_warnings(1_522)
            .unwrap()
            .len()
    };
    assert_eq!(["9/s", "10/s"].map(of_pairs), [0, 1]);
}

/// A limit that keeps entries for longer than 10 seconds may not borrow entries.
#[test]
fn limit_with_a_long_hold_is_not_quick() {
    let borrows = |hold: &str| {
        let limit = "[[limit]]\nname = \"one\"\nrate = \"1000/s\"\n";
        let text = format!("{limit}hold = \"{hold}\"\n{}", limit.replace("one", "two"));
        let settings = file::parse(&text, std::path::Path::new("."))
            .unwrap()
            .settings;
        let shares = settings.table_shares(1_522).unwrap();
        shares
            .by_limit
            .iter()
            .map(|share| share.borrows)
            .collect::<Vec<_>>()
    };
    assert_eq!(borrows("9s"), [true, true]);
    assert_eq!(borrows("9001ms"), [false, true]);
}
