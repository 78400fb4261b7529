//! The HTTP client.

use std::{sync::Arc, time::Duration};

use rustls::pki_types::{CertificateDer, pem::PemObject};
use ureq::{
    Agent,
    tls::{Certificate, RootCerts, TlsConfig},
};

/// Timeout of a request, with its answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Creates a client that trusts the authorities in `ca` (PEM), or those that this host trusts.
/// Fails if `ca` has no valid certificate.
pub fn client(ca: Option<&[u8]>) -> Result<Agent, String> {
    let trusted: Vec<Certificate> = match ca {
        Some(text) => CertificateDer::pem_slice_iter(text)
            .map(|certificate| Ok(Certificate::from_der(&certificate?).to_owned()))
            .collect::<Result<_, rustls::pki_types::pem::Error>>()
            .map_err(|error| format!("the CA file: {error}"))?,
        None => (rustls_native_certs::load_native_certs().certs.iter())
            .map(|certificate| Certificate::from_der(certificate).to_owned())
            .collect(),
    };
    if ca.is_some() && trusted.is_empty() {
        return Err("the CA file has no certificate".to_owned());
    }
    let cryptography = Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(trusted)))
        .unversioned_rustls_crypto_provider(cryptography)
        .build();
    let config = Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        .user_agent(concat!("limiter/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls);
    Ok(config.build().into())
}
