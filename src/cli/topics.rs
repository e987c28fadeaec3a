//! Documents that `backlog help TOPIC` prints.

use std::ffi::OsString;

struct Topic {
    name: &'static str,
    about: &'static str,
    document: &'static str,
    /// The heading where the topic begins.
    begin: &'static str,
}

const TOPICS: [Topic; 3] = [
    Topic {
        name: "handlers",
        about: "what handlers get, and what they may answer",
        document: include_str!("../../docs/handlers.md"),
        begin: "",
    },
    Topic {
        name: "schedules",
        about: "when a record is tried again",
        document: include_str!("../../docs/schedules.md"),
        begin: "",
    },
    Topic {
        name: "backlog.toml",
        about: "the file, and all its keys",
        document: include_str!("../../docs/reference.md"),
        begin: "## backlog.toml\n",
    },
];

/// The names of the topics, and what they are about.
pub fn topics() -> impl Iterator<Item = (&'static str, &'static str)> {
    TOPICS.iter().map(|topic| (topic.name, topic.about))
}

/// The document that a command line asks for.
pub fn document(argv: &[OsString]) -> Option<&'static str> {
    let [_, help, name] = argv else { return None };
    let topic = TOPICS.iter().find(|topic| help == "help" && topic.name == name)?;
    topic.document.get(topic.document.find(topic.begin)?..)
}
