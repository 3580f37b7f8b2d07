//! A real etcd on a loopback port of its own.

use crate::support::root;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What etcdctl answers; it must succeed.
#[track_caller]
pub(crate) fn etcdctl(args: &[&str]) -> String {
    answer(args).unwrap_or_else(|error| panic!("etcdctl {args:?}: {error}"))
}

fn answer(args: &[&str]) -> Result<String, String> {
    let done =
        Command::new("etcdctl").args(args).env("ETCDCTL_API", "3").output().expect("etcdctl is missing: run .ci/setup");
    match done.status.success() {
        true => Ok(String::from_utf8(done.stdout).unwrap()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}

/// A program of Debian 13's etcd, where .ci/setup unpacks it.
#[track_caller]
pub(crate) fn newer(program: &str) -> PathBuf {
    let path = root().join("target/etcd-3.5/usr/bin").join(program);
    assert!(path.is_file(), "{} is missing: run .ci/setup", path.display());
    path
}

/// A member, and how etcdctl reaches it.
pub(crate) struct Member {
    pub(crate) etcd: Child,
    pub(crate) url: String,
    pub(crate) access: Vec<String>,
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.etcd.kill();
        let _ = self.etcd.wait();
    }
}

pub(crate) fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Member {
    /// Without TLS.
    pub(crate) fn plain(data: &Path) -> Self {
        Self::start(data, "http", &[], &[])
    }

    /// One of etcd 3.5, where Debian 12 has 3.4.
    pub(crate) fn newer(data: &Path) -> Self {
        Self::run_by(&newer("etcd"), data, "http", &[], &[])
    }

    /// With more `flags` for etcd, and `access` for etcdctl.
    pub(crate) fn start(data: &Path, scheme: &str, flags: &[&str], access: &[&str]) -> Self {
        Self::run_by(Path::new("etcd"), data, scheme, flags, access)
    }

    fn run_by(program: &Path, data: &Path, scheme: &str, flags: &[&str], access: &[&str]) -> Self {
        let (url, peer) = (format!("{scheme}://127.0.0.1:{}", port()), format!("http://127.0.0.1:{}", port()));
        let mut command = Command::new(program);
        command.args([
            "--data-dir",
            data.to_str().unwrap(),
            "--listen-client-urls",
            &url,
            "--advertise-client-urls",
            &url,
        ]);
        command
            .args(["--listen-peer-urls", &peer, "--log-level", "error"])
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let etcd = command.spawn().expect("etcd is missing: run .ci/setup");
        let member = Self { etcd, url, access: access.iter().map(|flag| (*flag).to_owned()).collect() };
        let until = Instant::now() + Duration::from_secs(30);
        while member.ask(&["endpoint", "health"]).is_err() {
            assert!(Instant::now() < until, "etcd does not answer within 30 s");
            std::thread::sleep(Duration::from_millis(50));
        }
        member
    }

    fn ask(&self, args: &[&str]) -> Result<String, String> {
        let access: Vec<&str> = self.access.iter().map(String::as_str).collect();
        answer(&[&["--endpoints", &self.url], access.as_slice(), args].concat())
    }

    /// What etcdctl answers of this member; it must succeed.
    #[track_caller]
    pub(crate) fn run(&self, args: &[&str]) -> String {
        self.ask(args).unwrap_or_else(|error| panic!("etcdctl {args:?}: {error}"))
    }
}
