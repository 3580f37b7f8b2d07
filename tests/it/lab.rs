//! Stand-ins for the apiservers of a cluster (`tests/oracle/apiserver.py`), with a kubeconfig that has a context for
//! each case.

use crate::support::{folder, python, root};
use plimsoll::sources::live::Target;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The stand-ins. They end, and remove their folder, when their standard input does: with this, or with this process.
pub(crate) struct Lab {
    pub(crate) folder: PathBuf,
    pub(crate) ports: Value,
    child: Child,
}

impl Lab {
    /// Starts them with what `a`, `b` and `plain` are to serve: files, with `,` between those that follow one another.
    pub(crate) fn start(pages: &[&str]) -> Self {
        let folder = folder().keep();
        let mut command = Command::new(python());
        command.arg(root().join("tests/oracle/apiserver.py")).arg(&folder).args(pages);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let message: Value =
            serde_json::from_str(&line).expect("run .ci/setup first: the stand-in needs the command openssl");
        Self { folder, ports: message["ports"].clone(), child }
    }

    /// The file of the kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    pub(crate) fn target(&self, context: &str) -> Target {
        Target {
            kubeconfig: Some(self.kubeconfig()),
            context: Some(context.to_owned()),
            timeout: Duration::from_secs(20),
            ..Target::default()
        }
    }

    /// `host:port` as an apiserver is called.
    pub(crate) fn name(&self, server: &str) -> String {
        let host = if matches!(server, "front" | "elsewhere" | "closed") { "localhost" } else { "127.0.0.1" };
        format!("{host}:{}", self.ports[server])
    }

    /// The answered requests whose path holds this.
    pub(crate) fn requests(&self, path: &str) -> Vec<Value> {
        // What ends without an answer is noted when the connection has ended: who saw that may be here first.
        let read = || std::fs::read_to_string(self.folder.join("requests.jsonl")).unwrap_or_default();
        let mut text = read();
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(200));
            let before = std::mem::replace(&mut text, read());
            if before == text {
                break;
            }
        }
        text.lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|r| r["path"].as_str().unwrap().contains(path))
            .collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
