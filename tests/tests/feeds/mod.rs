//! Feeds: the bans of an origin follow its source, and nothing else changes them.

mod cut_off;
mod decisions;
mod formats;
mod room;
mod rounds;
mod source;
mod state;

use limiter_tests::hosts::Hosts;

const LIST: &str = "# test\n198.51.100.0/24 ; SBL1\n203.0.113.7\n2001:db8::/32\n";
const PREFIXES: [&str; 3] = ["198.51.100.0/24", "203.0.113.7", "2001:db8::/32"];

fn attached() -> Hosts {
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1000000 --burst 1000000");
    hosts
}
