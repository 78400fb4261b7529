//! The store's address and credentials.

use std::{net::IpAddr, sync::Arc, time::Duration};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::{
    address::{Address, Place},
    error::{Error, Fault},
};

/// The options as the operator has written them. Not `Debug`: address and password must not be in a log.
#[derive(Clone)]
pub struct Options {
    /// Address: `redis://`, `rediss://` (TLS), `redis+sentinel://`, `unix://` or `postgres://`, with user, password, ports
    /// and database if needed.
    pub url: String,
    /// The password, if it is not part of the address.
    pub password: Option<Vec<u8>>,
    /// The trusted CA certificates (PEM); without them, the system's.
    pub ca: Option<Vec<u8>>,
    /// The certificate of this host (PEM), with those between it and its authority.
    pub cert: Option<Vec<u8>>,
    /// The private key of the certificate (PEM).
    pub key: Option<Vec<u8>>,
    /// Timeout for a connection, and for an answer.
    pub timeout: Duration,
}

impl Options {
    /// Creates the options for a store at `url` without credentials.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            password: None,
            ca: None,
            cert: None,
            key: None,
            timeout: Duration::from_secs(1),
        }
    }
}

/// A store with a valid address and valid certificates. Keeps the content of the files, because connections are made
/// again when the files may not be readable.
pub struct Target {
    pub(super) options: Options,
    pub(super) address: Address,
    /// The store's address without user and password.
    pub at: String,
}

impl Target {
    /// Reads the options.
    /// Fails if the address or a certificate is not valid.
    pub fn read(options: &Options) -> Result<Arc<Self>, Error> {
        let password = options.password.as_deref().map(str::from_utf8).transpose();
        let password = password
            .map_err(|_| Error::Address("the password in the file is not UTF-8".to_owned()))?;
        let password = password.map(|password| password.trim_end_matches(['\r', '\n']));
        let address = Address::read(&options.url, password)?;
        let target = Self {
            at: address.shown(),
            address,
            options: options.clone(),
        };
        let files = [&options.ca, &options.cert, &options.key];
        if !target.address.is_tls && files.into_iter().any(Option::is_some) {
            let why = "certificates are given, but it has no TLS";
            return Err(Error::Address(why.to_owned()));
        }
        target.tls().map_err(Error::Certificates)?;
        Ok(Arc::new(target))
    }

    /// The TLS settings. The system's certificates are read for each connection.
    pub(super) fn tls(&self) -> Result<ClientConfig, String> {
        // Sets the process's TLS cryptography once. An error means that it is already set.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut trusted = RootCertStore::empty();
        if let Some(text) = &self.options.ca {
            for certificate in CertificateDer::pem_slice_iter(text) {
                let certificate = certificate.map_err(|error| format!("the CA file: {error}"))?;
                let added = trusted.add(certificate);
                added.map_err(|error| format!("a certificate of the CA file: {error}"))?;
            }
            if trusted.is_empty() {
                return Err("the CA file has no certificate".to_owned());
            }
        } else if self.address.is_tls {
            trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let config = ClientConfig::builder().with_root_certificates(trusted);
        let (cert, key) = match (&self.options.cert, &self.options.key) {
            (None, None) => return Ok(config.with_no_client_auth()),
            (Some(cert), Some(key)) => (cert, key),
            _ => return Err("a certificate needs its key, and a key its certificate".to_owned()),
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(cert).collect();
        let chain = chain.map_err(|error| format!("the certificate: {error}"))?;
        if chain.is_empty() {
            return Err("the file of the certificate has none".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
            "the file of the key has no private key that is not encrypted".to_owned()
        })?;
        let config = config.with_client_auth_cert(chain, key);
        config.map_err(|error| {
            format!("the certificate cannot be used with its key ({error}): it must be of X.509 version 3, and made for this key")
        })
    }

    pub(super) fn error(&self, fault: Fault) -> Error {
        Error::At(self.at.clone(), fault)
    }

    /// The error of an answer that is not valid.
    pub(super) fn invalid(&self, problem: &str) -> Error {
        self.error(Fault::Invalid(problem.to_owned()))
    }

    pub(super) async fn within_timeout<T>(
        &self,
        answer: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Error> {
        let time = self.options.timeout;
        let fault = match tokio::time::timeout(time, answer).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(fault)) => fault,
            Err(_) => Fault::Timeout(time),
        };
        Err(self.error(fault))
    }

    /// The IP addresses of the store's host; none for a socket, or if the name cannot be resolved at present.
    pub(super) async fn addresses(&self) -> Vec<IpAddr> {
        const PATIENCE: Duration = Duration::from_secs(2);
        let mut addresses = Vec::new();
        for place in &self.address.servers {
            let Place::Tcp(host, port) = place else {
                continue;
            };
            let host = (&**host, *port);
            let found = tokio::time::timeout(PATIENCE, tokio::net::lookup_host(host)).await;
            let found = found.into_iter().flatten().flatten();
            addresses.extend(found.map(|socket| socket.ip().to_canonical()));
        }
        addresses
    }

    /// Prepares a text of the server or the system for a message: without the password, printable, and short.
    pub(super) fn quoted(&self, text: &str) -> String {
        const LONGEST: usize = 200;
        let text = match self.address.password() {
            Some(password) if !password.is_empty() => text.replace(password, "***"),
            _ => text.to_owned(),
        };
        let short: String = text.chars().take(LONGEST).collect();
        let quoted = short.escape_debug().to_string();
        quoted.replace("\\'", "'").replace("\\\"", "\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_do_not_contain_the_password() {
        let good = "redis://me:geheim@host:7000/2";
        let options = Options::new(good);
        let target = Target::read(&options).unwrap();
        assert_eq!(target.at, "host:7000");
        let mut messages = String::new();
        for bad in [
            "redis://me:geheim@host:x/2",
            "redis://me:geheim@host/y",
            "http://me:geheim@host",
            "redis://me:geheim@host#insecure",
            "geheim",
            "",
            "unix://run/redis.sock",
            "redis://me:geheim@:7000",
            "redis://me:geheim@2001:db8::1",
            "redis://me:ge/heim@store",
            "postgres://me:geheim@host:x/edge",
        ] {
            let error = Target::read(&Options::new(bad)).err().unwrap();
            assert!(matches!(error, Error::Address(_)), "{bad}: {error}");
            messages += &format!("{error} {error:?}");
        }
        assert!(!messages.contains("geheim"), "{messages}");
        assert_eq!(target.quoted("is geheim!\u{1b}"), "is ***!\\u{1b}");
    }

    #[test]
    fn certificates_need_tls() {
        let mut options = Options::new("redis://host");
        options.ca = Some(Vec::new());
        assert!(matches!(Target::read(&options), Err(Error::Address(_))));
        options.url = "rediss://host".into();
        // This CA file has no certificate.
        let error = Target::read(&options).err().unwrap();
        assert!(matches!(error, Error::Certificates(_)), "{error}");
        options.ca = None;
        assert!(Target::read(&options).is_ok());
    }
}
