//! A longer path to the store: data arrives later in both directions, and in order.
//!
//! This is no queueing discipline of the kernel, because not every kernel has `netem`.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use limiter_user::testbed::Namespace;

use super::STORE;

/// Listens beside the store until it is dropped.
#[derive(Debug)]
pub struct Detour {
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    delay: AtomicU64,
    to: AtomicU16,
    ended: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Detour {
    /// Leads from port `from` of the store's address to its port `to`, without delay.
    #[must_use]
    pub fn start(store: &Namespace, from: u16, to: u16) -> Self {
        let at = |port| SocketAddr::new(STORE.into(), port);
        let listener = store.run(|| TcpListener::bind(at(from))).unwrap().unwrap();
        listener.set_nonblocking(true).unwrap();
        let shared = Arc::<Shared>::default();
        shared.to.store(to, Ordering::Relaxed);
        let (store, of_thread) = (store.clone(), Arc::clone(&shared));
        let accepting = thread::spawn(move || {
            while !of_thread.ended.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((near, _)) => {
                        let to = of_thread.to.load(Ordering::Relaxed);
                        of_thread.join(near, &store, at(to));
                    }
                    Err(_) => thread::sleep(Duration::from_millis(2)),
                }
            }
        });
        Self {
            shared,
            accepting: Some(accepting),
        }
    }

    /// Delays data in both directions by this time from now on.
    pub fn delay(&self, delay: Duration) {
        let delay = u64::try_from(delay.as_nanos()).unwrap();
        self.shared.delay.store(delay, Ordering::Relaxed);
    }

    /// Leads new connections to this port from now on.
    pub fn lead_to(&self, port: u16) {
        self.shared.to.store(port, Ordering::Relaxed);
    }

    /// Ends all existing connections. New ones can be made.
    pub fn disconnect(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Detour {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        let _ = self.accepting.take().map(JoinHandle::join);
        self.disconnect();
    }
}

impl Shared {
    /// Joins a connection with a new one to the store; closes it if the store is not there.
    fn join(self: &Arc<Self>, near: TcpStream, store: &Namespace, to: SocketAddr) {
        let Ok(far) = store.run(|| TcpStream::connect(to)).unwrap() else {
            return;
        };
        near.set_nonblocking(false).unwrap();
        let of = |stream: &TcpStream| stream.try_clone().unwrap();
        for stream in [&near, &far] {
            // Data goes on as soon as it arrives.
            stream.set_nodelay(true).unwrap();
            self.open.lock().unwrap().push(of(stream));
        }
        self.carry(of(&near), of(&far));
        self.carry(far, near);
    }

    /// Carries data from one connection to the other until one of them ends.
    fn carry(self: &Arc<Self>, mut from: TcpStream, to: TcpStream) {
        let (pieces, carried) = channel();
        let shared = Arc::clone(self);
        thread::spawn(move || shared.take(&mut from, &pieces));
        thread::spawn(move || deliver(&carried, to));
    }

    fn take(&self, from: &mut TcpStream, pieces: &Sender<(Instant, Vec<u8>)>) {
        let mut piece = [0; 65_536];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            let delay = Duration::from_nanos(self.delay.load(Ordering::Relaxed));
            if pieces
                .send((Instant::now() + delay, piece[..length].to_vec()))
                .is_err()
            {
                break;
            }
        }
    }
}

fn deliver(pieces: &Receiver<(Instant, Vec<u8>)>, mut to: TcpStream) {
    for (then, piece) in pieces {
        thread::sleep(then.saturating_duration_since(Instant::now()));
        if to.write_all(&piece).is_err() {
            break;
        }
    }
    // Senders and readers of this connection learn that it has ended.
    let _ = to.shutdown(Shutdown::Both);
}
