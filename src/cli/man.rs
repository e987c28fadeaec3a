//! Manual pages from the texts of `--help`: backlog(1), and one for each subcommand.

use std::io;

use clap::Command;
use clap_mangen::Man;
use roff::{Roff, bold, roman};

use super::help::{examples, exits};
use super::{augment, base, with_help};

/// All pages with the names of their files: `backlog-process.1`.
pub fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = base().mut_subcommands(augment).disable_help_subcommand(true);
    command.build();
    let command = with_help(command);
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut pages: Vec<_> = visible.map(page).collect::<io::Result<_>>()?;
    pages.push(page(command)?);
    Ok(pages)
}

fn page(command: Command) -> io::Result<(String, Vec<u8>)> {
    let name = command.get_name().to_string();
    let usage = command.clone().render_usage().to_string().replace("Usage: ", "");
    let has_subcommands = command.has_subcommands();
    let source = format!("backlog {}", env!("CARGO_PKG_VERSION"));
    let page = Man::new(command).source(source).manual("backlog manual");
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
    let mut epilog = Roff::new();
    write_examples(&mut epilog, &name);
    epilog.control("SH", ["SEE ALSO"]).text([roman("backlog(1), crontab(5)")]);
    epilog.to_writer(&mut text)?;
    Ok((page.get_filename(), text))
}

fn write_examples(page: &mut Roff, command: &str) {
    page.control("SH", ["EXAMPLES"]);
    for line in examples(command).into_iter().flatten() {
        page.control("PP", []);
        match line.strip_prefix("# ") {
            Some(comment) => page.text([roman(format!("{comment}:"))]),
            None => page.control("RS", ["4"]).text([bold(line)]).control("RE", []),
        };
    }
    page.control("SH", ["EXIT STATUS"]);
    for (exit, meaning) in exits(command) {
        page.control("TP", []).text([bold(exit)]).text([roman(meaning)]);
    }
}
