//! Records keep a fleet's settings for later commands, and each prefix on a list keeps its owner.

use std::{collections::BTreeMap, path::Path};

use crate::exact::cases;
use ipnet::IpNet;
use limiter_common::arithmetic::quota::{BY_BYTES, SHARED};
use limiter_config::{
    Prefixes, Scope, Settings, file,
    lists::prefix,
    overlay::{OnLists, Overlay},
};
use limiter_kernel::state::record::Record;
use proptest::{collection::vec, prelude::*};

const SHARED_LISTS: &str = r#"
fleet = "edge"

[lists]
allow = ["198.51.100.0/24"]
deny = { scope = "fleet", prefixes = ["203.0.113.0/28"] }
gold = { scope = "fleet" }

[[limit]]
name = "all"
rate = "5/s"
scope = "fleet"
"#;

fn settings(text: &str) -> Settings {
    let file = file::parse(text, Path::new("."));
    file.unwrap_or_else(|error| panic!("{text}: {error:?}"))
        .settings
}

fn record(settings: Settings) -> Record {
    let mut record = Record {
        settings,
        frame_max: 1_522,
        frags: true,
        ..Record::default()
    };
    record.take_slots();
    record
}

fn prefixes(texts: &[&str]) -> Prefixes {
    texts
        .iter()
        .map(|text| prefix(text).expect("a prefix"))
        .collect()
}

#[test]
fn fleet_list_that_does_not_exist_is_refused() {
    let mut settings = settings(SHARED_LISTS);
    assert_eq!(settings.check(), Ok(()));
    settings.fleet_lists.insert("nowhere".to_owned());
    let why = settings.check().expect_err("it is nowhere").to_string();
    assert!(why.starts_with("there is no list 'nowhere'"), "{why}");
}

#[test]
fn bans_of_a_fleet_are_read_and_shown_and_have_no_prefixes() {
    let text_with =
        |bans: &str| SHARED_LISTS.replace("[lists]", &format!("[lists]\nbans = {bans}"));
    let shared = settings(&text_with("{ scope = \"fleet\" }"));
    assert!(shared.shares("bans") && !settings(SHARED_LISTS).shares("bans"));
    let shown = file::show(&[], &shared);
    assert!(shown.contains("bans = { scope = \"fleet\" }"), "{shown}");
    assert_eq!(settings(&shown), shared);
    for wrong in [
        "[]",
        "{ scope = \"host\" }",
        "{ scope = \"fleet\", prefixes = [\"192.0.2.7\"] }",
    ] {
        let mistakes = file::parse(&text_with(wrong), Path::new(".")).expect_err(wrong);
        assert!(
            format!("{mistakes:?}").contains("no file has bans"),
            "{mistakes:?}"
        );
    }
}

#[test]
fn shared_limit_has_the_shared_flag() {
    let flags = |text: &str| {
        let limit = &settings(text).limits[0];
        limit.quota(1_522).unwrap().in_kernel.flags
    };
    assert_eq!(flags(SHARED_LISTS), SHARED);
    let alone = SHARED_LISTS.replace("5/s\"\nscope = \"fleet\"", "5/s\"");
    assert_eq!(flags(&alone), 0);
    assert_eq!(flags(&alone.replace("5/s", "1mbit")), BY_BYTES);
    let with_control = SHARED_LISTS.replace("[lists]", "exempt = [\"control\"]\n[lists]");
    let all = settings(&with_control).all_limits();
    assert_eq!(all[1].scope, Scope::Host, "{}", all[1].name);
}

/// A change of the scope alone is a change of quota: buckets are carried over, and no debt stays in a limit of scope
/// `host`.
#[test]
fn scope_change_is_a_quota_change() {
    let shared = record(settings(SHARED_LISTS));
    let mut alone = shared.settings.clone();
    alone.limits[0].scope = Scope::Host;
    let (changed, _) = shared.changed(alone, None, 1_522, 1 << 40).unwrap();
    assert_eq!(changed.limits[0].epoch, shared.limits[0].epoch + 1);
    assert_eq!(changed.limits[0].past.len(), 1);
}

#[test]
fn record_keeps_fleet_settings_and_overlay() {
    let mut whole = record(settings(SHARED_LISTS));
    let of_fleet = [(
        "deny".to_owned(),
        prefixes(&["203.0.113.0/28", "192.0.2.7"]),
    )];
    whole.overlay = Overlay::new(&whole.settings, &of_fleet.into());
    let json = serde_json::to_string(&whole).unwrap();
    let read = Record::read(json.as_bytes()).unwrap();
    assert_eq!(read.overlay, whole.overlay);
    assert_eq!(read.settings.fleet, whole.settings.fleet);
    assert_eq!(read.settings.fleet_lists, whole.settings.fleet_lists);
    assert_eq!(read.settings.limits, whole.settings.limits);
    for (sound, broken) in [
        ("192.0.2.7/32", "192.0.2.7/24"),
        ("\"alone\":{\"deny\"", "\"alone\":{\"allow\""),
        ("\"alone\":{\"deny\"", "\"alone\":{\"none\""),
        ("\"fleet\":\"edge\"", "\"fleet\":null"),
        ("\"fleet\":\"edge\"", "\"fleet\":\"ed ge\""),
        ("\"fleet_lists\":[\"deny\"", "\"fleet_lists\":[\"lead\""),
    ] {
        assert!(json.contains(sound), "{sound}: {json}");
        let torn = json.replace(sound, broken);
        assert!(Record::read(torn.as_bytes()).is_err(), "{broken}");
    }
}

