//! A ban that one host makes by hand is in force on all hosts of the fleet, and ends on all.

use std::{
    fs::{self, Permissions},
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt,
    thread,
    time::Duration,
};

use limiter_tests::{
    command::ip,
    eventually,
    files::Folder,
    fleet::{Fleet, Load, source},
};

use super::case::{Case, fleet};

const BANNED: &str = "203.0.113.7";
const ALL: [usize; 3] = [0, 1, 2];
const SETTINGS: &str = r#"
interfaces = ["eth0"]
fleet = "edge"
lists.bans = { scope = "fleet" }
[[limit]]
name = "all"
rate = "1M/s"
"#;

/// A store, and agents that have read its lists.
fn case(fleet: &Fleet) -> Case<'_> {
    let case = Case::new(fleet);
    // The agent answers only when it has read the fleet's bans.
    for host in ALL {
        run(fleet, host, &["unban", "eth0", "203.0.113.99"]);
    }
    case
}

/// Runs a command, and returns what it prints.
fn run(fleet: &Fleet, host: usize, arguments: &[&str]) -> String {
    let outcome = fleet.limiter(host, arguments);
    outcome.expect(0);
    outcome.stdout + &outcome.stderr
}

/// The bans of a host: prefix, origin and reason.
fn bans(fleet: &Fleet, host: usize) -> Vec<String> {
    let bans = fleet.json(host, &["bans", "eth0", "--json"])["bans"].clone();
    let bans = bans.as_array().unwrap().iter();
    let text = |ban: &serde_json::Value, key: &str| ban[key].as_str().unwrap().to_owned();
    let all = bans.map(|ban| {
        ["prefix", "origin", "reason"]
            .map(|key| text(ban, key))
            .join(" ")
    });
    all.collect()
}

fn wait_for(fleet: &Fleet, hosts: &[usize], wanted: &[&str]) {
    for host in hosts {
        let condition = format!("host {host} has the bans {wanted:?}");
        eventually(&condition, || bans(fleet, *host) == wanted);
    }
}

/// Sends six packets from a source, two to each host. Returns the number that pass.
fn passes(fleet: &Fleet, source: Ipv4Addr) -> u64 {
    let before = fleet.admitted();
    fleet.send(&Load::at_once(source, 6));
    fleet.admitted() - before
}

