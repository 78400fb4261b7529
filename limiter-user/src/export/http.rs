//! What is answered. Every answer forbids the browser whatever the page does not need.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;
use tokio::time::timeout;

use super::{
    collection::{Collection, Reading},
    metrics, text,
};
use crate::stats::Status;

/// For reading the kernel. A table of millions of sources takes less than a second.
const READING_TIME: Duration = Duration::from_secs(20);

/// When the figures of an answer were read, in milliseconds of the exporter's own clock, which is never set: what
/// computes rates needs it.
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

/// All paths. Nothing but GET and HEAD is allowed, and nothing is changed by them.
pub fn router(collection: Collection) -> Router {
    let file = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(header::CONTENT_TYPE, kind)], text) })
    };
    Router::new()
        .route(
            "/",
            file("text/html; charset=utf-8", include_str!("page/index.html")),
        )
        .route(
            "/style.css",
            file("text/css; charset=utf-8", include_str!("page/style.css")),
        )
        .route(
            "/script.js",
            file(
                "text/javascript; charset=utf-8",
                include_str!("page/script.js"),
            ),
        )
        .route(
            "/chart.js",
            file(
                "text/javascript; charset=utf-8",
                include_str!("page/chart.js"),
            ),
        )
        .route(
            "/icon.svg",
            file("image/svg+xml", include_str!("page/icon.svg")),
        )
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/api/status", get(status))
        .route("/api/top/{interface}", get(top))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there is nothing here\n") })
        .with_state(collection)
        .layer(map_response(with_headers))
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
    let metrics = metrics::openmetrics(latest(&collection).await?);
    let accepted = headers.get_all(header::ACCEPT).iter();
    let accepted = accepted.filter_map(|value| value.to_str().ok());
    let (kind, body) = if text::wants_openmetrics(accepted) {
        (text::OPENMETRICS, metrics)
    } else {
        (text::PROMETHEUS, text::prometheus(&metrics))
    };
    Ok((
        [(header::CONTENT_TYPE, kind), (header::VARY, "accept")],
        body,
    ))
}

/// Whether figures can be had.
async fn healthz(State(collection): State<Collection>) -> Result<impl IntoResponse, Response> {
    latest(&collection).await?;
    Ok(([(header::CONTENT_TYPE, PLAIN)], "ok\n"))
}

/// `status --json`, and what the command tells on standard error.
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

/// `top --once --json`.
async fn top(
    State(collection): State<Collection>,
    Path(interface): Path<String>,
) -> Result<Response, Response> {
    let reading = latest(&collection).await?;
    let mut tops = reading.snapshot.tops.iter();
    let found = tops.find(|top| top.interface == interface);
    let missing = || (StatusCode::NOT_FOUND, "nothing is attached to it\n").into_response();
    Ok(json(&reading, found.ok_or_else(missing)?))
}

fn json(reading: &Reading, value: &impl Serialize) -> Response {
    let Ok(body) = serde_json::to_string(value) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let at = reading.at.as_millis().to_string();
    let headers = [(header::CONTENT_TYPE, JSON.to_owned()), (READ_AT, at)];
    (headers, body).into_response()
}