/// Names of lists may have dots, and a record also names the sets of destinations.
#[test]
fn record_with_a_list_with_dots_is_read() {
    let text = "[[limit]]\nname = \"a\"\nrate = \"5/s\"\n\
                match = { source = \"example.net\", destination = [\"example.net\", \"10.0.0.1\"] }\n\
                [lists]\n\"example.net\" = [\"192.0.2.0/24\"]\n";
    let whole = record(settings(text));
    assert_eq!(whole.tiers.0.len(), 2);
    let json = serde_json::to_string(&whole).unwrap();
    let read = Record::read(json.as_bytes()).unwrap();
    assert_eq!(read.tiers, whole.tiers);
    assert_eq!(read.settings.limits, whole.settings.limits);
}

/// Only lists that are shared, by the same fleet, have the fleet's prefixes.
#[test]
fn overlay_is_removed_from_lists_no_longer_shared() {
    let mut before = record(settings(SHARED_LISTS));
    let of_fleet: OnLists = ["allow", "deny", "gold", "none"]
        .map(|name| (name.to_owned(), prefixes(&["192.0.2.7"])))
        .into();
    before.overlay = Overlay::new(&before.settings, &of_fleet);
    let shared: Vec<_> = before.overlay.alone.keys().cloned().collect();
    assert_eq!(shared, ["deny", "gold"]);
    let lists_with_prefix = |text: &str| {
        let (in_force, overlay) = before.with_fleet(settings(text));
        let name_if_with_prefix = |(name, list): (&str, &Prefixes)| {
            list.contains(&prefix("192.0.2.7").unwrap())
                .then(|| name.to_owned())
        };
        let names: Vec<_> = in_force
            .lists
            .all()
            .filter_map(name_if_with_prefix)
            .collect();
        assert_eq!(names, overlay.alone.keys().cloned().collect::<Vec<_>>());
        names
    };
    assert_eq!(lists_with_prefix(SHARED_LISTS), ["deny", "gold"]);
    assert_eq!(
        lists_with_prefix(&SHARED_LISTS.replace("\"edge\"", "\"core\"")),
        [""; 0]
    );
    let host = SHARED_LISTS.replace("gold = { scope = \"fleet\"", "gold = { scope = \"host\"");
    assert_eq!(lists_with_prefix(&host), ["deny"]);
}

/// An edit of a list.
#[derive(Clone, Debug)]
enum Step {
    /// Replaces the host's own prefixes.
    Own(&'static str, Prefixes),
    /// Replaces the fleet's prefixes.
    Fleet(&'static str, Prefixes),
}

fn steps() -> impl Strategy<Value = Step> {
    let names = prop::sample::select(&["deny", "gold"][..]);
    let few = vec(0..6_u8, 0..5).prop_map(|bytes| {
        let prefix_of = |byte| IpNet::from(std::net::IpAddr::from([192, 0, 2, byte]));
        bytes.into_iter().map(prefix_of).collect::<Prefixes>()
    });
    (any::<bool>(), names, few).prop_map(|(own, name, prefixes)| {
        if own {
            Step::Own(name, prefixes)
        } else {
            Step::Fleet(name, prefixes)
        }
    })
}

proptest! {
    #![proptest_config(cases(500))]

    /// A list is always the union of the host's own prefixes and the fleet's; each owner removes only its own. The
    /// record and the maps tell them apart.
    #[test]
    fn host_and_fleet_remove_only_their_own_prefixes(steps in vec(steps(), 1..20)) {
        let mut record = record(settings(SHARED_LISTS));
        let empty = || -> BTreeMap<&str, Prefixes> { [("deny", Prefixes::new()), ("gold", Prefixes::new())].into() };
        let (mut own, mut of_fleet) = (empty(), empty());
        own.insert("deny", prefixes(&["203.0.113.0/28"]));
        for step in steps {
            // The next command reads the record.
            let mut settings = record.settings.clone();
            let json = serde_json::to_vec(&record).unwrap();
            let mut next = Record::read(&json).unwrap();
            settings = next.overlay.without(settings);
            match step {
                Step::Own(name, prefixes) => {
                    *settings.lists.named_mut(name).unwrap() = prefixes.clone();
                    own.insert(name, prefixes);
                }
                Step::Fleet(name, prefixes) => {
                    let mut all = next.overlay.of_fleet();
                    all.insert(name.to_owned(), prefixes.clone());
                    next.overlay = Overlay::new(&settings, &all);
                    of_fleet.insert(name, prefixes);
                }
            }
            (record, _) = next.changed(settings, None, 1_522, 1 << 40).unwrap();
            for (name, prefixes) in record.settings.lists.all().filter(|(name, _)| *name != "allow") {
                let both: Prefixes = own[name].iter().chain(&of_fleet[name]).collect();
                prop_assert_eq!(prefixes, &both, "{}", name);
            }
            let without = record.overlay.without(record.settings.clone()).lists;
            prop_assert_eq!(&without.deny, &own["deny"]);
            prop_assert_eq!(&without.tiers["gold"], &own["gold"]);
        }
    }
}
