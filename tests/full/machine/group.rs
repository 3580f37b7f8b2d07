//! Groups of this machine for the tests of `memory`: made below the memory hierarchy, removed at the end. Needs root.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const TOP: &str = "/sys/fs/cgroup/memory";

/// A v1 group.
pub(crate) struct Group {
    pub(crate) folder: PathBuf,
    pub(crate) path: String,
    children: Vec<Child>,
}

impl Group {
    /// A group with a limit, for a test to fill.
    pub(crate) fn new(limit: u64) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let path = format!("/plimsoll-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = Path::new(TOP).join(&path[1..]);
        if let Err(error) = fs::create_dir(&folder) {
            panic!("these tests make cgroups below {TOP} (cgroup v1 with the memory controller, as root): {error}");
        }
        let group = Self { folder, path, children: Vec::new() };
        group.write("memory.limit_in_bytes", &limit.to_string());
        group
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }

    pub(crate) fn number(&self, file: &str) -> u64 {
        fs::read_to_string(self.folder.join(file)).unwrap().trim().parse().unwrap()
    }

    pub(crate) fn limit(&self) -> u64 {
        self.number("memory.limit_in_bytes")
    }

    /// Runs Python in the group until it prints a line; it goes on until the end of the test.
    pub(crate) fn run(&mut self, script: &str) {
        let procs = self.folder.join("cgroup.procs");
        let mut child = Command::new("/bin/sh")
            .args(["-c", "echo $$ > \"$0\" && exec python3 -c \"$1\"", procs.to_str().unwrap(), script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready", "the process in the group failed");
        self.children.push(child);
    }

    /// Whether all processes that were started still run.
    pub(crate) fn lives(&mut self) -> bool {
        self.children.iter_mut().all(|child| child.try_wait().unwrap().is_none())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let end = Instant::now() + Duration::from_secs(5);
        while fs::remove_dir(&self.folder).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Reads a file of `bytes` once, and waits.
pub(crate) fn fills_cache(file: &str, bytes: u64) -> String {
    format!(
        "import os,time\nf=os.open({file:?},os.O_RDONLY)\nn={bytes}\nwhile n>0:\n  b=os.read(f,1<<20)\n  n-=len(b)\n  \
         if not b: break\nprint('ready',flush=True)\ntime.sleep(600)"
    )
}

/// Holds `bytes` of anonymous memory.
pub(crate) fn holds_memory(bytes: u64) -> String {
    format!(
        "import mmap,time\nm=mmap.mmap(-1,{bytes},flags=mmap.MAP_PRIVATE|mmap.MAP_ANONYMOUS)\nfor i in \
         range(0,{bytes},4096): m[i]=1\nprint('ready',flush=True)\ntime.sleep(600)"
    )
}

/// Reads a file again and again.
pub(crate) fn reads_again_and_again(file: &str) -> String {
    format!(
        "import os\nf=os.open({file:?},os.O_RDONLY)\nsaid=False\nwhile True:\n  os.lseek(f,0,0)\n  while \
         os.read(f,1<<20): pass\n  if not said: print('ready',flush=True); said=True"
    )
}

/// A file of `bytes` that is on the disk, and not in anybody's cache.
pub(crate) fn file_on_disk(folder: &Path, bytes: u64) -> String {
    let path = folder.join("data");
    let script = format!(
        "import os\nf=open({:?},'wb')\nfor _ in range({bytes}>>20): f.write(os.urandom(1<<20))\nf.flush(); \
         os.fsync(f.fileno())\nos.posix_fadvise(f.fileno(),0,0,os.POSIX_FADV_DONTNEED)",
        path.to_str().unwrap()
    );
    assert!(Command::new("python3").args(["-c", &script]).status().unwrap().success());
    path.to_str().unwrap().to_owned()
}
