//! Rounds with a host that is made up.

use std::{collections::HashMap, fs};

use limiter_config::bans::OwnBan;

use super::*;
use crate::host::Found;

/// A host whose second interface may be off.
#[derive(Default)]
struct Fake {
    bans: [Own; 2],
    is_off: bool,
}

impl Host for Fake {
    async fn own(&mut self, _: &[String]) -> Result<Found, String> {
        let present = |own: &Own| Present {
            own: own.clone(),
            room: 10,
            allowed: Vec::new(),
            has_throttle: false,
        };
        let first = ("one".to_owned(), Ok(present(&self.bans[0])));
        let two = match self.is_off {
            true => Err("two is off".to_owned()),
            false => Ok(present(&self.bans[1])),
        };
        Ok(Found {
            own: vec![first, ("two".to_owned(), two)],
            protected: Protected::default(),
        })
    }

    async fn change(&mut self, interface: &str, edit: Edit) -> Result<(), String> {
        let bans = &mut self.bans[usize::from(interface == "two")];
        bans.extend(edit.add.into_iter().map(|wish| (wish.prefix, wish.ban)));
        bans.retain(|prefix, _| !edit.remove.contains(prefix));
        Ok(())
    }

    fn is_gone(&self) -> bool {
        false
    }

    fn report(&mut self, _: &State) {}
}

#[tokio::test]
async fn interface_that_is_off_is_tried_again_without_reading_the_source() {
    let path = std::env::temp_dir().join(format!("limiter-feed-{}", std::process::id()));
    fs::write(&path, "192.0.2.7\n").expect("written");
    let text = format!("list = '{}'", path.display());
    let settings = Settings::parse(&text).expect("valid");
    let host = Fake {
        is_off: true,
        ..Fake::default()
    };
    let mut feed = Feed::new(settings, Access::default(), host);
    assert_eq!(feed.round().await, Err("two is off".to_owned()));
    let lengths = |feed: &Feed<Fake>| feed.host.bans.each_ref().map(HashMap::len);
    assert_eq!((lengths(&feed), feed.pause()), ([1, 0], LATER));
    // The list is due in an hour.
    fs::write(&path, "192.0.2.7\n192.0.2.8\n").expect("written");
    assert_eq!(feed.round().await, Err("two is off".to_owned()));
    feed.host.is_off = false;
    assert_eq!(feed.round().await, Ok(()));
    assert_eq!(lengths(&feed), [1, 1]);
    assert!(feed.pause() > Duration::from_secs(3_500));
    // A source that fails is tried again soon, then less and less often.
    fs::remove_file(&path).expect("removed");
    for pause in [5, 10, 20] {
        feed.due = Instant::now();
        assert!(feed.round().await.is_err());
        let found = feed.pause().as_secs_f64();
        assert!((f64::from(pause) - found).abs() < 2.0, "{found}");
    }
    assert_eq!(lengths(&feed), [1, 1]);
    // A success makes the next pause short again.
    fs::write(&path, "192.0.2.7\n").expect("written");
    feed.due = Instant::now();
    assert_eq!(feed.round().await, Ok(()));
    fs::remove_file(&path).expect("removed");
    feed.due = Instant::now();
    assert!(feed.round().await.is_err());
    assert!(feed.pause() <= SOON);
}

/// A thread that reads a file of a network may wait for ever. It holds the source meanwhile.
#[tokio::test]
async fn list_that_is_not_read_in_time_says_why_and_its_bans_stay() {
    let path = std::env::temp_dir().join(format!("limiter-feed-slow-{}", std::process::id()));
    fs::write(&path, "192.0.2.7\n").expect("written");
    let file = path.display().to_string();
    let sources = [
        (
            &*file,
            1,
            "its file system does not answer, as of a network, or the processor is busy",
        ),
        ("http://192.0.2.1/list", 0, "its server may be slow"),
    ];
    for (list, bans, why) in sources {
        let settings = format!("list = '{list}'\ntimeout = '7s'");
        let settings = Settings::parse(&settings).expect("valid");
        let mut feed = Feed::new(settings, Access::default(), Fake::default());
        if bans > 0 {
            assert_eq!(feed.round().await, Ok(()));
        }
        let reader = Arc::clone(&feed.source).try_lock_owned().expect("free");
        feed.due = Instant::now();
        let said = feed.round().await.expect_err("late");
        let whole =
            format!("{list} was not read within 7s: {why}; set timeout if it should take longer");
        assert_eq!(said, whole);
        assert_eq!(feed.host.bans[0].len(), bans);
        drop(reader);
    }
    fs::remove_file(&path).expect("removed");
}

#[tokio::test]
async fn dry_run_says_what_it_would_change_and_changes_nothing() {
    let path = std::env::temp_dir().join(format!("limiter-feed-dry-{}", std::process::id()));
    fs::write(&path, "192.0.2.0-192.0.2.2\n192.0.2.7/31\n").expect("written");
    let text = format!("list = '{}'", path.display());
    let settings = Settings::parse(&text).expect("valid");
    let mut feed = Feed::new(settings, Access::default(), Fake::default());
    let ban = OwnBan {
        left: 5_000,
        is_throttle: false,
    };
    feed.host.bans[1].insert("198.51.100.7/32".parse().expect("a prefix"), ban);
    feed.dry_run();
    let before = feed.state().clone();
    assert_eq!(feed.round().await, Ok(()));
    let lengths = feed.host.bans.each_ref().map(HashMap::len);
    assert_eq!(lengths, [0, 1]);
    assert_eq!(
        feed.changes(),
        [
            "one: bans that would be added: 3, renewed: 0, removed: 0",
            "two: bans that would be added: 3, renewed: 0, removed: 1"
        ]
    );
    assert_eq!(
        feed.notes(&before),
        [
            "read 2 entries (3 prefixes) as plain (no header or form shows another format)",
            "entries with bits set behind the length of their prefix, whose networks are banned: 1, the first in line 2"
        ]
    );
    assert_eq!(feed.notes(&feed.state().clone()), [""; 0]);
    fs::remove_file(&path).expect("removed");
}