#[test]
fn ban_is_in_force_on_all_hosts_until_it_ends_or_any_host_removes_it() {
    let fleet = fleet!(SETTINGS);
    let mut case = case(&fleet);
    assert_eq!(passes(&fleet, source(7)), 6);
    let ban = ["ban", "eth0", BANNED, "2001:db8::/48"];
    let text = run(
        &fleet,
        0,
        &[&ban[..], &["--for", "1h", "--reason", "probe"]].concat(),
    );
    let said = "203.0.113.7 and 1 more banned for 1h, on all hosts of fleet 'edge'";
    assert!(text.contains(said), "{text}");
    let both = [
        "203.0.113.7 fleet host-0: probe",
        "2001:db8::/48 fleet host-0: probe",
    ];
    assert_eq!(bans(&fleet, 0), both, "in force here at once");
    wait_for(&fleet, &ALL, &both);
    for host in ALL {
        let left = &fleet.json(host, &["bans", "eth0", "--json"])["bans"][0]["left_seconds"];
        assert!(
            (3_500.0..=3_601.0).contains(&left.as_f64().unwrap()),
            "{left}"
        );
    }
    assert_eq!(passes(&fleet, source(7)), 0);
    assert_eq!(passes(&fleet, source(8)), 6);

    // Another host makes the ban shorter. No agent is needed for its end.
    run(&fleet, 1, &["ban", "eth0", BANNED, "--for", "8s"]);
    wait_for(&fleet, &ALL, &["203.0.113.7 fleet host-1", both[1]]);
    case.agents.clear();
    wait_for(&fleet, &ALL, &both[1..]);
    assert_eq!(passes(&fleet, source(7)), 6);

    // Without an agent, the command says how to ban on one host, and bans of one host can be ended.
    for arguments in [["ban", "eth0", BANNED], ["unban", "eth0", "2001:db8::/48"]] {
        let alone = fleet.limiter(0, &arguments);
        alone.expect_error(1, &["no agent runs here", "--origin NAME"]);
    }
    assert_eq!(bans(&fleet, 0), both[1..]);
    let taken = ["ban", "eth0", BANNED, "--origin", "fleet"];
    fleet.limiter(0, &taken).expect_error(2, &["another name"]);
    let ban_here = ["ban", "eth0", BANNED, "--origin", "me"];
    let here = run(&fleet, 0, &ban_here);
    assert!(here.contains("203.0.113.7 banned without end"), "{here}");
    let ended = run(&fleet, 0, &["unban", "eth0", BANNED]);
    let stay = "bans of the fleet stay: ";
    assert!(
        ended.contains("203.0.113.7 unbanned") && ended.contains(stay),
        "{ended}"
    );
    run(&fleet, 0, &ban_here);

    // Agents that come back make the bans of the store, and leave those of the host. Both kinds may ban a prefix.
    case.agents = ALL.map(|host| case.agent(host)).into();
    let unbanned = || fleet.limiter(2, &["unban", "eth0", "2001:db8::/48"]).status == 0;
    eventually("the agent answers", unbanned);
    wait_for(&fleet, &[1, 2], &[]);
    wait_for(&fleet, &[0], &["203.0.113.7 me "]);
    run(&fleet, 1, &["ban", "eth0", BANNED]);
    wait_for(&fleet, &[1, 2], &["203.0.113.7 fleet host-1"]);
    let both = ["203.0.113.7 fleet host-1", "203.0.113.7 me "];
    wait_for(&fleet, &[0], &both);
    let again = run(&fleet, 0, &["unban", "eth0", BANNED]);
    assert!(again.contains("203.0.113.7 unbanned"), "{again}");
    wait_for(&fleet, &ALL, &[]);
    let none = run(&fleet, 1, &["unban", "eth0", BANNED]);
    assert!(none.contains("203.0.113.7 is not banned"), "{none}");

    // A host that no longer shares bans keeps those in force until they are removed there, and then makes none. It shares
    // no list, so its agent reads none, and does not forget the bans.
    run(&fleet, 0, &["ban", "eth0", BANNED]);
    wait_for(&fleet, &ALL, &["203.0.113.7 fleet host-0"]);
    let apart =
        SETTINGS.replace("lists.bans = { scope = \"fleet\" }\n", "") + "scope = \"fleet\"\n";
    fleet.reload(2, &apart);
    let ended = run(&fleet, 2, &["unban", "eth0", BANNED, "--origin", "fleet"]);
    assert!(ended.contains("203.0.113.7 unbanned"), "{ended}");
    fleet.reload(2, &apart.replace("1M/s", "2M/s"));
    thread::sleep(Duration::from_secs(3));
    wait_for(&fleet, &[2], &[]);
    wait_for(&fleet, &[0, 1], &["203.0.113.7 fleet host-0"]);
}

