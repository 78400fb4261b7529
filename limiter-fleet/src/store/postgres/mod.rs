//! PostgreSQL. `schema.sql` defines the stored data and the functions, one for each request: one statement, and so one
//! message and one transaction.
//!
//! Statements are sent unprepared, because a pooler may answer the next one by another connection.

mod connection;
mod fault;

use limiter_common::arithmetic::bucket::TICK_SHIFT;
use tokio_postgres::types::Type;

use self::connection::Parameter;
use super::{
    engine::{
        Alive, Changed, Charges, Engine, Heartbeat, LIMITS, ListEdit, MEMBERS, PREFIXES, Part,
        READ_AT_ONCE, Restoration, StoredRecord, Terms, Written, list_full,
    },
    error::{Error, Fault},
};

pub(super) use self::connection::Postgres;

/// The statements that make a database a store.
pub const SCHEMA: &str = include_str!("schema.sql");

const EXCHANGE: &str =
    "SELECT * FROM limiter.exchange($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
const HEARTBEAT: &str = "SELECT * FROM limiter.heartbeat($1, $2, $3, $4, $5, $6, $7)";
const EDIT: &str = "SELECT * FROM limiter.edit($1, $2, $3, $4, $5, $6, $7)";
const RESTORE: &str = "SELECT * FROM limiter.restore($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const PART: &str = "SELECT * FROM limiter.part($1, $2, $3, $4, $5)";

/// The error code of a list that is too long.
const TOO_MANY: &str = "LF001";
/// The error code of lists that were lost.
const LOST: &str = "LF002";

#[async_trait::async_trait]
impl Engine for Postgres {
    async fn exchange(&self, charges: &Charges<'_>) -> Result<Vec<StoredRecord>, Error> {
        let Charges { terms, items, .. } = charges;
        let limits: Vec<_> = terms.iter().map(|terms| terms.limit).collect();
        let cost = |terms: &Terms| terms.cost as f64 / f64::from(1 << TICK_SHIFT);
        let costs: Vec<_> = terms.iter().map(cost).collect();
        let caps: Vec<_> = terms.iter().map(|terms| signed(terms.cap)).collect();
        let lives: Vec<_> = terms.iter().map(|terms| signed(terms.life)).collect();
        let sources: Vec<_> = items.iter().map(|item| &*item.source).collect();
        let packets: Vec<_> = items.iter().map(|item| signed(item.packets)).collect();
        let numbers = items.iter().map(|item| signed(item.terms as u64 + 1));
        let numbers: Vec<_> = numbers.collect();
        let parameters: [Parameter<'_>; 11] = [
            (&charges.fleet, Type::TEXT),
            (&charges.member.cast_signed(), Type::INT8),
            (&signed(charges.part.into()), Type::INT8),
            (&signed(charges.number), Type::INT8),
            (&limits, Type::TEXT_ARRAY),
            (&costs, Type::FLOAT8_ARRAY),
            (&caps, Type::INT8_ARRAY),
            (&lives, Type::INT8_ARRAY),
            (&sources, Type::TEXT_ARRAY),
            (&packets, Type::INT8_ARRAY),
            (&numbers, Type::INT8_ARRAY),
        ];
        let rows = self.ask(EXCHANGE, &parameters).await?;
        let number = |row, column| self.number(row, column);
        rows.iter()
            .map(|row| {
                Ok(StoredRecord {
                    born: number(row, 0)?,
                    total: number(row, 1)?,
                    level: number(row, 2)?,
                })
            })
            .collect()
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat<'_>) -> Result<Alive, Error> {
        let parameters: [Parameter<'_>; 7] = [
            (&heartbeat.fleet, Type::TEXT),
            (&heartbeat.member.cast_signed(), Type::INT8),
            (&heartbeat.label, Type::TEXT),
            (&heartbeat.held, Type::TEXT_ARRAY),
            (&signed(heartbeat.alive), Type::INT8),
            (&signed(MEMBERS as u64), Type::INT8),
            (&signed(LIMITS as u64), Type::INT8),
        ];
        let row = self.ask_one(HEARTBEAT, &parameters).await?;
        let held: Vec<&str> = self.read(&row, 3)?;
        let held = held.into_iter().map(Into::into).collect();
        let number = |column| self.number(&row, column);
        Ok(Alive {
            hosts: number(0)?,
            oldest: number(1)?,
            revision: number(2)?,
            // No table loses rows by itself.
            is_short: false,
            held,
        })
    }

