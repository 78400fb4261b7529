//! The HTTP routes. The headers of every answer forbid the browser everything that the page does not need.

use std::{net::IpAddr, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header, uri::Authority},
    middleware::{Next, from_fn, map_response},
    response::{IntoResponse, Response},
    routing::get,
};
use tower_http::compression::CompressionLayer;

use super::{Collection, Format, Reading};

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

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The files of the page: path, content type, text.
const PAGE: [(&str, &str, &str); 7] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_str!("page/index.html"),
    ),
    (
        "/style.css",
        "text/css; charset=utf-8",
        include_str!("page/style.css"),
    ),
    ("/script.js", SCRIPT, include_str!("page/script.js")),
    ("/chart.js", SCRIPT, include_str!("page/chart.js")),
    ("/rates.js", SCRIPT, include_str!("page/rates.js")),
    ("/text.js", SCRIPT, include_str!("page/text.js")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

/// The content of the answers.
#[derive(Clone, Debug)]
pub struct Served {
    /// The readings.
    pub collection: Collection,
    /// Labels of each sample of the metrics, besides its own.
    pub labels: Arc<[(String, String)]>,
}

/// The routes. Only GET and HEAD are allowed, and nothing can be changed. `local`: answer only requests for this
/// machine.
pub fn router(served: Served, local: bool) -> Router {
    let mut router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/api/status", get(status))
        .route("/api/history", get(history));
    for (path, kind, text) in PAGE {
        router = router.route(path, get(([(header::CONTENT_TYPE, kind)], text)));
    }
    router
        .fallback((StatusCode::NOT_FOUND, "not found\n"))
        .with_state(served)
        .layer(CompressionLayer::new())
        .layer(from_fn(move |request, next| {
            only_by_address(local, request, next)
        }))
        .layer(map_response(with_headers))
}

/// Refuses requests by a foreign name, against DNS rebinding. In DNS rebinding, another site's page, open in a browser
/// on this machine, gives its own name the address 127.0.0.1, and reads the answers as its own. It cannot send
/// requests with an address as their name.
///
/// Two names, no name in HTTP/1.1, or a name that is not text, are refused everywhere (RFC 9112, 3.2): a proxy in front of
/// this server may have checked another one. If the request line has a whole URI, its host counts, not the header
/// (3.2.2).
async fn only_by_address(local: bool, request: Request, next: Next) -> Response {
    let hosts = request.headers().get_all(header::HOST).iter();
    let hosts: Result<Vec<&str>, _> = hosts.map(HeaderValue::to_str).collect();
    let host = match hosts.as_deref() {
        Ok([host]) => Some(*host),
        Ok([]) if request.version() < Version::HTTP_11 => None,
        _ => {
            let why = "bad request: send one Host header, in ASCII\n";
            return (StatusCode::BAD_REQUEST, why).into_response();
        }
    };
    let host = request.uri().authority().map(Authority::as_str).or(host);
    if local && host.is_some_and(|host| !is_local(host)) {
        let why = "this exporter answers only requests for localhost or an IP address, against DNS rebinding: use http://127.0.0.1\n";
        return (StatusCode::MISDIRECTED_REQUEST, why).into_response();
    }
    next.run(request).await
}

/// Returns true if the host of a request is this machine or an address. Other names may belong to other machines.
pub fn is_local(host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    let in_brackets = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let address = in_brackets.unwrap_or(name);
    address.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

async fn with_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

/// The status and the reason if the kernel cannot be read.
type Unavailable = (StatusCode, String);

async fn latest(served: &Served) -> Result<Arc<Reading>, Unavailable> {
    let reading = served.collection.latest().await;
    reading.map_err(|why| (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")))
}

async fn metrics(
    State(served): State<Served>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Unavailable> {
    let reading = latest(&served).await?;
    let ranges = headers.get_all(header::ACCEPT).iter();
    let ranges: Vec<_> = ranges.filter_map(|range| range.to_str().ok()).collect();
    let format = Format::accepted(&ranges.join(","));
    let headers = [
        (header::CONTENT_TYPE, format.content_type()),
        (header::VARY, "accept"),
    ];
    Ok((headers, format.write(&reading, &served.labels)))
}

/// Answers 200 if the counters can be read.
async fn healthz(State(served): State<Served>) -> Result<&'static str, Unavailable> {
    latest(&served).await.map(|_| "ok\n")
}

/// Answers with the content of `status --json`, of `top --once --json` for each interface, and the messages that the
/// commands write to standard error.
async fn status(State(served): State<Served>) -> Result<impl IntoResponse, Unavailable> {
    let reading = latest(&served).await?;
    json(serde_json::to_string(&*reading))
}

/// Answers with the rates of the last two hours.
async fn history(State(served): State<Served>) -> Result<impl IntoResponse, Unavailable> {
    json(served.collection.history())
}

fn json(text: serde_json::Result<String>) -> Result<impl IntoResponse, Unavailable> {
    let failed = |error: serde_json::Error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    Ok((
        [(header::CONTENT_TYPE, "application/json")],
        text.map_err(failed)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn foreign_host_names_are_not_local() {
        for (host, local) in [
            ("127.0.0.1", true),
            ("127.0.0.1:10546", true),
            ("[::1]", true),
            ("[::1]:10546", true),
            ("LOCALHOST:80", true),
            ("example.com", false),
            ("127.0.0.1.example.com", false),
            ("localhost.example.com", false),
            ("", false),
            ("a b", false),
            ("[::1].example.com", false),
            ("[::1]example.com:80", false),
            ("user@localhost", false),
        ] {
            assert_eq!(is_local(host), local, "{host}");
        }
    }
}
