//! What a sandboxed process cannot do. These tests never run without isolation: what they try must fail in a sandbox, and
//! would succeed outside one.

use serde_json::json;

use super::support::{isolated, mark, shell};

#[tokio::test]
async fn a_sandbox_cannot_read_the_hosts_homes_or_secrets() {
    let Some(server) = isolated("a_sandbox_cannot_read_the_hosts_homes_or_secrets").await else { return };
    let sandbox = server.sandbox().await;
    let secret = server.base.path().join("home/me/.ssh/id_ed25519");
    std::fs::create_dir_all(secret.parent().unwrap()).unwrap();
    std::fs::write(&secret, "private key").unwrap();
    let mut paths = vec![secret.to_str().unwrap().to_owned(), "/etc/shadow".into(), "/etc/ssl/private".into()];
    let home = std::env::var("HOME").unwrap_or_default();
    let planted = tempfile::Builder::new().prefix(".oncebox-test-").tempfile_in(&home);
    if let Ok(planted) = &planted {
        paths.push(planted.path().to_str().unwrap().to_owned());
    }
    for path in &paths {
        assert!(!sandbox.run(&format!("cat {path}")).await.text().contains("private"), "{path}");
        assert_ne!(sandbox.run(&format!("ls {path}")).await.code(), 0, "{path}");
        sandbox.read(path).await.error(404);
    }
    assert_eq!(
        sandbox.run("ls -A /home /root /run /var /sys 2>/dev/null").await.text(),
        "/home:\nuser\n\n/root:\n\n/run:\ne2b\n\n/var:\ntmp\n"
    );
    // Nothing of the host's disk is mounted at a place of its own.
    let state = server.base.path().to_str().unwrap().to_owned();
    assert_ne!(sandbox.run(&format!("test -e {state}")).await.code(), 0);
}

#[tokio::test]
async fn a_sandbox_cannot_reach_the_control_port_or_the_network() {
    let Some(server) = isolated("a_sandbox_cannot_reach_the_control_port_or_the_network").await else { return };
    let sandbox = server.sandbox().await;
    let port = server.server.addr().port();
    let connect = |host: &str, port: u16| json!({ "process": { "cmd": "/bin/bash", "args": ["-c", format!("exec 3<>/dev/tcp/{host}/{port}")] } });
    for (host, port) in [("127.0.0.1", port), ("localhost", port), ("192.0.2.1", 80)] {
        let (_, events) = sandbox.start(connect(host, port), &[("connect-timeout-ms", "3000")]).await;
        assert_ne!(events.output().await.code(), 0, "{host}:{port}");
    }
    assert_eq!(sandbox.run("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '").await.text(), "lo\n");
    // Its own loopback works.
    let script = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); print('ok')";
    if std::path::Path::new("/usr/bin/python3").exists() {
        let python = json!({ "process": { "cmd": "/usr/bin/python3", "args": ["-c", script] } });
        assert_eq!(sandbox.start(python, &[]).await.1.output().await.text(), "ok\n");
    }
}

#[tokio::test]
async fn sandboxes_do_not_see_each_other() {
    let Some(server) = isolated("sandboxes_do_not_see_each_other").await else { return };
    let (one, other) = (server.sandbox().await, server.sandbox().await);
    let mark = mark();
    let (_, _events) = one.start(shell(&format!("exec sleep {mark}")), &[]).await;
    one.run("echo mine >/tmp/file; echo mine >/home/user/file; echo mine >/dev/shm/file").await;
    assert_eq!(other.run("ls -A /tmp /home/user /dev/shm").await.text(), "/dev/shm:\n\n/home/user:\n\n/tmp:\n");
    let lines = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '";
    assert!(one.run(lines).await.text().contains(&mark));
    assert!(!other.run(lines).await.text().contains(&mark));
    assert_eq!(other.run("cat /proc/1/comm").await.text(), "oncebox-envd\n");
    // Signals to every process there is reach this sandbox's only. (The line above would have failed outside one.)
    other.run("kill -9 -1").await;
    assert_eq!(one.run("echo alive").await.text(), "alive\n");
    assert_eq!(other.run("echo alive").await.text(), "alive\n");
}

