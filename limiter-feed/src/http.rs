//! The HTTP client, for commands that call other hosts.

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustls::crypto::ring;
use ureq::{
    Agent, Error,
    config::Config,
    http::Uri,
    tls::{Certificate, RootCerts, TlsConfig},
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::{DefaultConnector, NextTimeout},
    },
};

/// The most addresses that are remembered.
const REMEMBERED: usize = 256;

/// The addresses that a client has found for the names of its servers, also of those that it was redirected to.
#[derive(Clone, Debug, Default)]
pub struct Servers(Arc<Mutex<VecDeque<IpAddr>>>);

impl Servers {
    /// The addresses; of many, the last ones.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().copied().collect()
    }

    fn remember(&self, found: &[SocketAddr]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for address in found.iter().map(SocketAddr::ip) {
            known.retain(|earlier| *earlier != address);
            known.push_back(address);
        }
        let old = known.len().saturating_sub(REMEMBERED);
        known.drain(..old);
    }
}

impl Resolver for Servers {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let found = DefaultResolver::default().resolve(uri, config, timeout)?;
        self.remember(&found);
        Ok(found)
    }
}

/// Creates a client. `timeout` is for a whole call, from the look-up of the name to the end of the answer. A call with
/// more redirects fails; if the number is 0, a redirect is an answer. Statuses from 400 on are errors.
/// `is_secure`: it refuses URLs and redirects without TLS.
///
/// It trusts the system's certificates, or those of `SSL_CERT_FILE`. They are read now, so that the process may give up
/// its access to files afterwards.
pub fn agent(timeout: Duration, redirects: u32, is_secure: bool) -> Agent {
    agent_of(timeout, redirects, is_secure, Servers::default())
}

/// Creates a client like [`agent`] that remembers the addresses of its `servers`.
pub fn agent_of(timeout: Duration, redirects: u32, is_secure: bool, servers: Servers) -> Agent {
    let trusted = rustls_native_certs::load_native_certs().certs;
    let trusted = trusted.iter().map(|root| Certificate::from_der(root));
    let trusted: Vec<_> = trusted.map(|root| root.to_owned()).collect();
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(trusted)))
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build();
    let config = Agent::config_builder()
        .user_agent(concat!("limiter/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls)
        .timeout_global(Some(timeout))
        .max_redirects(redirects)
        .https_only(is_secure)
        .build();
    Agent::with_parts(config, DefaultConnector::default(), servers)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
        thread,
        time::Instant,
    };

    use super::*;

    /// A server of `answers`, one per connection. Returns its address without the scheme.
    fn server(answers: &'static [&str]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("a connection");
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(answer.as_bytes());
                if answer.is_empty() {
                    // Longer than the client waits.
                    thread::sleep(Duration::from_secs(5));
                }
            }
        });
        format!("{address}/")
    }

    fn get(timeout: u64, redirects: u32, url: &str) -> Result<String, String> {
        let answer = agent(Duration::from_millis(timeout), redirects, false)
            .get(url)
            .call();
        let mut answer = answer.map_err(|error| error.to_string())?;
        Ok(answer.body_mut().read_to_string().expect("text"))
    }

    const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone";
    const MOVED: &str =
        "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const BROKEN: &str = "HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

    #[test]
    fn redirects_are_followed_up_to_their_number() {
        let url = format!("http://{}", server(&[MOVED, GOOD]));
        assert_eq!(get(5000, 1, &url), Ok("done".to_owned()));
        let url = format!("http://{}", server(&[MOVED, MOVED]));
        assert_eq!(get(5000, 1, &url), Err("too many redirects".to_owned()));
        let url = format!("http://{}", server(&[MOVED]));
        assert_eq!(get(5000, 0, &url), Ok(String::new()));
    }

    #[test]
    fn refusal_and_silence_are_errors() {
        let url = format!("http://{}", server(&[BROKEN]));
        assert_eq!(get(5000, 1, &url), Err("http status: 500".to_owned()));
        let begun = Instant::now();
        let url = format!("http://{}", server(&[""]));
        assert_eq!(get(200, 1, &url), Err("timeout: global".to_owned()));
        assert!(begun.elapsed() < Duration::from_secs(3));
    }

    #[test]
    fn server_without_tls_is_an_error() {
        let url = format!("https://{}", server(&[GOOD]));
        let error = get(5000, 0, &url).expect_err("no TLS");
        assert!(error.contains("corrupt message"), "{error}");
    }
}
