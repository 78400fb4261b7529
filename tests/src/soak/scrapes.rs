//! Scrapes the exporter, and hangs up in the middle of some requests.

use std::{io::Write, time::Duration};

use super::{Soak, figures::Figures};
use crate::exporter::Exporter;

/// Scrapes until the soak ends.
pub fn run(soak: &Soak<'_>, exporter: &Exporter<'_>) {
    let mut figures = Figures::default();
    let pages = ["/", "/healthz", "/api/status", "/script.js"];
    for page in pages.iter().cycle() {
        if !soak.goes_on() {
            return;
        }
        figures.expect_no_less(soak, || {
            let samples = exporter.samples().into_iter();
            let totals = samples.filter(|(name, _)| name.contains("_total{"));
            totals.map(|(name, value)| (name, value as u64)).collect()
        });
        soak.count("scrape");
        let _ = exporter.get(page);
        soak.count("page");
        hang_up(exporter);
        soak.count("hang-up");
        soak.sleep(Duration::from_millis(300));
    }
}

/// Hangs up in the middle of a request, and before its answer.
fn hang_up(exporter: &Exporter<'_>) {
    for request in [
        "GET /metr",
        "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ] {
        let mut stream = exporter.connect();
        // The exporter may have closed the connection before.
        let _ = stream.write_all(request.as_bytes());
    }
}