#[tokio::test]
async fn the_system_cannot_be_made_writable() {
    let Some(server) = isolated("the_system_cannot_be_made_writable").await else { return };
    let sandbox = server.sandbox().await;
    // Some of these would hurt the machine, so be sure of the sandbox first.
    assert_eq!(sandbox.run("cat /proc/1/comm").await.text(), "oncebox-envd\n");
    for attempt in [
        "touch /usr/oncebox-test",
        "touch /opt/oncebox-test",
        "mount -o remount,rw /usr",
        "mount -o remount,bind,rw /usr",
        "umount /usr",
        "umount -l /usr",
        "mount -t tmpfs none /mnt",
        "mount --bind /usr /mnt",
        "mount -t proc none /mnt",
        "unshare -m true",
        "unshare -Urm true",
        "unshare -Ur mount -o remount,bind,rw /usr",
        "unshare -n true",
        "chmod 666 /dev/full && test $(stat -c %a /dev/full) != 666",
        "chmod 600 /dev/null",
        "chown 1 /dev/null",
        "mknod /tmp/disk b 8 0",
        "echo x >/proc/sys/kernel/core_pattern",
        "echo x >/proc/sys/kernel/hostname",
        "echo h >/proc/sysrq-trigger",
        "cat /proc/1/environ",
        "readlink /proc/1/fd/0",
        "ls /proc/1/root/",
        "cat /proc/1/mem",
        "hostname other",
        "nice -n -5 true && test $(nice -n -5 nice) = -5",
    ] {
        let output = sandbox.run(attempt).await;
        assert_ne!(output.code(), 0, "{attempt}: {} {}", output.text(), output.errors());
    }
    assert!(!std::path::Path::new("/usr/oncebox-test").exists());
    // What writes to devices is not what changes them.
    assert_eq!(sandbox.run("echo x >/dev/null && head -c 3 /dev/zero | wc -c").await.text(), "3\n");
}

#[tokio::test]
async fn privileges_are_few_and_final() {
    let Some(server) = isolated("privileges_are_few_and_final").await else { return };
    let sandbox = server.sandbox().await;
    let status = sandbox.run_as("root", "grep -E '^(Cap|NoNewPrivs)' /proc/self/status").await;
    // chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service, sys_chroot.
    let kept = "00000000000404fb";
    let expected = format!(
        "CapInh:\t0000000000000000\nCapPrm:\t{kept}\nCapEff:\t{kept}\nCapBnd:\t{kept}\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\n"
    );
    assert_eq!(status.text(), expected);
}

#[tokio::test]
async fn a_sandbox_cannot_end_its_own_envd() {
    let Some(server) = isolated("a_sandbox_cannot_end_its_own_envd").await else { return };
    let sandbox = server.sandbox().await;
    assert_eq!(sandbox.run("cat /proc/1/comm").await.text(), "oncebox-envd\n");
    // No signal has its default action, but the two that the kernel does not take from inside, and that of a child's end.
    let masks = sandbox.run("grep -h -E 'Sig(Ign|Cgt)' /proc/1/status; grep -h SigBlk /proc/self/status").await;
    let masks: Vec<u64> = masks
        .text()
        .lines()
        .map(|line| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap())
        .collect();
    let [ignored, caught, blocked] = masks[..] else { panic!("{masks:?}") };
    let bit = |signal: u32| 1_u64 << (signal - 1);
    assert_eq!(!(ignored | caught), bit(9) | bit(19), "{ignored:x} {caught:x}");
    assert_eq!(blocked, 0, "of a program in the sandbox");
    // All signals, again and again while envd starts processes and threads, to it and to each of its threads.
    let storm = "while [ ! -e /tmp/done ]; do for s in $(seq 1 64); do for t in $(ls /proc/1/task); do kill -$s 1 $t; done; done; done";
    let (_, storm) = sandbox.start(shell(storm), &[]).await;
    for round in 0..100 {
        let (ran, read) = tokio::join!(sandbox.run("echo $$"), sandbox.read("/etc/hostname"));
        assert!(ran.code() == 0 && read.status == 200, "{round}: {ran:?} {read:?}");
    }
    assert_eq!(sandbox.run("touch /tmp/done").await.code(), 0);
    storm.output().await;
    assert_eq!(sandbox.run("echo alive").await.text(), "alive\n");
}