#[test]
fn bans_outlive_the_store_and_do_not_cut_hosts_off_from_it() {
    let fleet = fleet!(SETTINGS);
    let mut case = case(&fleet);
    run(&fleet, 0, &["ban", "eth0", BANNED]);
    let banned = ["203.0.113.7 fleet host-0"];
    wait_for(&fleet, &ALL, &banned);
    let cut = ["ban", "eth0", "203.0.113.20", "198.51.100.0/24"];
    let words = ["198.51.100.0/24 contains the store's own address"];
    fleet.limiter(1, &cut).expect_error(1, &words);
    // Changes of the configuration keep the bans.
    fleet.reload(2, &SETTINGS.replace("1M/s", "2M/s"));
    wait_for(&fleet, &ALL, &banned);
    case.store.stop();
    for agent in &case.agents {
        agent.wait_until_it_says("until then each host applies the limits alone");
    }
    let down = fleet.limiter(0, &["ban", "eth0", "203.0.113.20"]);
    down.expect_error(1, &["nothing was changed", "--origin NAME"]);
    // An agent that has read nothing yet keeps the bans, also through changes of the configuration.
    case.agents.remove(2);
    let again = case.agent(2);
    again.wait_until_it_says("until then each host applies the limits alone");
    fleet.reload(2, &SETTINGS.replace("1M/s", "3M/s"));
    thread::sleep(Duration::from_secs(2));
    case.agents.push(again);
    for host in ALL {
        assert_eq!(bans(&fleet, host), banned);
    }
    assert_eq!(passes(&fleet, source(7)), 0);
    // The store has lost its data. The agents put the ban back before it can be removed.
    case.store.go_on();
    let removed = || fleet.limiter(2, &["unban", "eth0", BANNED]).status == 0;
    eventually("the store takes changes again", removed);
    wait_for(&fleet, &ALL, &[]);
    assert_eq!(passes(&fleet, source(7)), 6);

    // Without room on a host, the fleet has the ban, and other changes are in force on all.
    let none = format!(
        "max_bans = 0\n{}",
        SETTINGS.replace(
            "lists.bans",
            "lists.deny = { scope = \"fleet\" }\nlists.bans"
        )
    );
    run(&fleet, 2, &["detach", "eth0"]);
    fleet.attach(2, &none);
    let full = || {
        let outcome = fleet.limiter(2, &["ban", "eth0", BANNED]);
        outcome.status == 1 && outcome.stderr.contains("there is room for 0 bans")
    };
    eventually("the agent has found the attachment", full);
    wait_for(&fleet, &[0, 1], &["203.0.113.7 fleet host-2"]);
    let deny = ["deny", "add", "eth0", "203.0.113.9"];
    eventually("a deny is in force nevertheless", || {
        fleet.limiter(2, &deny).status == 0
    });
}

#[test]
fn bans_that_would_cut_a_host_off_are_left_out_there() {
    const GATEWAY: &str = "198.51.100.77";
    let fleet = fleet!(SETTINGS);
    let case = case(&fleet);
    let route = format!("route add default via {GATEWAY}");
    ip(&fleet.host(0).namespace, &route);
    let warned = run(&fleet, 0, &["ban", "eth0", "192.0.2.1"]);
    let words = "192.0.2.1 is an address of this host: this host leaves the ban out";
    assert!(warned.contains(words), "{warned}");
    // All hosts have that address.
    wait_for(&fleet, &ALL, &[]);
    run(&fleet, 1, &["ban", "eth0", GATEWAY]);
    wait_for(&fleet, &[1, 2], &["198.51.100.77 fleet host-1"]);
    wait_for(&fleet, &[0], &[]);
    let said = "2 bans of the fleet are not in force here: 192.0.2.1 is an address of this host, and 1 more";
    case.agents[0].wait_until_it_says(said);
    let said = "1 ban of the fleet is not in force here: 192.0.2.1 is an address of this host";
    case.agents[1].wait_until_it_says(said);
    let status = fleet.status(1);
    assert_eq!(status["fleet"]["left_out"][0], said, "{status}");

    // A feed of the host hears of the store from its agent.
    let folder = Folder::new();
    fs::set_permissions(folder.path("."), Permissions::from_mode(0o755)).unwrap();
    let list = folder.write("list", "203.0.113.9\n198.51.100.1\n");
    let name = format!("store-{}", std::process::id());
    let feed = folder.write(&format!("{name}.toml"), format!("list = '{list}'"));
    let fed = run(&fleet, 2, &["feed", &feed, "--once"]);
    let words = "198.51.100.1 is the store of the fleet";
    assert!(fed.contains(words), "{fed}");
    let own = format!("203.0.113.9 {name} ");
    wait_for(&fleet, &[2], &["198.51.100.77 fleet host-1", &own]);
}
