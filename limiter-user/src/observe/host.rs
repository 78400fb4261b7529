//! The host's name.

/// This host's name; `host` if it has none in UTF-8.
pub fn own_name() -> String {
    let name = nix::unistd::gethostname().ok();
    name.and_then(|name| name.into_string().ok())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "host".to_owned())
}
