//! A reading.

use limiter_kernel::{Attachment, Error};

use crate::observe::{Sample, collect, sample::Gauge};

/// Takes a sample. Opens the attachment anew each time, because a change may have brought another program, or
/// `detach` may have removed it.
pub async fn look(interface: &str, gauge: &mut Gauge) -> Result<Sample, Error> {
    let attachment = Attachment::open(interface).await?;
    collect::sample(&attachment, gauge)
}
