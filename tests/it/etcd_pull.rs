//! `etcd pull` from real members: plain, with TLS, with authentication, and through a proxy that breaks off.

use crate::member::{Member, etcdctl, port};
use crate::support::{Ran, folder, plimsoll, run};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Two megabytes, so that a snapshot is many messages.
fn fill(member: &Member) {
    for n in 0..20 {
        member.run(&["put", &format!("/registry/configmaps/web/{n}"), &"y".repeat(100_000)]);
    }
}

fn pull(endpoints: &str, file: &Path, more: &[&str]) -> Ran {
    plimsoll(&[&["etcd", "pull", "--endpoints", endpoints, "-f", file.to_str().unwrap()], more].concat())
}

/// The totals of a pull that went well, which must be what etcdctl says of the file.
#[track_caller]
fn checked(ran: &Ran, file: &Path) -> Value {
    let totals = ran.json(0)["totals"].clone();
    let status: Value =
        serde_json::from_str(&etcdctl(&["snapshot", "status", file.to_str().unwrap(), "-w", "json"])).unwrap();
    assert_eq!((&totals["revision"], &totals["hash"]), (&status["revision"], &status["hash"]));
    assert_eq!(totals["bytes"], std::fs::metadata(file).unwrap().len());
    assert_eq!(totals["bytes"].as_u64().unwrap(), status["totalSize"].as_u64().unwrap() + 32, "and the SHA-256");
    assert!(ran.stderr.contains("Secrets"), "{}", ran.stderr);
    totals
}

/// What a proxy does to what comes from the member.
#[derive(Clone, Copy)]
enum Fault {
    /// It closes the connection after so many bytes.
    CutAfter(usize),
    /// It passes nothing on after so many bytes.
    #[cfg(unix)]
    Stall(usize),
    /// It changes one byte within a value.
    Flip,
}

/// A proxy before a member, for as long as the test runs.
fn proxy(member: &Member, fault: Fault) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let to = member.url.trim_start_matches("http://").to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) = (client.unwrap(), TcpStream::connect(&to).unwrap());
            let (mut from, mut into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut into);
                let _ = into.shutdown(Shutdown::Write);
            });
            std::thread::spawn(move || {
                let (mut buffer, mut passed, mut flipped) = (vec![0; 16 << 10], 0, false);
                while let Ok(length @ 1..) = server.read(&mut buffer) {
                    let part = &mut buffer[..length];
                    passed += length;
                    match fault {
                        Fault::CutAfter(bytes) if passed > bytes => break,
                        #[cfg(unix)]
                        Fault::Stall(bytes) if passed > bytes => continue,
                        Fault::Flip
                            if !flipped
                                && let Some(at) =
                                    part.windows(500).position(|some| some.iter().all(|byte| *byte == b'y')) =>
                        {
                            part[at + 250] ^= 1;
                            flipped = true;
                        }
                        _ => {}
                    }
                    if client.write_all(part).is_err() {
                        break;
                    }
                }
                let _ = client.shutdown(Shutdown::Both);
                let _ = server.shutdown(Shutdown::Both);
            });
        }
    });
    url
}

