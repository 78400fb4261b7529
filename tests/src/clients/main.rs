//! Measures new clients during floods of made-up sources, with and without second chances: `docs/table.md`.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Parser;
use limiter_tests::{
    hosts::Hosts,
    newcomers::{Clients, Flood, Repeats, connect_during, prepare_answers},
};

/// Measure how many new TCP clients connect during floods of made-up sources.
#[derive(Debug, Parser)]
#[command(name = "clients")]
struct Args {
    /// Packets a second of the floods
    #[arg(long, value_delimiter = ',', default_values_t = [20_000, 200_000])]
    rates: Vec<u64>,
    /// Only measure handshake proofs, against floods of SYNs
    #[arg(long)]
    proof: bool,
    /// Number of clients
    #[arg(long, default_value_t = 300)]
    clients: u32,
}

const LIMIT: &str = "[[limit]]\nname = \"all\"\nrate = \"5/s\"\nburst = 10\n";
const SLOW: &str = "[[limit]]\nname = \"ssh\"\nrate = \"5/h\"\n";

fn main() -> Result<()> {
    let Args {
        rates,
        clients,
        proof,
    } = Args::parse();
    ensure!(
        clients > 0 && rates.iter().all(|rate| *rate > 0),
        "write numbers above 0"
    );
    println!("| flood | second chance | within 0.5 s | 1.5 s | 3.5 s |\n|---|---|---|---|---|");
    let during = Clients {
        number: clients,
        after: Duration::from_secs(10),
        over: Duration::from_secs(10),
        behind_the_flood: false,
    };
    measure(
        "none",
        LIMIT,
        None,
        Clients {
            after: Duration::ZERO,
            ..during
        },
        proof,
    );
    for per_second in rates {
        for (repeats, what) in [
            (Repeats::Never, "once each"),
            (Repeats::AtOnce, "twice at once"),
            (Repeats::AfterASecond, "twice, a second apart"),
        ] {
            let flood = Flood {
                per_second,
                repeats,
                syns: proof,
            };
            measure(
                &format!("{per_second}/s, {what}"),
                LIMIT,
                Some(flood),
                during,
                proof,
            );
        }
    }
    let flood = Flood {
        per_second: 12_000,
        repeats: Repeats::Never,
        syns: proof,
    };
    for behind_the_flood in [false, true] {
        let when = if behind_the_flood { "after" } else { "during" };
        let clients = Clients {
            behind_the_flood,
            ..during
        };
        measure(
            &format!("{when} 12000/s against 5/h"),
            SLOW,
            Some(flood),
            clients,
            proof,
        );
    }
    Ok(())
}

fn measure(what: &str, limit: &str, flood: Option<Flood>, clients: Clients, proof: bool) {
    let settings = if proof {
        &[("proof", "", "proof = \"syn-cookie\"\n")][..]
    } else {
        &[("off", "second_chance = false\n", ""), ("on", "", "")]
    };
    for (name, setting, of_limit) in settings {
        let hosts = Hosts::new();
        prepare_answers(&hosts);
        hosts.attach_file(&format!(
            "interfaces = \"eth0\"\n{setting}{limit}{of_limit}"
        ));
        let times = connect_during(&hosts, flood, clients);
        let shares = [500, 1_500, 3_500].map(|time| format!("{:.0} %", times.percent_within(time)));
        println!("| {what} | {name} | {} |", shares.join(" | "));
        eprintln!("{}", hosts.run("status eth0"));
        hosts.run("detach eth0");
    }
}
