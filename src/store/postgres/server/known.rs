//! The names of all connection parameters.

/// The parameters that a URL may have, by libpq's names, and the variables that stand in for them.
pub const KNOWN: [(&str, Option<&str>); 32] = [
    ("host", Some("PGHOST")),
    ("hostaddr", Some("PGHOSTADDR")),
    ("port", Some("PGPORT")),
    ("dbname", Some("PGDATABASE")),
    ("user", Some("PGUSER")),
    ("password", Some("PGPASSWORD")),
    ("passfile", Some("PGPASSFILE")),
    ("sslmode", Some("PGSSLMODE")),
    ("sslrootcert", Some("PGSSLROOTCERT")),
    ("sslcert", Some("PGSSLCERT")),
    ("sslkey", Some("PGSSLKEY")),
    ("sslcertmode", Some("PGSSLCERTMODE")),
    ("ssl_min_protocol_version", Some("PGSSLMINPROTOCOLVERSION")),
    ("ssl_max_protocol_version", Some("PGSSLMAXPROTOCOLVERSION")),
    ("sslcrl", Some("PGSSLCRL")),
    ("sslcrldir", Some("PGSSLCRLDIR")),
    ("gssencmode", Some("PGGSSENCMODE")),
    ("requirepeer", Some("PGREQUIREPEER")),
    ("require_auth", Some("PGREQUIREAUTH")),
    ("application_name", Some("PGAPPNAME")),
    ("connect_timeout", Some("PGCONNECT_TIMEOUT")),
    ("options", Some("PGOPTIONS")),
    ("target_session_attrs", Some("PGTARGETSESSIONATTRS")),
    ("channel_binding", Some("PGCHANNELBINDING")),
    ("load_balance_hosts", Some("PGLOADBALANCEHOSTS")),
    ("tcp_user_timeout", None),
    ("keepalives", None),
    ("keepalives_idle", None),
    ("keepalives_interval", None),
    ("keepalives_count", None),
    // The name that the Rust client gives to keepalives_count.
    ("keepalives_retries", None),
    ("service", Some("PGSERVICE")),
];

pub fn known(key: &str) -> Option<&'static str> {
    KNOWN.into_iter().map(|(known, _)| known).find(|known| *known == key)
}

pub fn legal() -> String {
    KNOWN.map(|(key, _)| key).join(", ")
}