#[test]
fn a_snapshot_comes_whole_or_from_the_next_member() {
    let folder = folder();
    let member = Member::plain(&folder.path().join("data"));
    fill(&member);
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let file = out.join("snapshot.db");
    let nobody = format!("http://127.0.0.1:{}", port());
    let ran = pull(&format!("{nobody},{}", member.url), &file, &["-o", "json"]);
    let totals = checked(&ran, &file);
    assert_eq!((&totals["endpoint"], totals["revision"].as_u64()), (&Value::from(member.url.as_str()), Some(21)));
    assert!(
        ran.stderr.contains(&format!("{nobody}: ")) && ran.stderr.contains("check host and port"),
        "{}",
        ran.stderr
    );
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions()) & 0o777,
        0o600
    );
    // For people: one sentence.
    let message = pull(&member.url, &file, &[]).exits(0).stdout.clone();
    assert!(message.contains("revision 21") && message.contains("SHA-256 verified"), "{message}");

    let before = std::fs::read(&file).unwrap();
    for (fault, says) in [(Fault::CutAfter(1_000_000), "broke off"), (Fault::Flip, "SHA-256")] {
        let bad = proxy(&member, fault);
        let alone = pull(&bad, &file, &[]);
        assert!(alone.exits(3).stderr.contains(&bad) && alone.stderr.contains(says), "{}", alone.stderr);
        assert!(std::fs::read(&file).unwrap() == before, "the file is as it was");
        let ran = pull(&format!("{bad},{}", member.url), &file, &["-o", "json"]);
        assert_eq!(checked(&ran, &file)["endpoint"], member.url.as_str());
        assert!(ran.stderr.contains(says) && ran.stderr.contains("the partial snapshot is deleted"), "{}", ran.stderr);
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 1, "nothing else is left behind");
    }
    assert!(pull(&nobody, &file, &[]).exits(3).stderr.contains("no endpoint is left"));
    assert!(pull(&member.url, Path::new("none/such.db"), &[]).exits(3).stderr.contains("can't write it"));
    assert!(pull("ftp://x", &file, &[]).exits(2).stderr.contains("not an endpoint"));
    // Interrupted, it leaves nothing behind that holds Secrets.
    #[cfg(unix)]
    {
        let bad = proxy(&member, Fault::Stall(500_000));
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        let mut child =
            command.args(["etcd", "pull", "--endpoints", &bad, "-f", file.to_str().unwrap(), "-q"]).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        let largest = || {
            std::fs::read_dir(&out).unwrap().filter(|one| one.as_ref().unwrap().file_name() != "snapshot.db").count()
        };
        while largest() == 0 {
            assert!(Instant::now() < until, "nothing is written");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 1, "nothing else is left behind");
    }
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = pull(&format!("http://{}", silent.local_addr().unwrap()), &file, &["--timeout", "1"]);
    assert!(silent.exits(3).stderr.contains("sent nothing for 1 s"), "{}", silent.stderr);
}

#[test]
fn users_and_passwords() {
    let folder = folder();
    let file = folder.path().join("snapshot.db");
    let mut member = Member::plain(&folder.path().join("data"));
    for args in [
        ["user", "add", "root:hunter2"].as_slice(),
        &["user", "add", "guest:guest"],
        &["user", "grant-role", "root", "root"],
    ] {
        member.run(args);
    }
    let off = run_as(&member, &file, "root", "hunter2");
    assert!(off.exits(3).stderr.contains("authentication is off"), "{}", off.stderr);
    member.run(&["auth", "enable"]);
    member.access = vec!["--user".to_owned(), "root:hunter2".to_owned()];
    checked(&run_as(&member, &file, "root", "hunter2"), &file);
    for (ran, says) in [
        (run_as(&member, &file, "root", "hunter3"), "check --user and the password"),
        (run_as(&member, &file, "guest", "guest"), "role root"),
        (pull(&member.url, &file, &[]), "authentication is on"),
    ] {
        assert!(ran.exits(3).stderr.contains(says) && ran.stderr.contains(&member.url), "{}", ran.stderr);
        assert!(!ran.stderr.contains("hunter"), "{}", ran.stderr);
    }
    let secret = folder.path().join("password");
    std::fs::write(&secret, "hunter2\n").unwrap();
    let ran = pull(&member.url, &file, &["--user", "root", "--password-file", secret.to_str().unwrap(), "-o", "json"]);
    checked(&ran, &file);
    assert!(pull(&member.url, &file, &["--user", "root"]).exits(2).stderr.contains("PLIMSOLL_ETCD_PASSWORD"));
}

fn run_as(member: &Member, file: &Path, user: &str, password: &str) -> Ran {
    let args = ["etcd", "pull", "--endpoints", &member.url, "-f", file.to_str().unwrap(), "--user", user, "-o", "json"];
    run(&args, &[("PLIMSOLL_ETCD_PASSWORD", password)], b"")
}

