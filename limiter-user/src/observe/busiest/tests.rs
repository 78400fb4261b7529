use proptest::prelude::*;

use super::*;

fn figures(order: u64) -> Figures {
    Figures {
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

fn sorted(order: Order, sources: &[(&'static str, Figures)]) -> Vec<&'static str> {
    let mut busiest = Busiest::new(sources.len());
    for (address, figures) in sources {
        let place = Place::from(&key(address));
        busiest.offer(figures.rank(order, place), *address);
    }
    busiest.in_order()
}

#[test]
fn each_order_sorts_by_its_figure() {
    let with = |change: fn(&mut Figures)| {
        let mut figures = figures(5);
        change(&mut figures);
        figures
    };
    type Change = fn(&mut Figures);
    let cases: [(Order, Change); 5] = [
        (Order::DroppedPerSecond, |figures| figures.over_since = 6),
        (Order::Dropped, |figures| figures.over = 6),
        (Order::PassedPerSecond, |figures| figures.passed_since = 6),
        (Order::Passed, |figures| figures.passed = 6),
        (Order::Tokens, |figures| figures.tokens = -0.0),
    ];
    for (order, change) in cases {
        let usual = |figures: &mut Figures| figures.tokens = 0.5;
        let sources = [
            ("192.0.2.1", with(usual)),
            ("192.0.2.3", with(change)),
            ("192.0.2.2", with(usual)),
        ];
        let expected = ["192.0.2.3", "192.0.2.1", "192.0.2.2"];
        // One that has more of what is not asked for.
        assert_eq!(sorted(order, &sources), expected, "{order:?}");
    }
    let by_address = sorted(
        Order::Address,
        &[
            ("2001:db8::", figures(9)),
            ("192.0.2.200", figures(1)),
            ("192.0.2.10", figures(2)),
            ("10.0.0.255", figures(3)),
        ],
    );
    assert_eq!(
        by_address,
        ["10.0.0.255", "192.0.2.10", "192.0.2.200", "2001:db8::"]
    );
}

#[test]
fn what_is_dropped_goes_before_what_would_be() {
    let in_shadow = Figures {
        drops: false,
        ..figures(1000)
    };
    for order in [Order::Dropped, Order::DroppedPerSecond] {
        let sources = [("192.0.2.1", in_shadow), ("192.0.2.2", figures(1))];
        assert_eq!(sorted(order, &sources), ["192.0.2.2", "192.0.2.1"]);
    }
}

#[test]
fn orders_go_round() {
    let seen: Vec<_> = (0..6).map(|n| Order::default().after(n)).collect();
    assert_eq!(seen, Order::ALL);
    assert_eq!(Order::Address.after(1), Order::DroppedPerSecond);
}

#[test]
fn filters_by_text_and_by_network() {
    let wants = |typed: &str, address: &str| {
        let (of, key) = (Key::default(), key(address));
        let (filter, limit) = (Filter::new(typed), "DNS");
        let wanted = filter.wants(&of.show(&key), limit, of.network(&key));
        let of_name = filter.wants_limit(limit);
        let by_key = filter.wants_key(&of, &key, of_name, &mut String::new());
        assert_eq!(wanted, by_key, "{typed}: {address}");
        wanted
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
        ("dns", "192.0.2.7", true),
        ("http", "192.0.2.7", false),
    ] {
        assert_eq!(wants(typed, address), wanted, "'{typed}' of {address}");
    }
}

proptest! {
    /// Whatever comes in whatever order: the same as all of them sorted, and cut.
    #[test]
    fn the_first_few_are_those_of_a_full_sort(
        offered in prop::collection::vec((0_u64..20, any::<u32>()), 0..200),
        most in 0_usize..30,
        order in 0_usize..6,
    ) {
        let order = Order::ALL[order];
        let rank = |(count, address): (u64, u32)| {
            let key = Key::default().of(0, std::net::IpAddr::V4(address.into()), 0);
            figures(count).rank(order, Place::from(&key))
        };
        let mut busiest = Busiest::new(most);
        for source in &offered {
            busiest.offer(rank(*source), *source);
            prop_assert!(busiest.kept.len() <= most);
        }
        let mut sorted = offered;
        sorted.sort_by_key(|source| std::cmp::Reverse(rank(*source)));
        sorted.truncate(most);
        prop_assert_eq!(busiest.in_order(), sorted);
    }
}
