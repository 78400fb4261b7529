//! `limiter export` serves correct figures to allowed clients only, under any load.

mod figures;
mod formats;
mod http;
mod page;
mod page_live;
mod prometheus;
