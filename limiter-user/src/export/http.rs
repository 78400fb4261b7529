//! The HTTP routes. The headers of every answer forbid the browser everything that the page does not need.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, uri::Authority},
    middleware::{Next, from_fn, map_response},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;
use tokio::time::timeout;

use super::{
    collection::{Collection, Reading},
    format::Format,
    metrics,
};
use crate::observe::Status;

/// Timeout for reading the kernel. A table of millions of sources takes less than a second.
const READING_TIME: Duration = Duration::from_secs(20);

/// Header with the time of the answer's reading, in milliseconds of the exporter's own clock, which is never set.
/// Clients need it to compute rates.
const READ_AT: HeaderName = HeaderName::from_static("limiter-read-at-ms");

const JSON: &str = "application/json";
const PLAIN: &str = "text/plain; charset=utf-8";

const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (header::CACHE_CONTROL, "no-store"),
];

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const ICON: &str = "image/svg+xml";

/// The files of the page.
const PAGE: [(&str, &str, &str); 5] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/style.css", CSS, include_str!("page/style.css")),
    ("/script.js", SCRIPT, include_str!("page/script.js")),
    ("/chart.js", SCRIPT, include_str!("page/chart.js")),
    ("/icon.svg", ICON, include_str!("page/icon.svg")),
];

/// The routes. Only GET and HEAD are allowed, and nothing can be changed. `local`: answer only requests for this
/// machine.
pub fn router(collection: Collection, local: bool) -> Router {
    let mut files = Router::new();
    for (path, kind, text) in PAGE {
        let file = move || async move { ([(header::CONTENT_TYPE, kind)], text) };
        files = files.route(path, get(file));
    }
    files
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/api/status", get(status))
        .route("/api/top/{interface}", get(top))
        .route("/api/history/{interface}", get(history))
        .fallback(|| async { (StatusCode::NOT_FOUND, "not found\n") })
        .with_state(collection)
        .layer(from_fn(move |request, next| {
            only_by_address(local, request, next)
        }))
        .layer(map_response(with_headers))
}

/// Refuses requests by a foreign name, against DNS rebinding. In DNS rebinding, another site's page, open in a browser
/// on this machine, gives its own name the address 127.0.0.1, and reads the answers as its own. It cannot send
/// requests with an address as their name.
async fn only_by_address(local: bool, request: Request, next: Next) -> Response {
    let Ok(host) = one_host(request.headers()) else {
        let why = "bad request: send one Host header, in ASCII\n";
        return (StatusCode::BAD_REQUEST, why).into_response();
    };
    if local && host.is_some_and(|host| !is_local(host)) {
        let why = "this exporter answers only requests for localhost or an IP address, against DNS rebinding: use http://127.0.0.1\n";
        return (StatusCode::MISDIRECTED_REQUEST, why).into_response();
    }
    next.run(request).await
}

/// The host name of a request, if it has one. Two names, or a name that is not text, are an error: a proxy in front of
/// this server may have checked another one.
fn one_host(headers: &HeaderMap) -> Result<Option<&str>, ()> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().map(|host| host.to_str().map_err(|_| ()));
    if hosts.next().is_some() {
        return Err(());
    }
    host.transpose()
}

/// Returns true if a `Host` header names this machine or an address. Other names may belong to other machines.
pub fn is_local(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host();
    // The parser skips a user before the name, and text between the closing bracket and the port.
    let is_port = |rest: &str| {
        rest.strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if !host
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || is_port(rest))
    {
        return false;
    }
    let address = name.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

async fn with_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

async fn latest(collection: &Collection) -> Result<Arc<Reading>, Response> {
    let reading = timeout(READING_TIME, collection.latest()).await;
    let why = match reading {
        Ok(Ok(reading)) => return Ok(reading),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "reading the kernel takes too long".to_owned(),
    };
    Err((StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response())
}

async fn metrics(
    State(collection): State<Collection>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Response> {
    let reading = latest(&collection).await?;
    let accepted = headers.get_all(header::ACCEPT).iter();
    let format = Format::accepted(accepted.filter_map(|value| value.to_str().ok()));
    Ok((
        [
            (header::CONTENT_TYPE, format.content_type()),
            (header::VARY, "accept"),
        ],
        metrics::text(&reading, format),
    ))
}

/// Answers 200 if the counters can be read.
async fn healthz(State(collection): State<Collection>) -> Result<impl IntoResponse, Response> {
    latest(&collection).await?;
    Ok(([(header::CONTENT_TYPE, PLAIN)], "ok\n"))
}

/// The content of `status --json`, and the messages that the command writes to standard error.
#[derive(Serialize)]
struct StatusAndErrors<'r> {
    #[serde(flatten)]
    status: &'r Status,
    errors: &'r [String],
}

async fn status(State(collection): State<Collection>) -> Result<Response, Response> {
    let reading = latest(&collection).await?;
    Ok(json(
        &reading,
        &StatusAndErrors {
            status: &reading.snapshot.status,
            errors: &reading.snapshot.unreadable,
        },
    ))
}

/// The content of `top --once --json`.
async fn top(
    State(collection): State<Collection>,
    Path(interface): Path<String>,
) -> Result<Response, Response> {
    let reading = latest(&collection).await?;
    let mut tops = reading.snapshot.tops.iter();
    let found = tops.find(|top| top.interface == interface);
    Ok(json(&reading, found.ok_or_else(not_attached)?))
}

/// Rates of the last two hours.
async fn history(
    State(collection): State<Collection>,
    Path(interface): Path<String>,
) -> Result<Response, Response> {
    let reading = latest(&collection).await?;
    let mut interfaces = reading.snapshot.status.interfaces.iter();
    let found = interfaces.find(|found| found.name == interface);
    let ifindex = found.ok_or_else(not_attached)?.ifindex;
    Ok(json(&reading, &collection.history(ifindex).await))
}

fn not_attached() -> Response {
    (
        StatusCode::NOT_FOUND,
        "limiter is not attached to this interface\n",
    )
        .into_response()
}

fn json(reading: &Reading, value: &impl Serialize) -> Response {
    let Ok(body) = serde_json::to_string(value) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let at = reading.at.as_millis().to_string();
    let headers = [(header::CONTENT_TYPE, JSON.to_owned()), (READ_AT, at)];
    (headers, body).into_response()
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn foreign_host_names_are_not_local() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:10546",
            "[::1]:10546",
            "localhost",
            "LOCALHOST:80",
        ] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "example.com",
            "example.com:10546",
            "127.0.0.1.example.com",
            "localhost.example.com",
            "",
            "a b",
            "[::1].example.com",
            "[::1]example.com:80",
            "user@localhost",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }
}
