//! The webhook that the options describe: where requests go, what they hold, and who signs them.

mod hosts;
mod proxies;
mod request;
mod signature;
mod target;

use std::borrow::Cow;
use std::path::PathBuf;

use anyhow::{Context, Result};

pub use hosts::Hosts;
pub use proxies::Proxies;
pub use request::{Header, IdempotencyKey, common, name};
pub use signature::Secret;
pub use target::{Target, without_login};

/// The webhook that records are posted to. It holds secrets, so neither it nor any of its parts can
/// be printed for debugging.
#[derive(Clone)]
pub struct Webhook {
    pub target: Target,
    pub headers: Vec<Header>,
    /// The authorities that are believed, instead of the system's.
    pub ca_file: Option<PathBuf>,
    pub give_up_on_4xx: bool,
    pub signing: Signing,
    /// Which hosts a column in the URL may name.
    pub hosts: Hosts,
    pub key: IdempotencyKey,
    /// What tells the records of this database from those of others that share the receiver.
    pub key_prefix: Option<String>,
    pub proxies: Proxies,
}

/// The secret that requests are signed with.
#[derive(Clone)]
pub enum Signing {
    None,
    Shared(Secret),
    /// Each record has its own in this column.
    Own {
        column: String,
    },
}

impl Webhook {
    /// Whether records name the host, and no list says which ones they may.
    pub fn names_any_host(&self) -> bool {
        self.target.has_column_in_authority() && self.hosts.is_empty()
    }
}

impl Signing {
    /// The column with the secret of each record.
    pub fn column(&self) -> Option<&str> {
        if let Self::Own { column } = self { Some(column) } else { None }
    }

    /// The secret for one record. One that is missing or cannot be used must not leave its request
    /// unsigned.
    pub fn secret(
        &self,
        value: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Cow<'_, Secret>>> {
        match self {
            Self::None => Ok(None),
            Self::Shared(secret) => Ok(Some(Cow::Borrowed(secret))),
            Self::Own { column } => {
                let secret = Secret::parse(&value(column).unwrap_or_default());
                let secret =
                    secret.with_context(|| format!("the column {column} of the record"))?;
                Ok(Some(Cow::Owned(secret)))
            }
        }
    }
}