    async fn edit(&self, edit: &ListEdit<'_>) -> Result<Changed, Error> {
        let author = edit.add.map(|add| add.author);
        let lasts = edit.add.and_then(|add| add.lasts).map(signed);
        let parameters: [Parameter<'_>; 7] = [
            (&edit.fleet, Type::TEXT),
            (&edit.list, Type::TEXT),
            (&signed(edit.born), Type::INT8),
            (&edit.prefixes, Type::TEXT_ARRAY),
            (&author, Type::TEXT),
            (&lasts, Type::INT8),
            (&signed(PREFIXES as u64), Type::INT8),
        ];
        let row = self.ask_one(EDIT, &parameters).await;
        let row = row.map_err(|error| of_list(error, edit.list))?;
        Ok(Changed {
            prefixes: self.number(&row, 0)?,
            revision: self.number(&row, 1)?,
        })
    }

    async fn restore(&self, restoration: &Restoration<'_>) -> Result<bool, Error> {
        let entries = &restoration.entries;
        let prefixes: Vec<_> = entries.iter().map(|lost| &*lost.prefix).collect();
        let authors: Vec<_> = entries.iter().map(|lost| lost.author).collect();
        let ages: Vec<_> = entries.iter().map(|lost| signed(lost.age)).collect();
        let left: Vec<_> = entries.iter().map(|lost| lost.left.map(signed)).collect();
        let parameters: [Parameter<'_>; 9] = [
            (&restoration.fleet, Type::TEXT),
            (&restoration.list, Type::TEXT),
            (&signed(restoration.known), Type::INT8),
            (&restoration.is_last, Type::BOOL),
            (&prefixes, Type::TEXT_ARRAY),
            (&authors, Type::TEXT_ARRAY),
            (&ages, Type::INT8_ARRAY),
            (&left, Type::INT8_ARRAY),
            (&signed(PREFIXES as u64), Type::INT8),
        ];
        let row = self.ask_one(RESTORE, &parameters).await;
        let row = row.map_err(|error| of_list(error, restoration.list))?;
        self.read(&row, 0)
    }

    async fn part(&self, fleet: &str, list: &str, place: Option<&str>) -> Result<Part, Error> {
        let parameters: [Parameter<'_>; 5] = [
            (&fleet, Type::TEXT),
            (&list, Type::TEXT),
            (&place.unwrap_or_default(), Type::TEXT),
            (&signed(READ_AT_ONCE as u64), Type::INT8),
            (&signed(PREFIXES as u64), Type::INT8),
        ];
        let row = self.ask_one(PART, &parameters).await;
        let row = row.map_err(|error| of_list(error, list))?;
        let prefixes: Vec<&str> = self.read(&row, 3)?;
        let values: Vec<&str> = self.read(&row, 4)?;
        let last = prefixes.last().filter(|_| prefixes.len() >= READ_AT_ONCE);
        Ok(Part {
            now: self.number(&row, 0)?,
            revision: self.number(&row, 1)?,
            born: self.number(&row, 2)?,
            is_short: false,
            next: last.map(|last| (*last).to_owned()),
            prefixes: prefixes
                .iter()
                .zip(values)
                .map(|(prefix, value)| Written {
                    prefix: (*prefix).into(),
                    value: value.into(),
                })
                .collect(),
        })
    }
}

/// The error of a request about a list.
fn of_list(error: Error, list: &str) -> Error {
    match error {
        Error::At(_, Fault::Refused(why)) if why.starts_with(TOO_MANY) => list_full(list),
        Error::At(_, Fault::Refused(why)) if why.starts_with(LOST) => Error::Lost,
        error => error,
    }
}

/// A number of the database, which has no numbers without a sign.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
