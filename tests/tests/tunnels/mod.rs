//! Limits hold exactly on tunnels: in both directions, for both IP versions, also where the kernel shows other bytes in
//! front of a packet. What `watch --write` writes begins with the IP header.

mod attachment;
mod kinds;
mod link;
mod other;
mod pcapng;
mod process;

use attachment::Attachment;
use kinds::Kind;
use limiter_tests::{eventually, need, need_kernel};
use link::{Link, TUNNEL};

/// Limits, and the name of the one that admits the burst: for the fast path, and for the full path, which also
/// reads ports.
const PATHS: [(&str, &str); 2] = [
    (
        "default",
        "[[limit]]\nname = \"default\"\nrate = \"1/h\"\nburst = 5\n",
    ),
    (
        "nine",
        "[[limit]]\nname = \"other\"\nrate = \"1/h\"\nburst = 1\nmatch = { protocol = \"udp\", destination_port = \"10-65535\" }\n\
         [[limit]]\nname = \"nine\"\nrate = \"1/h\"\nburst = 5\nmatch = { protocol = \"udp\", destination_port = 9 }\n",
    ),
];

/// The path of a kind's incoming packets in an emulated machine; outgoing ones take the other path. The verifier takes
/// seconds for each program there. Similar kinds have different paths. Elsewhere, each kind has both paths both ways.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Incoming {
    Fast,
    Full,
}
use Incoming::{Fast, Full};

impl Incoming {
    /// The paths of a direction: those of [`PATHS`] to attach with.
    fn paths(self, is_incoming: bool) -> &'static [(&'static str, &'static str)] {
        match (need::is_machine(), (self == Fast) == is_incoming) {
            (false, _) => &PATHS,
            (true, true) => &PATHS[..1],
            (true, false) => &PATHS[1..],
        }
    }
}

macro_rules! kinds {
    ($($test:ident: $kind:ident, $incoming:ident;)+) => {$(
        #[test]
        fn $test() {
            need_kernel!();
            limited(stringify!($test), &kinds::$kind, $incoming);
        }
    )+};
}

kinds! {
    ipsec_on_xfrm_is_limited: XFRM, Fast;
    ipsec_on_xfrm_behind_another_tunnel_is_limited: XFRM_IN_IPIP, Full;
    ipsec_on_vti_is_limited: VTI, Full;
    ipsec_on_vti6_is_limited: VTI6, Fast;
    wireguard_is_limited: WIREGUARD, Full;
    ipip_is_limited: IPIP, Fast;
    sit_is_limited: SIT, Full;
    ip6tnl_is_limited: IP6TNL, Fast;
    gre_is_limited: GRE, Full;
    gre_with_all_fields_is_limited: GRE_FIELDS, Fast;
    ip6gre_is_limited: IP6GRE, Full;
    ipip_in_fou_is_limited: FOU, Full;
    sit_in_gue_is_limited: GUE, Fast;
    tun_is_limited: TUN, Fast;
}

/// Attaches to a tunnel, in both directions, and with both paths of the program.
fn limited(test: &str, kind: &Kind, incoming: Incoming) {
    let Some(link) = Link::new(kind) else {
        need::of_kernel(test, kind.name);
        return;
    };
    let hosts = &link.hosts;
    let places = [(TUNNEL.to_owned(), true), (format!("{TUNNEL}:out"), false)];
    if !need::tcx() {
        for (place, _) in &places {
            let attach = hosts.limiter(&format!("attach {place} --rate 5"));
            attach.expect_error(1, &["Linux 6.6"]);
        }
        return;
    }
    for version in kind.carries {
        for to_server in [true, false] {
            // The first packet may wait for a handshake.
            eventually("the tunnel works", || {
                !link.send(*version, to_server, 1, || ()).is_empty()
            });
        }
    }
    for (place, to_server) in places {
        let doctor = hosts.json(&format!("doctor {place} --json"));
        assert_eq!(doctor["mode"], "tc", "{doctor:#}");
        let mut findings = doctor["findings"].as_array().unwrap().iter();
        assert!(
            findings.any(|finding| finding["found"] == "no Ethernet header: mode tc"),
            "{doctor:#}"
        );
        for (limit, file) in incoming.paths(to_server) {
            let direction = if to_server { "in" } else { "out" };
            hosts.attach_file(&format!(
                "interfaces = \"{TUNNEL}\"\ndirection = \"{direction}\"\n{file}"
            ));
            Attachment {
                link: &link,
                kind,
                place: &place,
                to_server,
                limit,
            }
            .admits_its_burst();
            hosts.run(&format!("detach {place}"));
        }
    }
}