/// An authority in `folder`, and certificates that it signs.
fn authority(folder: &Path, name: &str, signs: &[(&str, &str)]) {
    let openssl = |args: &[&str]| {
        let out =
            Command::new("openssl").args(args).current_dir(folder).output().expect("openssl is missing: run .ci/setup");
        assert!(out.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    };
    let (key, certificate, subject) = (format!("{name}.key"), format!("{name}.crt"), format!("/CN={name}"));
    let new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    openssl(
        &[&["req", "-x509", "-days", "2", "-subj", &subject, "-keyout", &key, "-out", &certificate], &new[..]].concat(),
    );
    for (name, extension) in signs {
        std::fs::write(folder.join("extension"), format!("{extension}\n")).unwrap();
        let (own, request, signed) = (format!("{name}.key"), format!("{name}.csr"), format!("{name}.crt"));
        openssl(&[&["req", "-subj", &format!("/CN={name}"), "-keyout", &own, "-out", &request], &new[..]].concat());
        openssl(&[
            "x509",
            "-req",
            "-days",
            "2",
            "-in",
            &request,
            "-CA",
            &certificate,
            "-CAkey",
            &key,
            "-CAcreateserial",
            "-extfile",
            "extension",
            "-out",
            &signed,
        ]);
    }
}

#[test]
fn certificates_of_both_sides() {
    let folder = folder();
    let file = folder.path().join("snapshot.db");
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    authority(
        folder.path(),
        "ca",
        &[
            ("server", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth"),
            ("client", "extendedKeyUsage=clientAuth"),
        ],
    );
    authority(folder.path(), "other", &[("stranger", "extendedKeyUsage=clientAuth")]);
    let flags = [
        "--cert-file",
        &at("server.crt"),
        "--key-file",
        &at("server.key"),
        "--trusted-ca-file",
        &at("ca.crt"),
        "--client-cert-auth",
    ];
    let access = ["--cacert", &at("ca.crt"), "--cert", &at("client.crt"), "--key", &at("client.key")];
    let member = Member::start(&folder.path().join("data"), "https", &flags, &access);
    fill(&member);
    checked(&pull(&member.url, &file, &[&access[..], &["-o", "json"]].concat()), &file);
    for (flags, says) in [
        (vec!["--cacert".to_owned(), at("other.crt")], "check --cacert"),
        (vec!["--cacert".to_owned(), at("ca.crt")], "give --cert and --key"),
        (
            ["--cacert", "ca.crt", "--cert", "stranger.crt", "--key", "stranger.key"]
                .map(|flag| if flag.starts_with("--") { flag.to_owned() } else { at(flag) })
                .to_vec(),
            "--cert",
        ),
        (vec![], "give --cacert FILE"),
        (vec!["--cacert".to_owned(), at("ca.key")], "no certificates in PEM"),
        (
            ["--cacert", "ca.crt", "--cert", "client.crt", "--key", "client.crt"]
                .map(|flag| if flag.starts_with("--") { flag.to_owned() } else { at(flag) })
                .to_vec(),
            "no private key",
        ),
        (
            ["--cacert", "ca.crt", "--cert", "client.crt", "--key", "server.key"]
                .map(|flag| if flag.starts_with("--") { flag.to_owned() } else { at(flag) })
                .to_vec(),
            "not the key of the certificate",
        ),
    ] {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let ran = pull(&member.url, &file, &flags);
        assert!(ran.exits(3).stderr.contains(says), "{flags:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("PRIVATE KEY"));
    }
    // The name in the certificate is an address; and plain HTTP is not what is spoken there.
    let by_name = member.url.replace("127.0.0.1", "localhost");
    let ran = pull(&by_name, &file, &access);
    assert!(ran.exits(3).stderr.contains("another name"), "{}", ran.stderr);
    let plain = pull(&member.url.replace("https", "http"), &file, &[]);
    assert!(plain.exits(3).stderr.contains("it may require https://"), "{}", plain.stderr);
}
