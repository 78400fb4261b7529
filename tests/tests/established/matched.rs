//! Limits with `established = true` hold the packets of connections, and only these.

use std::{
    io::Write as _,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
    time::Instant,
};

use limiter_tests::{
    eventually,
    hosts::{CLIENT, Hosts, SERVER, on},
    need_kernel, number,
    packet::Segment,
    processes::packets_are_delivered,
    raw::Raw,
};

use super::{
    CHUNK, DOWNLOAD, FAMILIES, NEVER_SENT, PATIENCE, SEGMENT, SILENCE, connected_udp, ends,
    ends_of, offer, read_all, small_buffers,
};

/// A file with `established` exempt, a limit `all` on everything else, and one on packets of connections.
fn bounded(rate: &str, burst: u32) -> String {
    format!(
        "interfaces = [\"eth0\"]\nexempt = [\"established\"]\n\
         [[limit]]\nname = \"all\"\nmatch = {{ protocol = \"udp\" }}\nrate = \"1/h\"\nburst = 3\n\
         [[limit]]\nname = \"connections\"\nmatch = {{ established = true }}\nrate = \"{rate}\"\nburst = {burst}\n"
    )
}

/// The packets that each of the limits `all` and `connections` has admitted and dropped.
fn by_limit(hosts: &Hosts) -> [[u64; 2]; 2] {
    let limits = &hosts.status()["limits"];
    ["all", "connections"].map(|name| {
        let of_name = |limit: &&serde_json::Value| limit["name"] == name;
        let limit = limits.as_array().unwrap().iter().find(of_name).unwrap();
        ["passed", "dropped"].map(|figure| number(&limit[figure]["packets"]))
    })
}

/// A sender that forges the five-tuple of a connection gets what its limit admits, and takes nothing from other limits.
#[test]
fn flood_in_the_five_tuple_of_a_connection_is_bounded() {
    need_kernel!();
    for (server, client) in FAMILIES {
        let hosts = Hosts::of_both_families();
        let (receiver, from) = connected_udp(&hosts, server, client);
        let connection = ends_of(&hosts, &from, &receiver);
        let (own, other) = (
            connection.udp(b"flood"),
            connection
                .at(NEVER_SENT, receiver.local_addr().unwrap().port())
                .udp(b"flood"),
        );
        hosts.attach_file(&bounded("1/h", 5));
        assert_eq!(offer(&hosts, &own, 20), (0, 15), "{client}");
        assert_eq!(offer(&hosts, &other, 20), (0, 17), "{client}");
        assert_eq!(by_limit(&hosts), [[3, 17], [5, 15]]);
        packets_are_delivered();
        receiver.set_read_timeout(Some(SILENCE)).unwrap();
        let received = (0..20)
            .filter(|_| receiver.recv(&mut [0; 16]).is_ok())
            .count();
        assert_eq!(received, 5);

        // Without the exemption, both limits apply. A limit on other packets leaves connections alone.
        let text = bounded("1/h", 5).replace("exempt = [\"established\"]\n", "");
        hosts.run("detach eth0");
        hosts.attach_file(&text);
        assert_eq!(offer(&hosts, &own, 20), (0, 17), "{client}");
        assert_eq!(by_limit(&hosts)[0], [3, 17]);
        hosts.run("detach eth0");
        hosts.attach_file(
            &text
                .replace("established = true", "established = false")
                .replace("burst = 3", "burst = 30"),
        );
        assert_eq!(offer(&hosts, &own, 20), (0, 0), "{client}");
        assert_eq!(by_limit(&hosts), [[20, 0], [0, 0]]);
        assert_eq!(offer(&hosts, &other, 9), (0, 4), "{client}");
    }
}

/// A later fragment shows no ports: both limits are charged for it.
#[test]
fn later_fragments_are_charged_to_limits_on_connections_and_on_others() {
    need_kernel!();
    let hosts = Hosts::of_both_families();
    let (receiver, from) = connected_udp(&hosts, SERVER, CLIENT);
    let connection = ends_of(&hosts, &from, &receiver);
    let mut fragment = connection.udp(&[0x5a; 64]);
    fragment[20..22].copy_from_slice(&8_u16.to_be_bytes());
    hosts.attach_file(&bounded("1/h", 50));
    assert_eq!(offer(&hosts, &fragment, 20), (0, 17));
    assert_eq!(by_limit(&hosts), [[3, 17], [3, 0]]);
}

/// A connection gets its bucket even while a flood of new sources has used up the new-source limit.
#[test]
fn connection_needs_no_token_of_the_new_source_limit() {
    need_kernel!();
    let hosts = Hosts::of_both_families();
    // The limit on connections has a token of its own for one source, so the second connection would lack one.
    let sockets = FAMILIES.map(|(server, client)| connected_udp(&hosts, server, client));
    hosts.attach_file(&format!(
        "new_sources = \"1/h\"\nnew_sources_burst = 1\nsecond_chance = false\n{}",
        bounded("1/h", 50)
    ));
    let wire = Raw::open(&hosts.client);
    for number in 1..=50 {
        let from = SocketAddr::new([198, 51, 100, number].into(), 40_000);
        wire.send(&ends(&hosts, from, SocketAddr::new(SERVER, NEVER_SENT)).udp(b"flood"));
    }
    eventually("the new-source limit is used up", || {
        number(&hosts.status()["drops"]["new_source"]["packets"]) > 30
    });
    for (receiver, from) in &sockets {
        let connection = ends_of(&hosts, from, receiver);
        assert_eq!(offer(&hosts, &connection.udp(b"data"), 20), (0, 0));
    }
    assert_eq!(by_limit(&hosts)[1], [40, 0]);
}

/// A download is not affected by a generous limit on connections, and a flood in its five-tuple is held to it.
#[test]
fn download_passes_the_limit_on_connections_and_a_flood_does_not() {
    need_kernel!();
    const MOST: f64 = 4_000.0;
    for (_, client) in FAMILIES {
        let hosts = Hosts::of_both_families();
        small_buffers(&hosts.server);
        small_buffers(&hosts.client);
        let listener = on(&hosts.client, || TcpListener::bind((client, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let since = Instant::now();
        hosts.attach_file(&bounded("1k/s", 4_000));
        let connect = || TcpStream::connect_timeout(&address, PATIENCE);
        let stream = on(&hosts.server, connect).expect("the connection opens");
        let (mut peer, from) = listener.accept().unwrap();
        peer.set_write_timeout(Some(PATIENCE)).unwrap();
        let download = thread::spawn({
            let receiver = stream.try_clone().unwrap();
            || read_all(receiver)
        });
        (0..DOWNLOAD / CHUNK).for_each(|_| peer.write_all(&[0x5a; CHUNK]).unwrap());
        let [_, [admitted, _]] = by_limit(&hosts);
        assert!(admitted >= DOWNLOAD as u64 / SEGMENT / 2, "{admitted}");
        assert_eq!(hosts.status()["dropped"]["packets"], 0);

        let flood = ends(&hosts, address, from).tcp(Segment::Data);
        let (established, dropped) = offer(&hosts, &flood, 12_000);
        assert_eq!(established, 0);
        let [_, [admitted, of_connections]] = by_limit(&hosts);
        assert!(admitted as f64 <= MOST + 1e3 * since.elapsed().as_secs_f64());
        assert!(dropped > 0 && of_connections >= dropped, "{dropped}");
        // The connection goes on.
        peer.shutdown(Shutdown::Write).unwrap();
        assert_eq!(download.join().unwrap(), DOWNLOAD, "{client}");
        drop(stream);
    }
}
