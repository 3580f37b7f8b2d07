//! Packs samples, and compares what commands say of an archive with what they say of the folder.

use crate::support::{plimsoll, sample};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Packs a folder below `samples/` with tar and `with`.
pub(crate) fn pack(of: &str, to: &Path, with: &str) {
    let sample = sample(of);
    let (above, name) = sample.rsplit_once('/').unwrap();
    let ran = Command::new("tar").args([with, "-cf"]).arg(to).args(["-C", above, name]).status().unwrap();
    assert!(ran.success(), "tar {with}: is tar installed?");
}

fn without(mut answer: Value, path: &str) -> String {
    if let Some(answer) = answer.as_object_mut() {
        answer.retain(|field, _| !["generated_at", "written"].contains(&field.as_str()));
    }
    // Which finding it is depends on the file's path.
    fn same(value: &mut Value) {
        match value {
            Value::Object(all) => {
                all.remove("fingerprint");
                all.values_mut().for_each(same);
            }
            Value::Array(all) => all.iter_mut().for_each(same),
            _ => {}
        }
    }
    same(&mut answer);
    answer.to_string().replace(path, "PATH")
}

/// Each of these commands says the same of the archive as of the folder; their words have `SOURCE` for it.
#[track_caller]
pub(crate) fn says_the_same(archive: &str, bundle: &str, commands: &[&[&str]]) {
    for command in commands {
        let ask = |source: &str| {
            let words: Vec<String> = command.iter().map(|word| word.replace("SOURCE", source)).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).chain(["-o", "json"]).collect();
            let ran = plimsoll(&words);
            ran.did_not_panic();
            assert!(!ran.stdout.is_empty(), "{words:?}: {}", ran.stderr);
            (ran.code, without(serde_json::from_str(&ran.stdout).unwrap(), source))
        };
        assert_eq!(ask(archive), ask(bundle), "{command:?}");
    }
}
