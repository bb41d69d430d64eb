//! The files of the project, read as text.

use agentq_tests::project_root;
use std::path::{Path, PathBuf};

/// The files below a folder of the project whose names end so, with their text.
pub fn files(folder: &str, ending: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("an entry").path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let (root, mut paths) = (project_root(), Vec::new());
    walk(&root.join(folder), &mut paths);
    paths.sort();
    let named = paths.into_iter().map(|path| (path.strip_prefix(&root).expect("inside").display().to_string(), path));
    named
        .filter(|(name, _)| name.ends_with(ending))
        .map(|(name, path)| (name, std::fs::read_to_string(path).expect("a text")))
        .collect()
}
