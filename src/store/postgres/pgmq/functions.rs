//! The functions of pgmq that a pass calls. An old version may lack some of them.

use super::Session;
use crate::store::error::DbError;
use crate::store::postgres::dialect::Param;

/// The names of the functions and the types of their arguments. A function may have more arguments, if those
/// have defaults.
const NEEDED: [(&str, &[&str]); 5] = [
    ("read", &["text", "integer", "integer"]),
    ("set_vt", &["text", "bigint", "integer"]),
    ("archive", &["text", "bigint[]"]),
    ("delete", &["text", "bigint[]"]),
    ("send_batch", &["text", "jsonb[]"]),
];

/// Whether a function called `$1` can be called with arguments of the types `$2`.
const IS_THERE: &str = "SELECT 1 FROM pg_catalog.pg_proc \
    WHERE pronamespace = pg_catalog.to_regnamespace('pgmq') AND proname = $1 \
    AND pg_catalog.cardinality($2::text[]) BETWEEN pronargs - pronargdefaults AND pronargs \
    AND ARRAY(SELECT pg_catalog.format_type(type, NULL) \
              FROM pg_catalog.unnest(proargtypes::oid[]) WITH ORDINALITY AS argument(type, place) \
              WHERE place <= pg_catalog.cardinality($2::text[]) ORDER BY place) = $2::text[]";

/// Names the first function that is missing, if one is.
pub fn missing_function(session: &mut Session) -> Result<Option<String>, DbError> {
    for (name, types) in NEEDED {
        let params = [Param::text(name), Param::texts(types.iter().copied())];
        if session.query(IS_THERE, &params)?.is_empty() {
            let version = "SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'pgmq'";
            let version = session.query(version, &[])?;
            let version =
                version.first().map_or(String::new(), |row| format!(" {}", row.get::<_, &str>(0)));
            let types = types.join(", ");
            return Ok(Some(format!(
                "pgmq{version} has no function pgmq.{name}({types}); \
                 to update it: ALTER EXTENSION pgmq UPDATE"
            )));
        }
    }
    Ok(None)
}
