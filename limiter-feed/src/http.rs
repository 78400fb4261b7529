//! The HTTP client, for commands that call other hosts.

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustls::{crypto::ring, pki_types::PrivateKeyDer, sign::CertifiedKey};
use ureq::{
    Agent, Error,
    config::Config,
    http::Uri,
    tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem},
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::{DefaultConnector, NextTimeout},
    },
};

use crate::socket::{Dial, Socket};

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
    let config = config(timeout, redirects, is_secure, &Identity::default());
    Agent::with_parts(config, DefaultConnector::default(), Servers::default())
}

/// Creates a client like [`agent`] with an `identity`. It remembers the addresses of its `servers`, or connects to a
/// `socket`.
pub fn agent_of(
    timeout: Duration,
    redirects: u32,
    is_secure: bool,
    servers: Servers,
    access: &Access,
) -> Agent {
    let config = config(timeout, redirects, is_secure, &access.identity);
    match &access.socket {
        Some(dial) => {
            Agent::with_parts(config, Socket(Arc::clone(dial)), DefaultResolver::default())
        }
        None => Agent::with_parts(config, DefaultConnector::default(), servers),
    }
}

fn config(timeout: Duration, redirects: u32, is_secure: bool, identity: &Identity) -> Config {
    let trusted = identity.authorities.clone().unwrap_or_else(|| {
        let trusted = rustls_native_certs::load_native_certs().certs;
        let trusted = trusted.iter().map(|root| Certificate::from_der(root));
        trusted.map(|root| root.to_owned()).collect()
    });
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(trusted)))
        .client_cert(identity.own.clone())
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build();
    Agent::config_builder()
        .user_agent(concat!("limiter/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls)
        .timeout_global(Some(timeout))
        .max_redirects(redirects)
        .https_only(is_secure)
        .build()
}

/// The means by which a client reaches a server and is known there.
#[derive(Clone, Default)]
pub struct Access {
    /// A key, in a header.
    pub key: String,
    /// Certificates.
    pub identity: Identity,
    /// The socket of the server, which has no address then.
    pub socket: Option<Dial>,
}

/// The certificates of a client.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// The authorities that it trusts. None: those of the system.
    authorities: Option<Vec<Certificate<'static>>>,
    /// Its own certificate.
    own: Option<ClientCert>,
}

impl Identity {
    /// Trusts the certificates of a PEM file alone.
    pub fn trust(&mut self, pem: &str) -> Result<(), String> {
        let trusted = certificates(pem)?;
        self.authorities = Some(trusted);
        Ok(())
    }

    /// Shows the certificate of a PEM file, with those between it and its authority, and has the private key of another
    /// file.
    pub fn show(&mut self, pem: &str, key: &str) -> Result<(), String> {
        let chain = certificates(pem)?;
        let key = PrivateKey::from_pem(key.as_bytes())
            .map_err(|_| "the file of its key has no private key in PEM form".to_owned())?;
        check(&chain, &key)?;
        self.own = Some(ClientCert::new_with_certs(&chain, key));
        Ok(())
    }
}

/// Fails if a certificate cannot be shown with this key. The client would panic.
fn check(chain: &[Certificate<'_>], key: &PrivateKey<'_>) -> Result<(), String> {
    let chain = chain.iter().map(|part| part.der().to_vec().into());
    let key = PrivateKeyDer::try_from(key.der().to_vec());
    let provider = ring::default_provider();
    let checked = CertifiedKey::from_der(chain.collect(), key?, &provider);
    checked.map(drop).map_err(|error| {
        format!("it cannot be used with its key ({error}): make a certificate of X.509 version 3 for this key")
    })
}

fn certificates(pem: &str) -> Result<Vec<Certificate<'static>>, String> {
    let mut all = Vec::new();
    for item in parse_pem(pem.as_bytes()) {
        if let PemItem::Certificate(found) = item.map_err(|error| error.to_string())? {
            all.push(found);
        }
    }
    match all.is_empty() {
        true => Err("it has no certificate in PEM form".to_owned()),
        false => Ok(all),
    }
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
    fn file_without_a_certificate_is_refused() {
        let mut identity = Identity::default();
        let why = identity.trust("no PEM").expect_err("no certificate");
        assert!(why.contains("no certificate"), "{why}");
        let why = identity.show("", "").expect_err("no certificate");
        assert!(why.contains("no certificate"), "{why}");
        assert!(identity.authorities.is_none() && identity.own.is_none());
    }

    #[test]
    fn server_without_tls_is_an_error() {
        let url = format!("https://{}", server(&[GOOD]));
        let error = get(5000, 0, &url).expect_err("no TLS");
        assert!(error.contains("corrupt message"), "{error}");
    }
}
