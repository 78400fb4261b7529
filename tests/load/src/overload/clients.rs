//! The clients: each request has a connection of its own.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::Range,
    sync::mpsc,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpSocket,
    time::{Instant, sleep_until, timeout},
};

/// Ordinary clients, and their requests in a second.
const ORDINARY: u8 = 10;
const PACE: f64 = 2.0;
/// Greedy clients, and the requests that each has open.
const GREEDY: u8 = 4;
const OPEN: u32 = 25;
/// After this time without an answer, a client gives up.
const PATIENCE: Duration = Duration::from_secs(5);

fn address(number: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, 10 + number).into()
}

/// The clients' addresses.
pub fn addresses() -> impl Iterator<Item = IpAddr> {
    (0..ORDINARY + GREEDY).map(address)
}

/// Sends requests for this many seconds, the greedy ones within `greedy`. Returns for each ordinary request the second at
/// which it began, and the seconds until its answer.
pub fn send(server: IpAddr, seconds: u64, greedy: Range<u64>) -> io::Result<Vec<(f64, f64)>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (times, answered) = mpsc::channel();
    runtime.block_on(async {
        let began = Instant::now();
        let moment = |seconds: f64| began + Duration::from_secs_f64(seconds);
        for number in ORDINARY..ORDINARY + GREEDY {
            for _ in 0..OPEN {
                let (begin, end) = (moment(greedy.start as f64), moment(greedy.end as f64));
                tokio::spawn(async move {
                    sleep_until(begin).await;
                    while Instant::now() < end {
                        let _ = timeout(PATIENCE, ask(address(number), server)).await;
                    }
                });
            }
        }
        let mut next = 0.0;
        let mut number = 0;
        while next < seconds as f64 {
            sleep_until(moment(next)).await;
            let (times, began) = (times.clone(), next);
            tokio::spawn(async move {
                let asked = Instant::now();
                let _ = timeout(PATIENCE, ask(address(number), server)).await;
                let _ = times.send((began, asked.elapsed().as_secs_f64()));
            });
            number = (number + 1) % ORDINARY;
            next += 1.0 / (PACE * f64::from(ORDINARY));
        }
        sleep_until(moment(seconds as f64) + PATIENCE).await;
    });
    drop((runtime, times));
    Ok(answered.iter().collect())
}

/// One request, up to the end of its answer.
async fn ask(from: IpAddr, server: IpAddr) -> io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(from, 0))?;
    let mut stream = socket.connect(SocketAddr::new(server, 80)).await?;
    let request = b"GET / HTTP/1.1\r\nHost: server\r\nAccept-Encoding: gzip\r\n\r\n";
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.map(drop)
}
