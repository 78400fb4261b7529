//! Sends real packets: UDP from sockets of one namespace to a socket of the other.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use limiter_tests::testbed::Namespace;

/// The port of the discard service, which does not answer.
const PORT: u16 = 9;

/// Counts received packets by source.
pub struct Receiver(Arc<Mutex<HashMap<IpAddr, u64>>>);

impl Receiver {
    /// Listens inside `namespace` for as long as the process lives.
    pub fn start(namespace: &Namespace) -> anyhow::Result<Self> {
        let socket = namespace.run(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, PORT)))??;
        let counts = Arc::new(Mutex::new(HashMap::new()));
        let shared = Arc::clone(&counts);
        thread::spawn(move || {
            let mut packet = [0; 64];
            while let Ok((_, from)) = socket.recv_from(&mut packet) {
                let mut counts = shared.lock().unwrap_or_else(PoisonError::into_inner);
                *counts.entry(from.ip().to_canonical()).or_insert(0) += 1;
            }
        });
        Ok(Self(counts))
    }

    /// Number of packets received from `source`.
    pub fn received(&self, source: IpAddr) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&source).copied().unwrap_or(0)
    }
}

/// Sends evenly spaced packets from several addresses in turn.
pub struct Sender {
    sent: AtomicU64,
    stopped: AtomicBool,
    start: Instant,
    /// Time of the last packet, in nanoseconds after the start.
    last: AtomicU64,
}

impl Sender {
    /// Starts to send inside `namespace`.
    pub fn start(
        namespace: &Namespace,
        sources: &[IpAddr],
        target: IpAddr,
        per_second: u32,
    ) -> anyhow::Result<Arc<Self>> {
        let bind = |source: &IpAddr| -> std::io::Result<UdpSocket> {
            let socket = UdpSocket::bind(SocketAddr::new(*source, 0))?;
            socket.connect(SocketAddr::new(target, PORT))?;
            Ok(socket)
        };
        let sockets: Vec<_> =
            namespace.run(|| sources.iter().map(bind).collect::<Result<_, _>>())??;
        let sender = Arc::new(Self {
            sent: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            start: Instant::now(),
            last: AtomicU64::new(0),
        });
        let shared = Arc::clone(&sender);
        thread::spawn(move || shared.send(&sockets, Duration::from_secs(1) / per_second));
        Ok(sender)
    }

    fn send(&self, sockets: &[UdpSocket], gap: Duration) {
        for (number, socket) in (0_u32..).zip(sockets.iter().cycle()) {
            let due = self.start + gap * number;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if self.stopped.load(Ordering::Relaxed) {
                return;
            }
            if socket.send(b"limiter").is_ok() {
                self.sent.fetch_add(1, Ordering::Relaxed);
                let elapsed = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.last.store(elapsed, Ordering::Relaxed);
            }
        }
    }

    /// Stops sending.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Number of packets sent, and the time taken.
    pub fn progress(&self) -> (u64, Duration) {
        (
            self.sent.load(Ordering::Relaxed),
            Duration::from_nanos(self.last.load(Ordering::Relaxed)),
        )
    }
}
