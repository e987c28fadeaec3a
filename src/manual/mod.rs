//! The manual pages: backlog(1) and one for each subcommand, of the texts of `--help`; backlog.toml(5),
//! backlog-handlers(7) and backlog-schedules(7), of the documents.

mod keys;
mod markdown;

use std::io;

use clap::Command;
use clap_mangen::Man;
use roff::{Roff, bold, roman};

use crate::cli::{self, whole_command};

/// The page of a manual.
pub struct Page {
    pub section: u8,
    /// The name of its file: `backlog-process.1`.
    pub file: String,
    pub text: Vec<u8>,
}

const HANDLERS: &str = include_str!("../../docs/handlers.md");
const SCHEDULES: &str = include_str!("../../docs/schedules.md");
const REFERENCE: &str = include_str!("../../docs/reference.md");

pub fn pages() -> io::Result<Vec<Page>> {
    let mut command = whole_command().disable_help_subcommand(true);
    command.build();
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set()).cloned();
    let mut pages: Vec<_> = shown.map(of_command).collect::<io::Result<_>>()?;
    let reference = reference(&command);
    let (_, file) = reference.split_once("\n## backlog.toml\n").unwrap_or_default();
    pages.push(of_command(command)?);
    pages.push(of_markdown("backlog.toml", 5, "queues, tables and schedules of backlog", file));
    pages.push(of_markdown("backlog-handlers", 7, "what handlers get and answer", HANDLERS));
    pages.push(of_markdown("backlog-schedules", 7, "when a record is tried again", SCHEDULES));
    Ok(pages)
}

/// docs/reference.md, whose sections of keys are made of the options.
fn reference(command: &Command) -> String {
    let (by_hand, _) = REFERENCE.split_once(keys::BEGIN).unwrap_or((REFERENCE, ""));
    format!("{by_hand}{}", keys::markdown(command))
}

fn of_command(command: Command) -> io::Result<Page> {
    let short = command.get_name().to_string();
    let usage = command.clone().render_usage().to_string().replace("Usage: ", "");
    let has_subcommands = command.has_subcommands();
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_string();
    let page = Man::new(command).source(source()).manual(MANUAL);
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    let mut synopsis = Roff::new();
    synopsis.control("SH", ["SYNOPSIS"]).text([roman(usage)]);
    synopsis.to_writer(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if has_subcommands {
        page.render_subcommands_section(&mut text)?;
    }
    let mut rest = Roff::new();
    examples(&mut rest, &short);
    see_also(&mut rest, &format!("{name}(1)"));
    rest.to_writer(&mut text)?;
    Ok(Page { section: 1, file: page.get_filename(), text })
}

const MANUAL: &str = "backlog manual";

fn source() -> String {
    format!("backlog {}", env!("CARGO_PKG_VERSION"))
}

fn examples(page: &mut Roff, command: &str) {
    page.control("SH", ["EXAMPLES"]);
    for line in cli::examples(command).into_iter().flatten() {
        page.control("PP", []);
        match line.strip_prefix("# ") {
            Some(says) => page.text([roman(format!("{says}:"))]),
            None => page.control("RS", ["4"]).text([bold(line)]).control("RE", []),
        };
    }
    page.control("SH", ["EXIT STATUS"]);
    for (exit, says) in cli::exits(command) {
        page.control("TP", []).text([bold(exit.code().to_string())]).text([roman(*says)]);
    }
}

fn see_also(page: &mut Roff, own: &str) {
    page.control("SH", ["SEE ALSO"]);
    let all = [
        "backlog(1)",
        "backlog.toml(5)",
        "backlog-handlers(7)",
        "backlog-schedules(7)",
        "crontab(5)",
    ];
    let others: Vec<_> = all.into_iter().filter(|page| *page != own).collect();
    page.text([roman(others.join(", "))]);
}

fn of_markdown(name: &str, section: u8, about: &str, text: &str) -> Page {
    let mut page = Roff::new();
    let number = section.to_string();
    page.control("TH", [name, &number, "", &source(), MANUAL]);
    page.control("SH", ["NAME"]).text([roman(format!("{name} - {about}"))]);
    page.control("SH", ["DESCRIPTION"]);
    markdown::write(&mut page, text);
    see_also(&mut page, &format!("{name}({section})"));
    Page { section, file: format!("{name}.{section}"), text: page.to_roff().into_bytes() }
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::*;

    #[test]
    fn the_reference_of_the_keys_is_what_the_options_say() {
        let mut command = whole_command();
        command.build();
        let (written, path) = (reference(&command), "docs/reference.md");
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(path, &written).unwrap();
        }
        let found = fs::read_to_string(path).unwrap();
        assert!(found == written, "{path} is old: UPDATE_DOCS=1 cargo test --lib writes it anew");
    }
}