#[tokio::test]
async fn nothing_of_the_server_is_inherited() {
    // An open file and a variable that careless programs would pass on.
    let leaked = tempfile::tempfile().unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    let Some(server) = isolated("nothing_of_the_server_is_inherited").await else { return };
    let sandbox = server.sandbox().await;
    let descriptors = sandbox.run("ls /proc/self/fd | tr '\\n' ' '").await;
    // The fourth is the one that lists.
    assert_eq!(descriptors.text(), "0 1 2 3 ");
    let stdin = sandbox.run("readlink /proc/self/fd/0; tty; ps -o tty= -p $$").await;
    assert_eq!(stdin.text(), "/dev/null\nnot a tty\n?\n");
    assert_ne!(sandbox.run("echo x >/dev/tty").await.code(), 0);
    let env = sandbox.run("env | cut -d= -f1 | sort | tr '\\n' ' '").await;
    assert_eq!(env.text(), "E2B_SANDBOX E2B_SANDBOX_ID E2B_TEMPLATE_ID HOME LOGNAME PATH PWD USER ");
    let session = sandbox.run("cut -d' ' -f6 /proc/1/stat").await;
    assert_eq!(session.text(), "0\n", "its session is one of outside");
}

#[tokio::test]
async fn a_sandbox_cannot_use_the_keys_of_the_servers_session() {
    let test = "a_sandbox_cannot_use_the_keys_of_the_servers_session";
    let calls = if cfg!(target_arch = "x86_64") { (249, 250) } else { (218, 219) };
    let script = format!(
        "import ctypes; c = ctypes.CDLL(None); key = c.syscall({}, b'user', b'oncebox-test', None, 0); \
         print('found' if key > 0 else 'none', c.syscall({}, 0, -3, 0))",
        calls.0, calls.1
    );
    if !std::path::Path::new("/usr/bin/python3").exists() {
        println!("SKIP {test}: there is no /usr/bin/python3");
        return;
    }
    // Of this thread, and of those it starts: the person who runs the test keeps their keyring.
    let mut session = match keyutils::Keyring::join_anonymous_session() {
        Ok(session) => session,
        Err(error) => {
            println!("SKIP {test}: this machine does not allow keyrings: {error}");
            return;
        }
    };
    session.add_key::<keyutils::keytypes::User, _, _>("oncebox-test", &b"secret"[..]).unwrap();
    // What the server starts has the key, or the test would show nothing.
    let mut host = std::process::Command::new("/usr/bin/python3");
    host.args(["-c", &script]);
    let host = tokio::task::spawn_blocking(move || host.output()).await.unwrap().unwrap();
    let host = String::from_utf8(host.stdout).unwrap();
    assert!(host.starts_with("found "), "{host}");

    let Some(server) = isolated(test).await else { return };
    let sandbox = server.sandbox().await;
    let python = json!({ "process": { "cmd": "/usr/bin/python3", "args": ["-c", script] } });
    let inside = sandbox.start(python, &[]).await.1.output().await;
    assert!(inside.text().starts_with("none "), "{} {}", inside.text(), inside.errors());
    assert_ne!(inside.text().split(' ').nth(1), host.split(' ').nth(1));
}

#[tokio::test]
async fn what_proc_says_of_the_kernels_memory_is_hidden_from_root_too() {
    let Some(server) = isolated("what_proc_says_of_the_kernels_memory_is_hidden_from_root_too").await else { return };
    let sandbox = server.sandbox().await;
    for name in ["kpagecount", "kpageflags", "kpagecgroup", "slabinfo", "vmallocinfo", "pagetypeinfo", "keys"] {
        let read = sandbox.run(&format!("head -c 64 /proc/{name} | wc -c")).await;
        assert_eq!(read.text(), "0\n", "{name}");
    }
}

#[tokio::test]
async fn empty_files_in_dev_do_not_use_up_the_machines_memory() {
    let Some(server) = isolated("empty_files_in_dev_do_not_use_up_the_machines_memory").await else { return };
    let sandbox = server.sandbox().await;
    let most = sandbox.run("stat -f -c %c /dev /dev/shm").await;
    assert_eq!(most.text(), "128\n16384\n");
    assert_ne!(sandbox.run("cd /dev && touch $(seq -f file-%g 200)").await.code(), 0);
    assert_eq!(sandbox.run("rm /dev/file-*; cd /dev/shm && touch $(seq 1000)").await.code(), 0);
}
