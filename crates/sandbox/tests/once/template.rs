//! Templates: built from their steps, through faults, and looked after.

use std::fs;
use std::sync::{Arc, Mutex};

use oncebox::local::LocalServer;
use oncebox::{BuildEvent, Client, CopyFiles, ErrorKind, HttpVersion, Ready, Sandbox, Template};
use oncebox_faults::{Fault, Moment, Rule, Script};
use serde_json::json;

use crate::support::{Server, cut};

/// With isolation: a build's commands have no business on this machine.
async fn server() -> Server {
    Server::of(LocalServer::start().await.unwrap())
}

fn context() -> tempfile::TempDir {
    let context = tempfile::tempdir().unwrap();
    fs::create_dir_all(context.path().join("app/deep")).unwrap();
    fs::write(context.path().join("app/hello.txt"), "hello").unwrap();
    fs::write(context.path().join("app/deep/run.sh"), "#!/bin/sh\necho ran\n").unwrap();
    fs::write(context.path().join("app/left.log"), "not wanted").unwrap();
    fs::write(context.path().join(".dockerignore"), "**/*.log\n").unwrap();
    context
}

async fn output(client: &Client, template: &str, line: &str) -> String {
    let sandbox = Sandbox::create(client).template(template).await.unwrap();
    let output = sandbox.commands().run(line).await.unwrap();
    sandbox.kill().await.unwrap();
    assert_eq!(output.exit_code(), 0, "{}", output.stderr_text());
    output.stdout_text()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recipe_becomes_a_template_and_is_looked_after() {
    let server = server().await;
    let client = server.client();
    let context = context();
    let recipe = Template::from_base_image()
        .context(context.path())
        .copy_files(CopyFiles::new("app", "/srv/app").mode(0o755))
        .make_dir("/srv/made here")
        .set_envs([("GREETING", "good morning")])
        .run("cat /srv/app/hello.txt > /srv/'made here'/copy; echo \"$GREETING\" > /srv/greeting")
        .rename("/srv/greeting", "/srv/greeting.txt")
        .make_symlink("/srv/greeting.txt", "/srv/link")
        .run("echo gone > /srv/gone")
        .remove("/srv/gone")
        .ready(Ready::file("/srv/greeting.txt"));
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let templates = client.templates();
    let build = templates.build(&recipe, "tried").tag("one").on_event(move |event| seen.lock().unwrap().push(event));
    let built = build.await.unwrap();
    assert_eq!(built.status(0).await.unwrap().status, oncebox::BuildStatus::Ready);
    let said: Vec<BuildEvent> = std::mem::take(&mut *events.lock().unwrap());
    assert!(said.iter().any(|event| matches!(event, BuildEvent::Uploading { sent, of, .. } if sent == of)), "{said:?}");
    assert!(said.iter().any(|event| matches!(event, BuildEvent::Log(_))));
    // The ids are told once, before all that the build says.
    let is_started = |event: &&BuildEvent| matches!(event, BuildEvent::Started { .. });
    let begun = said.iter().position(|event| is_started(&event)).unwrap();
    assert_eq!(said.iter().filter(is_started).count(), 1, "{said:?}");
    assert!(!said[..begun].iter().any(|event| matches!(event, BuildEvent::Log(_))), "{said:?}");
    let expected = BuildEvent::Started {
        template_id: built.template_id().to_owned(),
        build_id: built.build_id().to_owned(),
        names: built.names().to_vec(),
        tags: built.tags().to_vec(),
    };
    assert_eq!(said[begun], expected);

    let line = "cd /srv; cat 'made here/copy' link; app/deep/run.sh; ls app; ls gone 2>&1 | wc -l";
    assert_eq!(output(&client, "tried:one", line).await, "hellogood morning\nran\ndeep\nhello.txt\n1\n");

    // The same files once more are there already.
    let seen = Arc::clone(&events);
    let again =
        templates.build(&recipe, "tried").on_event(move |event| seen.lock().unwrap().push(event)).await.unwrap();
    assert_eq!(again.template_id(), built.template_id());
    let said = std::mem::take(&mut *events.lock().unwrap());
    assert!(said.iter().any(|event| matches!(event, BuildEvent::AlreadyThere { from } if from == "app")), "{said:?}");
    assert!(!said.iter().any(|event| matches!(event, BuildEvent::Uploading { .. })));
    assert_eq!(output(&client, "tried", "cat /srv/app/hello.txt").await, "hello");

    assert!(templates.exists("tried").await.unwrap() && !templates.exists("never").await.unwrap());
    let listed = templates.list().await.unwrap();
    assert!(listed.iter().any(|template| template.template_id == built.template_id()), "{listed:?}");
    assert_eq!(templates.info("tried").await.unwrap().template_id, built.template_id());
    templates.assign_tags("tried:one", ["two", "three"]).await.unwrap();
    templates.remove_tags("tried", ["three"]).await.unwrap();
    let tags: Vec<String> = templates.tags("tried").await.unwrap().into_iter().map(|tag| tag.tag).collect();
    assert!(tags.contains(&"two".to_owned()) && !tags.contains(&"three".to_owned()), "{tags:?}");
    templates.publish(built.template_id(), true).await.unwrap();
    assert!(templates.info("tried").await.unwrap().public);
    assert!(templates.delete("tried").await.unwrap() && !templates.delete("tried").await.unwrap());
    assert!(!templates.exists("tried").await.unwrap());
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_whose_polls_are_cut_and_whose_register_and_start_are_lost_ends_right() {
    let server = server().await;
    server
        .faults(json!({"rules": [
            {"on": ["getBuildStatus"], "times": 10, "fault": cut("before")},
            {"on": ["createTemplate"], "times": 1, "fault": cut("after")},
            {"on": ["startBuild"], "times": 1, "fault": cut("after")},
            {"on": ["startBuild"], "times": 1, "fault": {"status": {"code": 503, "when": "before"}}},
        ]}))
        .await;
    let client = server.client();
    let recipe = Template::from_base_image().run("echo built >> /srv/built");
    let built = client.templates().build(&recipe, "cut").await.unwrap();
    assert_eq!(output(&client, built.template_id(), "cat /srv/built").await, "built\n", "it was built once");
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_cut_half_way_is_sent_again_whole() {
    let server = server().await;
    let rule = Rule::at(Moment::RequestBody(300_000)).method("PUT").count(1).named("half").does(Fault::Reset);
    let proxy =
        oncebox_faults::Server::builder(Script::new().rule(rule)).proxy_to(&server.local.url()).keep_host().start();
    let proxy = proxy.await.unwrap();
    let client = server.client_at(&proxy.url(""), |builder| builder);
    let context = tempfile::tempdir().unwrap();
    // Of a size that cannot be mirrored, and that no compression takes away.
    let mut content = vec![0; 2 << 20];
    getrandom::fill(&mut content).unwrap();
    fs::write(context.path().join("big"), &content).unwrap();
    let recipe = Template::from_base_image().context(context.path()).copy("big", "/srv/big");
    let sent = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sent);
    let build = client.templates().build(&recipe, "half").on_event(move |event| {
        if let BuildEvent::Uploading { sent, .. } = event {
            seen.lock().unwrap().push(sent);
        }
    });
    let built = build.await.unwrap();
    assert_eq!(proxy.log().fired("half"), 1);
    let sent = std::mem::take(&mut *sent.lock().unwrap());
    assert!(sent.windows(2).any(|pair| pair[1] < pair[0]), "it did not begin again");
    let digest = output(&client, built.template_id(), "sha256sum < /srv/big").await;
    let ours: String = sha2::Digest::finalize(<sha2::Sha256 as sha2::Digest>::new_with_prefix(&content))
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(digest.split_whitespace().next(), Some(&*ours));
    let uploads = proxy.log().all_tries().into_iter().filter(|tried| tried.method == "PUT").count();
    assert_eq!(uploads, 2);
    client.close().await;
}

/// Gateways retire connections all the time: an upload that was refused is sent again, and polls go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_build_over_connections_that_retire_and_refuse_ends_right() {
    let server = server().await;
    let script = json!({"rules": [
        {"name": "retire", "at": "request", "when": {"nth": 3}, "do": [{"goaway": {"debug": "max_age"}}]},
        {"name": "refuse", "at": "request", "when": {"method": "PUT", "count": 1}, "do": ["refuse"]},
        {"name": "busy", "at": "received", "when": {"method": "POST", "count": 1},
            "do": [{"answer": {"status": 503, "headers": {"retry-after": "0"}}}]},
        {"name": "goaway", "at": "received", "when": {"method": "PUT", "count": 1}, "do": [{"goaway": {"last": "previous", "debug": "max_age"}}]},
    ]});
    let script = Script::from_json(&script.to_string()).unwrap();
    let proxy =
        oncebox_faults::Server::builder(script).proxy_to(&server.local.url()).keep_host().start().await.unwrap();
    let client = server.client_at(&proxy.url(""), |builder| builder.http_version(HttpVersion::Http2));
    let context = tempfile::tempdir().unwrap();
    let mut content = vec![0; 2 << 20];
    getrandom::fill(&mut content).unwrap();
    fs::write(context.path().join("big"), &content).unwrap();
    let recipe =
        Template::from_base_image().context(context.path()).copy("big", "/srv/big").run("echo built >> /srv/built");
    let built = client.templates().build(&recipe, "retired").await.unwrap();
    for rule in ["retire", "refuse", "busy", "goaway"] {
        assert!(proxy.log().fired(rule) > 0, "{rule} never fired: {:?}", proxy.log().totals());
    }
    let told = output(&client, built.template_id(), "cat /srv/built; stat -c %s /srv/big").await;
    assert_eq!(told, format!("built\n{}\n", content.len()));
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_fails_says_at_which_step_and_why() {
    let server = server().await;
    let client = server.client();
    let recipe = Template::from_base_image().run("true").run("echo told >&2; exit 3");
    let build = client.templates().build(&recipe, "failing").start().await.unwrap();
    let error = build.wait().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BuildFailed);
    let text = error.to_string();
    assert!(text.contains("step 2") && text.contains("exit code 3"), "{text}");
    // Whoever knows its ids can watch it.
    let known = client.templates().known_build(build.template_id(), build.build_id());
    assert_eq!(known.wait().await.unwrap_err().kind(), ErrorKind::BuildFailed);
    client.close().await;
}

/// Whoever watches by the handle that started a build is told what the build's own call would tell.
#[tokio::test]
async fn an_error_after_a_build_was_begun_names_the_build() {
    let answer = |code: u16| json!({"status": {"code": code, "when": "before"}});
    for (operation, code) in [("getBuildStatus", 404), ("startBuild", 403)] {
        let rules = json!([{"on": [operation], "fault": answer(code)}]);
        let server = Server::with_faults(json!({ "rules": rules })).await;
        let client = server.client();
        let recipe = Template::from_base_image();
        let templates = client.templates();
        let build = templates.build(&recipe, "mine").await.unwrap_err();
        let mut errors = vec![build];
        if let Ok(started) = templates.build(&recipe, "other").start().await {
            let error = started.wait().await.unwrap_err();
            assert_eq!(error.candidates(), [started.build_id()]);
            assert!(error.to_string().contains(&format!("of template {}", started.template_id())), "{error}");
            errors.push(error);
            // Who did not start it has begun nothing.
            let known = templates.known_build(started.template_id(), started.build_id());
            let error = known.wait().await.unwrap_err();
            assert!(!error.may_have_been_processed() && error.candidates().is_empty(), "{error}");
        }
        for error in errors {
            assert!(error.may_have_been_processed() && error.candidates().len() == 1, "{operation}: {error}");
            assert_eq!(error.status(), Some(code));
        }
    }
}

#[tokio::test]
async fn what_cannot_be_built_is_refused_before_any_request() {
    // Nothing listens there.
    let builder = Client::builder().api_key("k").api_url("http://127.0.0.1:9").http_version(HttpVersion::Http1);
    let client = builder.build().unwrap();
    let base = Template::from_base_image;
    for (recipe, words) in [
        (base().run(" "), "run: the command is empty"),
        (base().copy("../x", "/x"), "outside of the context"),
        (base().copy("/etc/passwd", "/x"), "outside of the context"),
        (base().copy("nothing-of-this-name", "/x"), "nothing-of-this-name"),
        (base().copy_files(CopyFiles::new("x", "/x").mode(0o77777)), "mode"),
        (base().set_envs([("A=B", "c")]), "A=B"),
        (base().apt_install(Vec::<String>::new()), "apt_install"),
        (Template::from_image("a b"), "a b"),
        (Template::from_template(""), "from_template"),
    ] {
        let error = client.templates().build(&recipe, "name").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(words) && error.attempts().is_empty(), "{error}");
    }
    for name in ["", " ", "a b"] {
        assert_eq!(client.templates().build(&base(), name).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let error = client.templates().build(&base(), "x").memory_mb(0).await.unwrap_err();
    assert!(error.to_string().contains("memory_mb"), "{error}");
}

#[tokio::test]
async fn a_registrys_password_that_the_server_repeats_is_in_no_error() {
    const PASSWORD: &str = "r3gistry-passw0rd";
    let said = format!("cannot pull with {PASSWORD:?}");
    let refused = json!({"code": 400, "body": {"code": 400, "message": said}});
    let failed = json!({"templateID": "t", "buildID": "b", "status": "error", "logs": [], "logEntries": [],
        "reason": {"message": said}});
    let on = |operation: &str, status: serde_json::Value| json!({"on": [operation], "fault": {"status": status}});
    for rules in [
        json!([on("startBuild", refused)]),
        json!([on("startBuild", json!({"code": 202})), on("getBuildStatus", json!({"code": 200, "body": failed}))]),
    ] {
        let server = Server::with_faults(json!({ "rules": rules })).await;
        let client = server.client();
        let recipe = Template::from_image_with_login("registry.example/image", "me", PASSWORD);
        let error = client.templates().build(&recipe, "mine").await.unwrap_err();
        let told = format!("{error} {error:?}");
        assert!(told.contains("cannot pull with") && !told.contains(PASSWORD), "{told}");
    }
}
