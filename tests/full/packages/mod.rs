//! What is published (`packages/release`, whose result lies in target/packages): sizes, what is within, and that it
//! runs where nothing but it is installed.

use crate::support::{folder, kustomization, root};
use plimsoll::app::Cli;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn packages() -> PathBuf {
    let folder = root().join("target/packages");
    assert!(folder.join("SHA256SUMS").is_file(), "{}: run .ci/full packages", folder.display());
    folder
}

/// The only file whose name ends so.
fn file(ending: &str) -> PathBuf {
    let all = std::fs::read_dir(packages()).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<PathBuf> = all.filter(|path| path.to_string_lossy().ends_with(ending)).collect();
    assert_eq!(found.len(), 1, "{ending}: {found:?}");
    found.into_iter().next().unwrap()
}

fn run(program: &str, args: &[&str]) -> Output {
    let output = Command::new(program).args(args).output();
    output.unwrap_or_else(|error| panic!("{program}: {error}; run .ci/setup --full packages"))
}

/// What it printed; it has to end well.
fn printed(program: &str, args: &[&str]) -> String {
    let output = run(program, args);
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The objects that the chart renders with these values over its own; or why it does not.
fn rendered(overrides: &str) -> Result<Vec<Value>, String> {
    let place = folder();
    let values = place.path().join("values.yaml");
    std::fs::write(&values, overrides).unwrap();
    let script = root().join("tests/full/packages/render.go");
    let chart = root().join("samples/deploy/chart");
    let output = Command::new("go")
        .env("GO111MODULE", "off")
        .env("GOPATH", "/usr/share/gocode")
        .env("GOCACHE", root().join("target/go-cache"))
        .args(["run", text(&script), text(&chart), "plimsoll", text(&values)])
        .output()
        .unwrap_or_else(|error| panic!("go: {error}; run .ci/setup --full packages"));
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// By kind, namespace and name.
fn by_name(objects: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for object in objects {
        let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let meta = &object["metadata"];
        let name = format!("{} {}/{}", part(&object["kind"]), part(&meta["namespace"]), part(&meta["name"]));
        assert!(all.insert(name.clone(), object).is_none(), "{name} is there twice");
    }
    all
}

#[test]
fn the_chart_renders_what_the_kustomization_creates() {
    let mut expected = by_name(kustomization(&root().join("samples/deploy")));
    // Helm itself makes the namespace.
    assert!(expected.remove("Namespace /plimsoll").is_some());
    for object in expected.values_mut() {
        // What the chart says of images beyond the kustomization.
        let pod = match object["kind"].as_str().unwrap() {
            "CronJob" => &mut object["spec"]["jobTemplate"]["spec"]["template"]["spec"],
            "DaemonSet" | "Deployment" => &mut object["spec"]["template"]["spec"],
            _ => continue,
        };
        pod["containers"][0]["imagePullPolicy"] = Value::from("IfNotPresent");
        // 0400 is octal for Kubernetes and Helm (YAML 1.1), and 400 for this reader (1.2).
        for volume in pod["volumes"].as_array_mut().unwrap() {
            if let Some(mode) = volume.get_mut("secret").and_then(|secret| secret.get_mut("defaultMode")) {
                *mode = Value::from(i64::from_str_radix(mode.to_string().trim_matches('"'), 8).unwrap());
            }
        }
    }
    let found = by_name(rendered("").unwrap());
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, object) in &expected {
        assert_eq!(&found[name], object, "{name}");
    }
}

#[test]
fn values_of_the_chart_arrive() {
    let all = |overrides: &str| by_name(rendered(overrides).unwrap());
    let few =
        all("serve: {enabled: false}\nnode: {enabled: false}\npropose: {enabled: false}\nrecord: {enabled: false}\n");
    assert!(few.keys().all(|name| !["-serve", "-node", "-record", "-propose"].iter().any(|part| name.ends_with(part))));
    assert_eq!(few["RoleBinding default/plimsoll-apiservers"]["subjects"].as_array().unwrap().len(), 1);
    let own =
        all("image: {repository: example.org/x, tag: v9}\nserve: {port: 1234}\nnode: {logs: '/var/log/k8s: \"odd\"', \
                   flags: ['--every=5m']}\nalert: {storageClass: fast, files: {alerts.yaml: 'a: \"{{ b }}\"'}}\n\
                   imagePullSecrets: [{name: pull}]\n");
    let serve = &own["DaemonSet plimsoll/plimsoll-node"]["spec"]["template"]["spec"];
    assert_eq!(serve["containers"][0]["image"], "example.org/x:v9");
    assert_eq!(serve["imagePullSecrets"][0]["name"], "pull");
    assert_eq!(serve["volumes"][0]["hostPath"]["path"], "/var/log/k8s: \"odd\"");
    assert_eq!(own["Service plimsoll/plimsoll-serve"]["spec"]["ports"][0]["port"], 1234);
    assert_eq!(own["PersistentVolumeClaim plimsoll/plimsoll-alerts"]["spec"]["storageClassName"], "fast");
    assert_eq!(own["ConfigMap plimsoll/plimsoll-alerts"]["data"]["alerts.yaml"], "a: \"{{ b }}\"");
    let words: Vec<&str> = ["command", "args"]
        .iter()
        .flat_map(|part| serve["containers"][0][part].as_array().unwrap())
        .map(|word| word.as_str().unwrap())
        .collect();
    assert!(words.contains(&"--listen=0.0.0.0:1234") && words.contains(&"--every=5m"), "{words:?}");
    assert!(words.contains(&"--hand-to=https://plimsoll-serve.plimsoll.svc:1234"), "{words:?}");
    let parsed = Cli::parser().try_get_matches_from(&words);
    assert!(parsed.is_ok(), "{words:?}: {}", parsed.unwrap_err());
    let refused = rendered("record: {enabled: false}\n").unwrap_err();
    assert!(refused.contains("propose.enabled requires record.enabled"), "{refused}");
    let refused = rendered("serve: {enabled: false}\n").unwrap_err();
    assert!(refused.contains("node.enabled requires serve.enabled"), "{refused}");
}

#[test]
fn sizes_are_as_promised() {
    let size = |path: &Path| path.metadata().unwrap().len();
    let program = packages().join("stage/plimsoll");
    // It shall be 25 MB; until then it does not grow unnoticed.
    assert!(size(&program) < 48_000_000, "{} bytes", size(&program));
    let place = folder();
    printed(
        "cargo",
        &[
            "package",
            "--no-verify",
            "--allow-dirty",
            "--quiet",
            "--manifest-path",
            text(&root().join("Cargo.toml")),
            "--target-dir",
            text(place.path()),
        ],
    );
    let made: Vec<PathBuf> =
        std::fs::read_dir(place.path().join("package")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let package = made.iter().find(|path| path.extension().is_some_and(|ending| ending == "crate")).unwrap();
    assert!(size(package) < 10_000_000, "{} bytes", size(package));
    let names = printed("tar", &["tzf", text(package)]);
    for outside in ["/tests/", "/benches/", "/samples/", "/fuzz/"] {
        assert!(!names.contains(outside), "{outside} is in the crate");
    }
    for inside in ["/src/main.rs", "/docs/runbooks/index.md", "/README.md", "/LICENSE-MIT"] {
        assert!(names.contains(inside), "{inside} is not in the crate");
    }
}

#[test]
fn the_program_is_static_and_names_no_path_of_this_machine() {
    let program = packages().join("stage/plimsoll");
    let headers = printed("readelf", &["--program-headers", "--wide", text(&program)]);
    assert!(!headers.contains("INTERP") && headers.contains("LOAD"), "{headers}");
    let bytes = std::fs::read(&program).unwrap();
    for path in [root().to_str().unwrap().to_owned(), std::env::var("HOME").unwrap() + "/."] {
        assert!(!bytes.windows(path.len()).any(|window| window == path.as_bytes()), "{path} is in the program");
    }
}

#[test]
fn the_debian_package_installs_runs_and_goes() {
    let package = file(".deb");
    assert_eq!(printed("dpkg-deb", &["--field", text(&package), "Depends"]).trim(), "");
    printed("dpkg", &["--install", text(&package)]);
    let version = printed("/usr/bin/plimsoll", &["--version"]);
    let as_plugin = printed("/usr/bin/kubectl-plimsoll", &["--version"]);
    let config = "/usr/share/doc/plimsoll/examples/config.toml";
    let sample = root().join("samples/list-storm");
    let verdict = printed("/usr/bin/plimsoll", &["--config", config, "report", text(&sample), "-o", "json"]);
    let manual = printed("man", &["--path", "plimsoll-quota-alert"]);
    let listed = printed("dpkg", &["--listfiles", "plimsoll"]);
    let units: Vec<&str> =
        listed.lines().filter(|path| path.ends_with(".service") || path.ends_with(".timer")).collect();
    let verified = run("systemd-analyze", &[&["verify", "--recursive-errors=no"][..], &units].concat());
    printed("dpkg", &["--purge", "plimsoll"]);
    assert!(!Path::new("/usr/bin/plimsoll").exists() && !Path::new("/etc/default/plimsoll").exists());
    assert!(version.starts_with("plimsoll ") && as_plugin == version, "{version}{as_plugin}");
    assert_eq!(serde_json::from_str::<Value>(&verdict).unwrap()["schema"], "plimsoll.report/v1");
    assert!(manual.contains("/usr/share/man/man1/plimsoll-quota-alert.1.gz"), "{manual}");
    assert_eq!(units.len(), 4, "{listed}");
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    // Each unit's command is one that the program takes.
    for unit in std::fs::read_dir(root().join("packages/systemd")).unwrap().map(|entry| entry.unwrap().path()) {
        let content = std::fs::read_to_string(&unit).unwrap();
        let Some(command) = content.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/")) else { continue };
        let words = command.split(' ').filter(|word| !word.ends_with("_FLAGS"));
        let words: Vec<&str> =
            words.map(|word| if word == "$PLIMSOLL_LOGS" { "/var/log/kubernetes" } else { word }).collect();
        let parsed = Cli::parser().try_get_matches_from(&words);
        assert!(parsed.is_ok(), "{}: {}", unit.display(), parsed.unwrap_err());
    }
}

#[test]
fn the_image_runs_without_root_on_a_file_system_that_cannot_be_written() {
    let home = folder();
    let storage = home.path().join("storage");
    let runroot = home.path().join("run");
    let buildah = |args: &[&str]| {
        let first = ["--root", text(&storage), "--runroot", text(&runroot), "--storage-driver", "vfs"];
        printed("buildah", &[&first[..], args].concat())
    };
    let image = buildah(&[
        "build",
        "--isolation",
        "chroot",
        "--quiet",
        "--file",
        text(&root().join("packages/Dockerfile")),
        text(&packages()),
    ]);
    let about: Value = serde_json::from_str(&buildah(&["inspect", "--type", "image", image.trim()])).unwrap();
    let config = &about["OCIv1"]["config"];
    assert_eq!((&config["User"], &config["Entrypoint"][0]), (&"65532:65532".into(), &"/usr/bin/plimsoll".into()));
    let container = buildah(&["from", image.trim()]);
    let place = buildah(&["mount", container.trim()]);
    let system = Path::new(place.trim());
    // A sample inside, and all of it read-only for a user that owns nothing.
    let sample = system.join("sample");
    printed("cp", &["-r", text(&root().join("samples/quiet")), text(&sample)]);
    printed("chmod", &["-R", "a+rX", text(&sample)]);
    let inside = |args: &[&str]| {
        let script = "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" && \
                      exec chroot --userspec=65532:65532 \"$0\" \"$@\"";
        let words = [&["--mount", "sh", "-c", script, text(system), "/usr/bin/plimsoll"][..], args].concat();
        let output =
            Command::new("unshare").env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").args(&words).output();
        output.unwrap()
    };
    let report = inside(&["report", "/sample", "-o", "json"]);
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["incident"]["verdict"], "none", "{}", report["incident"]);
    let traffic = inside(&["traffic", "/sample", "--by", "verb"]);
    assert!(traffic.status.success() && !traffic.stdout.is_empty());
    // Time zones and certificates are there.
    assert!(system.join("usr/share/zoneinfo/Europe/Berlin").is_file());
    assert!(system.join("etc/ssl/certs/ca-certificates.crt").metadata().unwrap().len() > 100_000);
    // Names are looked up by a static glibc: a name that there is none of is an error of its own.
    let url = inside(&["traffic", "http://nowhere.invalid:1/metrics", "--request-timeout", "1s"]);
    let words = String::from_utf8_lossy(&url.stderr).into_owned();
    assert_eq!(url.status.code(), Some(3), "{words}");
    assert!(!words.contains("panicked"), "{words}");
    buildah(&["umount", container.trim()]);
    buildah(&["rm", container.trim()]);
}

#[test]
fn the_manifest_of_krew_fits_the_archive() {
    let manifest: Value = serde_yaml_ng::from_str(&std::fs::read_to_string(file("plimsoll.yaml")).unwrap()).unwrap();
    assert_eq!(manifest["metadata"]["name"], "plimsoll");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(manifest["spec"]["version"], format!("v{version}"));
    let platform = &manifest["spec"]["platforms"][0];
    let archive = file(".tar.gz");
    let name = archive.file_name().unwrap().to_str().unwrap();
    assert!(platform["uri"].as_str().unwrap().ends_with(name), "{platform}");
    let sum = printed("sha256sum", &[text(&archive)]);
    assert_eq!(platform["sha256"].as_str(), sum.split(' ').next());
    let listed = printed("tar", &["tvzf", text(&archive)]);
    // krew takes folders and plain files only.
    assert!(listed.lines().all(|line| line.starts_with(['-', 'd'])), "{listed}");
    let place = folder();
    printed("tar", &["xzf", text(&archive), "--directory", text(place.path())]);
    for part in platform["files"].as_array().unwrap() {
        assert!(place.path().join(part["from"].as_str().unwrap()).is_file(), "{part}");
    }
    // As krew installs it: a link under kubectl's name for it.
    let link = place.path().join("kubectl-plimsoll");
    std::os::unix::fs::symlink(place.path().join(platform["bin"].as_str().unwrap()), &link).unwrap();
    assert!(
        printed(text(&link), &["traffic", "--help"]).contains("kubectl plimsoll traffic"),
        "it does not know its name"
    );
}

#[test]
fn the_list_of_parts_is_that_of_the_lock_file() {
    let parts: Value = serde_json::from_str(&std::fs::read_to_string(file(".cdx.json")).unwrap()).unwrap();
    assert_eq!(parts["bomFormat"], "CycloneDX");
    let name = |part: &Value| format!("{} {}", part["name"].as_str().unwrap(), part["version"].as_str().unwrap());
    let listed: BTreeSet<String> = parts["components"].as_array().unwrap().iter().map(name).collect();
    // What cargo says is compiled into the program on this machine.
    let tree = printed(
        "cargo",
        &[
            "tree",
            "--locked",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
            "--manifest-path",
            text(&root().join("Cargo.toml")),
        ],
    );
    let used: BTreeSet<String> = tree
        .lines()
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ").replace(" v", " "))
        .filter(|line| !line.is_empty() && !line.starts_with("plimsoll "))
        .collect();
    assert!(used.len() > 250, "{}", used.len());
    let missing: Vec<&String> = used.difference(&listed).collect();
    assert!(missing.is_empty(), "not in the list: {missing:?}");
}

#[test]
fn licences_and_sources_of_all_parts_are_allowed() {
    let tool = root().join("target/tools/bin/cargo-deny");
    let config = root().join("packages/deny.toml");
    let manifest = root().join("Cargo.toml");
    let args = ["--manifest-path", text(&manifest), "--config", text(&config), "check"];
    let output = run(text(&tool), &[&args[..], &["licenses", "bans", "sources"]].concat());
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    // It can fail: a licence less, and it does.
    let place = folder();
    let strict = std::fs::read_to_string(&config).unwrap().replace("\"MIT\", ", "");
    let path = place.path().join("deny.toml");
    std::fs::write(&path, strict).unwrap();
    let args = ["--manifest-path", text(&manifest), "--config", text(&path), "check", "licenses"];
    assert!(!run(text(&tool), &args).status.success());
}
