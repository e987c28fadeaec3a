//! Errors of the operating system in messages: in lower case, and without their numbers.

use std::error::Error;
use std::io;

use rustix::io::Errno;

/// `no such file or directory`, for `No such file or directory (os error 2)`.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let unnumbered = text.split_once(" (os error").map(|(text, _)| text);
    let of_resolver = text.strip_prefix("failed to lookup address information: ");
    // Other errors may begin with a name.
    let Some(words) = of_resolver.or(unnumbered) else { return text };
    let mut chars = words.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// An error with its causes: `could not read backlog.toml: permission denied`.
pub fn chain(error: &anyhow::Error) -> String {
    error.chain().map(text).collect::<Vec<_>>().join(": ")
}

fn text(error: &(dyn Error + 'static)) -> String {
    if let Some(error) = error.downcast_ref() {
        reason(error)
    } else if let Some(errno) = error.downcast_ref::<Errno>() {
        reason(&(*errno).into())
    } else {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn an_error_of_the_system_has_no_number() {
        let not_found = io::Error::from_raw_os_error(2);
        assert_eq!(reason(&not_found), "no such file or directory");
        assert_eq!(reason(&io::Error::other("A.db is a link")), "A.db is a link");
        let unknown = "failed to lookup address information: Name or service not known";
        assert_eq!(reason(&io::Error::other(unknown)), "name or service not known");
        let error = Err::<(), _>(Errno::ACCESS).context("could not open A.db").unwrap_err();
        assert_eq!(chain(&error), "could not open A.db: permission denied");
        let error = Err::<(), _>(not_found).context("could not open A.db").unwrap_err();
        assert_eq!(chain(&error), "could not open A.db: no such file or directory");
        // The output of a handler stays as it is.
        let error = anyhow::anyhow!("refused (os error 111)");
        assert_eq!(chain(&error), "refused (os error 111)");
    }
}
