//! The direction of imports: in the program from a higher layer to a lower one, and in no crate in a circle.
//! A module may use its own children, and these may use it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The modules of the program, each of which may import those before it.
const LAYERS: [&str; 14] = [
    "exit",
    "terminal",
    "crontab",
    "handlers",
    "engine",
    "simulation",
    "report",
    "options",
    "ping",
    "adopt",
    "cli",
    "commands",
    "bench",
    "main",
];

/// The path of a module or an item in its crate: `["engine", "cursor"]`.
type Name = Vec<String>;

#[derive(Default)]
struct Graph {
    /// The text of each file, without comments and tests.
    files: BTreeMap<Name, String>,
    /// Where the items of `pub use` come from.
    reexports: BTreeMap<Name, Name>,
}

impl Graph {
    fn read(root: &Path) -> Self {
        let mut graph = Self::default();
        graph.add(root, &[]);
        for (module, text) in &graph.files {
            for (is_public, path) in imports(text) {
                let Some(from) = graph.absolute(module, &path).filter(|_| is_public) else {
                    continue;
                };
                graph.reexports.insert([&module[..], &from[from.len() - 1..]].concat(), from);
            }
        }
        graph
    }

    fn add(&mut self, directory: &Path, parent: &[String]) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_string();
            let module = match name.as_str() {
                "tests" => continue,
                "mod" | "lib" => parent.to_vec(),
                _ => [parent, &[name]].concat(),
            };
            if path.is_dir() {
                self.add(&path, &module);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                self.files.insert(module, code(&fs::read_to_string(&path).unwrap()));
            }
        }
    }

    /// The path from the root of the crate; `None` if it leads to another crate.
    fn absolute(&self, module: &[String], path: &str) -> Option<Name> {
        let mut names = path.split("::").map(String::from).peekable();
        let mut base = module.to_vec();
        match names.peek()?.as_str() {
            "crate" => base.clear(),
            "self" => {}
            "super" => {
                base.pop();
            }
            child if self.files.contains_key(&[module, &[child.to_string()]].concat()) => {
                return Some(base.into_iter().chain(names).collect());
            }
            _ => return None,
        }
        names.next();
        while names.next_if(|name| name == "super").is_some() {
            base.pop();
        }
        Some(base.into_iter().chain(names).collect())
    }

    /// The file that an item is in, wherever it is exported again.
    fn file_of(&self, mut item: Name) -> Name {
        while let Some(from) = self.reexports.get(&item) {
            item = from.clone();
        }
        while !self.files.contains_key(&item) {
            item.pop();
        }
        item
    }

    /// The files that each file imports, but for its own children.
    fn edges(&self) -> BTreeSet<(Name, Name)> {
        let mut edges = BTreeSet::new();
        for (module, text) in &self.files {
            for (is_public, path) in imports(text) {
                let Some(item) = self.absolute(module, &path).filter(|_| !is_public) else {
                    continue;
                };
                let file = self.file_of(item);
                if !file.starts_with(module) {
                    edges.insert((module.clone(), file));
                }
            }
        }
        edges
    }
}

/// The code of a file without comments and its module of tests.
fn code(text: &str) -> String {
    let tests = ["#[cfg(test)]\nmod tests {", "#[cfg(test)]\npub mod tests {"];
    let end = tests.iter().filter_map(|tests| text.find(tests)).min().unwrap_or(text.len());
    let lines = text[..end].lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// All paths of `use`, and whether they are public, and other paths that begin with `crate` or `super`.
fn imports(text: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    let mut rest = String::new();
    for statement in text.split_inclusive(';') {
        let line = statement.rfind("\nuse ").or_else(|| statement.rfind("\n    use "));
        let public = statement.rfind("\npub use ");
        match public.or(line) {
            Some(at) => {
                let tree = statement[at..].trim().trim_start_matches("pub ");
                let tree = tree.trim_start_matches("use ").trim_end_matches(';');
                found.extend(expanded(tree).into_iter().map(|path| (public.is_some(), path)));
                rest += &statement[..at];
            }
            None => rest += statement,
        }
    }
    let words = rest.split(|c: char| !c.is_alphanumeric() && !['_', ':'].contains(&c));
    let is_inner = |word: &&str| ["crate::", "super::"].iter().any(|root| word.starts_with(root));
    found.extend(words.filter(is_inner).map(|word| (false, word.trim_end_matches(':').into())));
    found
}

/// The single paths of `a::{b, c::{d, e}}`.
fn expanded(tree: &str) -> Vec<String> {
    let Some((head, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        return vec![path.trim_end_matches("::self").into()];
    };
    let (mut depth, mut branches) = (0, vec![String::new()]);
    for c in rest[..rest.rfind('}').unwrap()].chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match branches.last_mut().filter(|_| c != ',' || depth > 0) {
            Some(branch) => branch.push(c),
            None => branches.push(String::new()),
        }
    }
    let branches = branches.iter().filter(|branch| !branch.trim().is_empty());
    branches.flat_map(|branch| expanded(&format!("{}{}", head.trim(), branch.trim()))).collect()
}

fn crates() -> [(&'static str, Graph); 3] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    ["src", "crates/store/src", "crates/schedule/src"]
        .map(|part| (part, Graph::read(&root.join(part))))
}

#[test]
fn no_layer_imports_a_higher_one() {
    let [(_, program), ..] = crates();
    let layer = |file: &Name| {
        let name = file.first().map_or("main", String::as_str);
        let found = LAYERS.iter().position(|layer| *layer == name);
        found.unwrap_or_else(|| panic!("{name} is in no layer"))
    };
    let edges = program.edges();
    assert!(edges.len() > 200, "{}", edges.len());
    let up = edges.iter().filter(|(from, to)| layer(from) < layer(to)).collect::<Vec<_>>();
    assert!(up.is_empty(), "{up:?}");
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    for (name, graph) in crates() {
        let mut edges = graph.edges();
        // What imports nothing, or is imported by nothing that is left, is in no circle.
        loop {
            let (from, to): (BTreeSet<_>, BTreeSet<_>) = edges.iter().cloned().unzip();
            let before = edges.len();
            edges.retain(|(start, end)| to.contains(start) && from.contains(end));
            if edges.len() == before {
                break;
            }
        }
        assert!(edges.is_empty(), "{name}: {edges:?}");
    }
}
