//! The live view of `top`: sums and reasons first, then limits, then sources.

mod bottom;
mod draw;
mod grid;
mod header;
mod help;
mod limits;
mod page;
mod sources;
mod style;
mod view;

#[cfg(test)]
pub mod example;
#[cfg(test)]
mod tests;

pub use sources::{columns, title};
pub use style::Palette;
pub use view::{Content, Dialog, Page, Told, View};
