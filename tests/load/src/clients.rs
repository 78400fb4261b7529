//! Measures new clients during floods of made-up sources, behind limiter and behind others: `docs/table.md`.

use std::{fs, process::Command, time::Duration};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use limiter_tests::{
    hosts::{Hosts, on},
    newcomers::{
        Clients, Flood, PORT, Packets, Repeats, connect_during, prepare_answers, set_cookies,
    },
    service::{Protocol, Service},
};

/// Measure how many new TCP clients connect during floods of made-up sources.
#[derive(Debug, Args)]
pub struct Options {
    /// Packets a second of the floods
    #[arg(long, value_delimiter = ',', default_values_t = [20_000, 200_000])]
    rates: Vec<u64>,
    /// Protection of the server
    #[arg(long = "subject", value_enum, value_delimiter = ',', default_values = ["first", "second"])]
    subjects: Vec<Subject>,
    /// Packets of the floods. With hping3, the clients ask nginx for a page
    #[arg(long, value_enum, default_value = "udp")]
    packets: Packets,
    /// Number of clients
    #[arg(long, default_value_t = 300)]
    clients: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// Nothing, and no cookies of the kernel
    Nothing,
    /// The kernel's own SYN cookies, as they are by default
    Cookies,
    /// limiter without second chances
    First,
    /// limiter with second chances
    Second,
    /// limiter with handshake proofs
    Proof,
    Nft,
    Hashlimit,
}

/// A limit for each source: packets, for how long, and how many at once.
const LIMIT: (u32, &str, u32) = (5, "second", 10);
const SLOW: (u32, &str, u32) = (5, "hour", 5);

/// Measures, and prints the table.
pub fn main(options: Options) -> Result<()> {
    let Options {
        rates,
        subjects,
        packets,
        clients,
    } = options;
    ensure!(
        clients > 0 && rates.iter().all(|rate| *rate > 0),
        "write numbers above 0"
    );
    println!("| flood | subject | within 0.5 s | 1.5 s | 3.5 s | median | busy |");
    println!("|---|---|---|---|---|---|---|");
    let during = Clients {
        number: clients,
        after: Duration::from_secs(10),
        over: Duration::from_secs(10),
        behind_the_flood: false,
        asks: packets == Packets::Hping3,
    };
    let measure = |title: &str, limit, flood, clients| {
        for subject in &subjects {
            measure(title, *subject, limit, flood, clients);
        }
    };
    let without = Clients {
        after: Duration::ZERO,
        ..during
    };
    measure("none", LIMIT, None, without);
    let flood = |per_second, repeats| Flood {
        per_second,
        repeats,
        packets,
    };
    for per_second in rates {
        for (repeats, repetition) in [
            (Repeats::Never, "once each"),
            (Repeats::AtOnce, "twice at once"),
            (Repeats::AfterASecond, "twice, a second apart"),
        ] {
            // The addresses of hping3 are random.
            if packets != Packets::Hping3 || repeats == Repeats::Never {
                let flood = flood(per_second, repeats);
                measure(
                    &format!("{per_second}/s, {repetition}"),
                    LIMIT,
                    Some(flood),
                    during,
                );
            }
        }
    }
    if packets != Packets::Hping3 {
        let flood = Some(flood(12_000, Repeats::Never));
        measure("during 12000/s against 5/h", SLOW, flood, during);
        let behind = Clients {
            behind_the_flood: true,
            ..during
        };
        measure("after 12000/s against 5/h", SLOW, flood, behind);
    }
    Ok(())
}

fn measure(
    title: &str,
    subject: Subject,
    limit: (u32, &str, u32),
    flood: Option<Flood>,
    clients: Clients,
) {
    let hosts = Hosts::new();
    prepare_answers(&hosts);
    let folder = tempfile::tempdir().unwrap();
    let _nginx = clients
        .asks
        .then(|| serve(&hosts, folder.path().to_str().unwrap()));
    begin(&hosts, subject, limit);
    let busy = softirq();
    let times = connect_during(&hosts, flood, clients);
    let busy = softirq() - busy;
    let shares = [500, 1_500, 3_500].map(|time| format!("{:.0} %", times.percent_within(time)));
    let (shares, median) = (shares.join(" | "), times.median());
    println!("| {title} | {subject:?} | {shares} | {median:.1?} | {busy:.1} s |");
    if matches!(subject, Subject::First | Subject::Second | Subject::Proof) {
        eprintln!("{}", hosts.run("status eth0"));
        hosts.run("detach eth0");
    }
}

fn begin(hosts: &Hosts, subject: Subject, (rate, time, burst): (u32, &str, u32)) {
    set_cookies(
        hosts,
        match subject {
            Subject::Nothing => 0,
            Subject::Proof => 2,
            _ => 1,
        },
    );
    let (setting, of_limit) = match subject {
        Subject::Nothing | Subject::Cookies => return,
        Subject::Nft => {
            return run(
                hosts,
                &format!(
                    "nft table netdev new {{ set sources {{ type ipv4_addr; size 65535; flags dynamic, timeout; \
                     timeout 1m; }}; chain over {{ type filter hook ingress device \"eth0\" priority 0; \
                     update @sources {{ ip saddr limit rate over {rate}/{time} burst {burst} packets }} drop; }}; }}"
                ),
            );
        }
        Subject::Hashlimit => {
            return run(
                hosts,
                &format!(
                    "iptables -w -t raw -A PREROUTING -m hashlimit --hashlimit-name new --hashlimit-mode srcip \
                     --hashlimit-above {rate}/{time} --hashlimit-burst {burst} --hashlimit-htable-max 65536 -j DROP"
                ),
            );
        }
        Subject::First => ("second_chance = false\n", ""),
        Subject::Second => ("", ""),
        Subject::Proof => ("", "proof = \"syn-cookie\"\n"),
    };
    let period = &time[..1];
    hosts.attach_file(&format!(
        "interfaces = \"eth0\"\n{setting}[[limit]]\nname = \"all\"\nrate = \"{rate}/{period}\"\nburst = {burst}\n{of_limit}"
    ));
}

fn run(hosts: &Hosts, line: &str) {
    on(&hosts.server, || {
        let words: Vec<_> = match line.strip_prefix("nft ") {
            Some(rules) => vec!["nft", rules],
            None => line.split(' ').collect(),
        };
        let done = Command::new(words[0]).args(&words[1..]).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    });
}

/// One process of nginx on the clients' port.
fn serve(hosts: &Hosts, path: &str) -> Service {
    fs::write(format!("{path}/index.html"), "hello").unwrap();
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {path}/{kind};"));
    let file = format!("{path}/nginx.conf");
    let text = format!(
        "user root; worker_processes 1; daemon off; pid {path}/pid; error_log /dev/null; events {{}}
        http {{ access_log off; {} server {{ listen {PORT}; root {path}; keepalive_timeout 0; }} }}",
        paths.concat()
    );
    fs::write(&file, text).unwrap();
    let line = ["nginx", "-c", &file, "-e", "/dev/null"];
    Service::start(&hosts.server, &line, Protocol::Tcp, PORT)
}

/// Seconds that all CPUs have spent in softirqs, in which packets are received.
fn softirq() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap();
    let ticks = text.split_whitespace().nth(7).unwrap();
    ticks.parse::<f64>().unwrap() / 100.0
}
