//! Asks Sentinels for the primary that they watch.

use std::sync::Arc;

use redis::{ProtocolVersion, RedisConnectionInfo};

use super::link::Link;
use crate::store::{
    address::Place,
    error::{Error, Fault},
    options::Target,
    servers::{Socket, first},
};

/// The address of the primary, from the first Sentinel that knows it. A Sentinel that demands a password gets that of the
/// store.
pub(in crate::store) async fn primary(
    target: &Arc<Target>,
    settings: &RedisConnectionInfo,
    sentinels: &[Place],
    name: &str,
) -> Result<Place, Error> {
    let ask = async |socket: Socket, place: &Place| {
        let open = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP2)
            .set_skip_set_lib_name();
        let link = Link::new(target, &open, socket.stream, place).await?;
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        let mut answer = link.query(&question).await;
        if matches!(answer, Err(Error::At(_, Fault::Denied(..))))
            && let Some(password) = settings.password()
        {
            let mut login = redis::cmd("AUTH");
            login.arg(settings.username()).arg(password);
            let () = link.query(&login).await?;
            answer = link.query(&question).await;
        }
        let Some((host, port)): Option<(String, u16)> = answer? else {
            let why = format!("a Sentinel without a primary called '{name}'");
            return Err(target.error(Fault::NotAStore(why)));
        };
        Ok(Place::Tcp(host, port))
    };
    first(target, sentinels, ask).await
}
