//! An attachment to a tunnel, from its first packet on.

use limiter_tests::{eventually, files::Folder, number, watcher::Watcher};
use serde_json::Value;

use super::{
    kinds::Kind,
    link::{Link, PAYLOAD, inside},
    pcapng,
};

/// Packets of each IP version that are sent, and those that the limit admits.
const SENT: u8 = 20;
const BURST: u8 = 5;

/// An attachment that has seen nothing.
pub struct Attachment<'a> {
    pub link: &'a Link,
    pub kind: &'a Kind,
    pub place: &'a str,
    pub to_server: bool,
    pub limit: &'a str,
}

impl Attachment<'_> {
    fn status(&self) -> Value {
        let hosts = &self.link.hosts;
        hosts.json(&format!("status {} --json", self.place))["interfaces"][0].clone()
    }

    /// Of each source or destination, the limit admits its burst. All other packets are dropped by it, and written.
    pub fn admits_its_burst(&self) {
        let (link, versions) = (self.link, self.kind.carries);
        let refused = usize::from(SENT - BURST) * versions.len();
        let folder = Folder::new();
        let path = folder.path("drops");
        let count = refused.to_string();
        let watcher = Watcher::start_on(&link.hosts, self.place, &["--write", &path, "-n", &count]);
        let mut seen = 0;
        for version in versions {
            seen += u64::from(SENT);
            let all_are_seen = || {
                eventually("all packets are seen", || {
                    number(&self.status()["seen"]["packets"]) >= seen
                });
            };
            let arrived = link.send(*version, self.to_server, SENT, all_are_seen);
            let first: Vec<u8> = (0..BURST).collect();
            assert_eq!(
                arrived,
                first,
                "{}, {}: IPv{version}: {:#}",
                self.kind.name,
                self.place,
                self.status()
            );
        }
        self.counted_each_packet(refused);
        assert_eq!(watcher.wait().status, 0);
        let mut written = pcapng::packets(&path);
        for version in versions {
            let ends =
                [!self.to_server, self.to_server].map(|is_server| inside(*version, is_server));
            for number in BURST..SENT {
                pcapng::expect(&written.remove(0), ends, number);
            }
        }
        assert!(written.is_empty());
        let replay = link
            .hosts
            .run(&format!("replay {path} --rate 1/h --burst {BURST}"));
        let passed = usize::from(BURST) * versions.len();
        let words = match self.to_server {
            true => format!("{passed} passed, {} dropped", refused - passed),
            false => format!("{refused} sent by the host itself"),
        };
        assert!(
            replay.contains(&words) && !replay.contains("malformed"),
            "{replay}"
        );
    }

    /// The counters of the attachment, in packets and in bytes: those of the packets from the IP header on.
    fn counted_each_packet(&self, refused: usize) {
        let status = self.status();
        let about = format!("{}, {}: {status:#}", self.kind.name, self.place);
        assert_eq!(status["mode"], "tc", "{about}");
        let passed = usize::from(BURST) * self.kind.carries.len();
        let count = |value: &Value| ["packets", "bytes"].map(|unit| number(&value[unit]));
        let of_all = |packets: usize| {
            let headers = self
                .kind
                .carries
                .iter()
                .map(|version| if *version == 4 { 28 } else { 48 });
            let all: usize = headers.map(|headers| headers + PAYLOAD).sum();
            [packets, packets / self.kind.carries.len() * all].map(|count| count as u64)
        };
        let limits = status["limits"].as_array().unwrap();
        let limit = limits
            .iter()
            .find(|limit| limit["name"] == self.limit)
            .unwrap();
        assert_eq!(count(&limit["passed"]), of_all(passed), "{about}");
        assert_eq!(count(&limit["dropped"]), of_all(refused), "{about}");
        assert_eq!(count(&status["seen"]), of_all(passed + refused), "{about}");
        assert_eq!(count(&status["dropped"]), of_all(refused), "{about}");
        assert_eq!(count(&status["drops"]["malformed"]), [0, 0], "{about}");
    }
}
