//! A link to a server on loopback that counts bytes, delays them, loses answers, or ends connections with a message.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// The link.
#[derive(Debug)]
pub struct Proxy {
    /// The port that stands for the server's.
    pub port: u16,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: AtomicU64,
    delay_millis: AtomicU64,
    loses: AtomicBool,
    end: Mutex<Option<End>>,
    /// The open connections to clients.
    clients: Mutex<Vec<TcpStream>>,
}

/// The end of a connection that takes the next request or answer.
#[derive(Debug)]
struct End {
    moment: Moment,
    message: Vec<u8>,
}

/// The moment at which a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// No request is under way.
    Idle,
    /// Instead of the answer to the next request.
    InsteadOfAnswer,
    /// Together with the answer to the next request.
    AfterAnswer,
}

impl Proxy {
    /// A link to a port.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            state: Arc::default(),
        };
        let state = Arc::clone(&proxy.state);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                let (server_copy, from) =
                    (server.try_clone().unwrap(), client.try_clone().unwrap());
                let mut clients = state.clients.lock().unwrap();
                clients.push(client.try_clone().unwrap());
                let (there, back) = (Arc::clone(&state), Arc::clone(&state));
                thread::spawn(move || forward(from, server_copy, &there, false));
                thread::spawn(move || forward(server, client, &back, true));
            }
        });
        proxy
    }

    /// A URL of the server, by this link.
    pub fn url(&self, url: &str, port: u16) -> String {
        url.replace(&format!(":{port}"), &format!(":{}", self.port))
    }

    /// Bytes in both directions until now.
    pub fn bytes(&self) -> u64 {
        self.state.bytes.load(Relaxed)
    }

    /// Delays bytes by this time, in each direction.
    pub fn delay(&self, time: Duration) {
        let millis = time.as_millis().try_into().unwrap();
        self.state.delay_millis.store(millis, Relaxed);
    }

    /// Ends a connection with the server's last message, which may be empty.
    pub fn end(&self, moment: Moment, message: &[u8]) {
        if moment == Moment::Idle {
            for mut client in self.state.clients.lock().unwrap().drain(..) {
                let _ = client.write_all(message);
                let _ = client.shutdown(Shutdown::Both);
            }
            return;
        }
        *self.state.end.lock().unwrap() = Some(End {
            moment,
            message: message.to_vec(),
        });
    }

    /// Closes connections instead of forwarding answers.
    pub fn lose_answers(&self, loses: bool) {
        self.state.loses.store(loses, Relaxed);
    }
}

fn forward(mut from: TcpStream, mut receiver: TcpStream, state: &State, is_answer: bool) {
    receiver.set_nodelay(true).unwrap();
    let mut part = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut part) {
        if is_answer && state.loses.load(Relaxed) {
            break;
        }
        state.bytes.fetch_add(length as u64, Relaxed);
        thread::sleep(Duration::from_millis(state.delay_millis.load(Relaxed)));
        if is_answer && let Some(end) = state.end.lock().unwrap().take() {
            if end.moment == Moment::AfterAnswer {
                let _ = receiver.write_all(&part[..length]);
            }
            let _ = receiver.write_all(&end.message);
            break;
        }
        if receiver.write_all(&part[..length]).is_err() {
            break;
        }
    }
    let _ = receiver.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
