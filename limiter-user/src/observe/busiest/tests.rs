use proptest::prelude::*;

use super::*;

fn activity(order: u64) -> Activity {
    Activity {
        passed: order,
        over: order,
        drops: true,
        passed_since: order,
        over_since: order,
        tokens: 0.0,
    }
}

fn key(address: &str) -> SourceKey {
    Key::default().of(0, address.parse().unwrap(), 0)
}

fn sorted(order: Order, sources: &[(&'static str, Activity)]) -> Vec<&'static str> {
    let mut busiest = Busiest::new(sources.len());
    for (address, activity) in sources {
        let place = Place::from(&key(address));
        busiest.offer(activity.rank(order, place), *address);
    }
    busiest.in_order()
}

#[test]
fn each_order_sorts_by_its_counter() {
    let with = |change: fn(&mut Activity)| {
        let mut activity = activity(5);
        change(&mut activity);
        activity
    };
    type Change = fn(&mut Activity);
    let cases: [(Order, Change); 5] = [
        (Order::DroppedPerSecond, |activity| activity.over_since = 6),
        (Order::Dropped, |activity| activity.over = 6),
        (Order::PassedPerSecond, |activity| activity.passed_since = 6),
        (Order::Passed, |activity| activity.passed = 6),
        (Order::Tokens, |activity| activity.tokens = -0.0),
    ];
    for (order, change) in cases {
        let usual = |activity: &mut Activity| activity.tokens = 0.5;
        let sources = [
            ("192.0.2.1", with(usual)),
            ("192.0.2.3", with(change)),
            ("192.0.2.2", with(usual)),
        ];
        let expected = ["192.0.2.3", "192.0.2.1", "192.0.2.2"];
        // The source that the order favours comes first.
        assert_eq!(sorted(order, &sources), expected, "{order:?}");
    }
    let by_address = sorted(
        Order::Address,
        &[
            ("2001:db8::", activity(9)),
            ("192.0.2.200", activity(1)),
            ("192.0.2.10", activity(2)),
            ("10.0.0.255", activity(3)),
        ],
    );
    assert_eq!(
        by_address,
        ["10.0.0.255", "192.0.2.10", "192.0.2.200", "2001:db8::"]
    );
}

#[test]
fn dropping_sources_sort_before_shadow_sources() {
    let in_shadow = Activity {
        drops: false,
        ..activity(1000)
    };
    for order in [Order::Dropped, Order::DroppedPerSecond] {
        let sources = [("192.0.2.1", in_shadow), ("192.0.2.2", activity(1))];
        assert_eq!(sorted(order, &sources), ["192.0.2.2", "192.0.2.1"]);
    }
}

#[test]
fn filter_matches_text_and_networks() {
    let wants = |typed: &str, address: &str| {
        let (of, key) = (Key::default(), key(address));
        let (filter, limit, shown) = (Filter::new(typed), "dns", of.show(&key));
        filter.wants(|| shown.leak(), limit, || of.network(&key))
    };
    for (typed, address, wanted) in [
        ("", "192.0.2.7", true),
        ("  ", "192.0.2.7", true),
        ("192.0.2.", "192.0.2.7", true),
        ("192.0.2.", "192.0.20.7", false),
        ("0.2.7", "192.0.2.70", true),
        ("192.0.2.0/24", "192.0.2.7", true),
        ("192.0.2.9/24", "192.0.2.7", true),
        ("192.0.3.0/24", "192.0.2.7", false),
        ("2001:DB8", "2001:db8::1", true),
        ("2001:db8::/32", "2001:db8:1::1", true),
        ("2001:db8:1::5/128", "2001:db8:1::1", true),
        ("0.0.0.0/0", "2001:db8::1", false),
        ("DNS", "192.0.2.7", true),
        ("http", "192.0.2.7", false),
    ] {
        assert_eq!(wants(typed, address), wanted, "'{typed}' of {address}");
    }
}

proptest! {
    /// The result is the same as a full sort of all items, cut to the first few. The order of arrival does not matter.
    #[test]
    fn first_rows_equal_those_of_a_full_sort(
        offered in prop::collection::hash_map(any::<u32>(), 0_u64..20, 0..200),
        most in 0_usize..30,
        order in 0_usize..6,
    ) {
        let order = Order::ALL[order];
        let rank = |(address, count): (u32, u64)| {
            let key = Key::default().of(0, std::net::IpAddr::V4(address.into()), 0);
            activity(count).rank(order, Place::from(&key))
        };
        let mut busiest = Busiest::new(most);
        let mut sorted: Vec<_> = offered.into_iter().collect();
        for source in &sorted {
            busiest.offer(rank(*source), *source);
            prop_assert!(busiest.kept.len() <= most);
        }
        sorted.sort_by_key(|source| Reverse(rank(*source)));
        sorted.truncate(most);
        prop_assert_eq!(busiest.in_order(), sorted);
    }
}
