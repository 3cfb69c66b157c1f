//! What servers write is read, and what we write is what they read.

use oncebox_protocol::{api, code_interpreter, envd_rest, volume};
use serde_json::json;

#[test]
fn a_sandbox_as_the_smallest_server_answers_it() {
    let sandbox: api::Sandbox = serde_json::from_value(json!({
        "templateID": "base", "sandboxID": "i1", "clientID": "c", "envdVersion": "0.6.13"
    }))
    .unwrap();
    assert_eq!(sandbox.sandbox_id, "i1");
    assert_eq!(sandbox.envd_access_token, None);
}

#[test]
fn nulls_and_unknown_fields_are_tolerated() {
    let sandbox: api::Sandbox = serde_json::from_value(json!({
        "templateID": "base", "sandboxID": "i1", "clientID": "c", "envdVersion": "0.6.13",
        "alias": null, "trafficAccessToken": null, "domain": null, "fromTheFuture": {"a": [1]}
    }))
    .unwrap();
    assert_eq!(sandbox.domain, None);

    let status: api::BuildStatusInfo = serde_json::from_value(json!({
        "templateID": "t", "buildID": "b", "status": "building", "logEntries": null
    }))
    .unwrap();
    assert_eq!(status.log_entries, []);

    let secret: api::Secret = serde_json::from_value(json!({
        "secretID": "s", "name": "n", "currentVersion": 1, "metadata": null,
        "createdAt": "2026-08-21T10:00:00Z", "updatedAt": "2026-08-21T10:00:00Z"
    }))
    .unwrap();
    assert!(secret.metadata.is_empty());
}

#[test]
fn moments_are_read_as_go_and_others_write_them() {
    let listed = |moment: &str| {
        serde_json::from_value::<api::ListedSandbox>(json!({
            "templateID": "base", "sandboxID": "i1", "clientID": "c", "envdVersion": "0.6.13",
            "startedAt": moment, "endAt": "0001-01-01T00:00:00Z",
            "cpuCount": 2, "memoryMB": 512, "diskSizeMB": 1024, "state": "running"
        }))
        .map(|sandbox| sandbox.started_at.as_nanosecond())
    };
    let whole = 1_787_306_400_000_000_000_i128;
    assert_eq!(listed("2026-08-21T10:00:00Z").unwrap(), whole);
    assert_eq!(listed("2026-08-21T10:00:00.123456789Z").unwrap(), whole + 123_456_789);
    assert_eq!(listed("2026-08-21T12:00:00.5+02:00").unwrap(), whole + 500_000_000);
    assert!(listed("yesterday").is_err());
}

#[test]
fn values_that_are_not_known_are_kept() {
    let state: api::SandboxState = serde_json::from_value(json!("hibernating")).unwrap();
    assert_eq!(state, api::SandboxState::Other("hibernating".to_owned()));
    assert_eq!(serde_json::to_value(&state).unwrap(), json!("hibernating"));
    assert_eq!(api::SandboxState::from("paused"), api::SandboxState::Paused);
    assert_eq!(api::NodeStatus::ShuttingDown.to_string(), "shutting_down");
}

#[test]
fn bodies_say_only_what_is_set() {
    let body = api::NewSandbox { template_id: "base".to_owned(), ..Default::default() };
    assert_eq!(serde_json::to_value(&body).unwrap(), json!({"templateID": "base"}));
    assert_eq!(serde_json::to_value(api::ConnectSandbox::default()).unwrap(), json!({}));
}

#[test]
fn keys_are_written_in_their_mixed_case() {
    let body = api::NewSandbox {
        template_id: "base".to_owned(),
        timeout: Some(60),
        auto_pause: Some(true),
        allow_internet_access: Some(false),
        network: Some(api::SandboxNetwork {
            allow_out: Some(vec!["example.com".to_owned()]),
            https_ports: Some(vec![8443]),
            ..Default::default()
        }),
        env_vars: Some([("KEY".to_owned(), "value".into())].into()),
        volume_mounts: Some(vec![api::VolumeMount { name: "v".to_owned(), path: "/v".to_owned() }]),
        ..Default::default()
    };
    assert_eq!(
        serde_json::to_value(&body).unwrap(),
        json!({
            "templateID": "base", "timeout": 60, "autoPause": true, "allow_internet_access": false,
            "network": {"allowOut": ["example.com"], "httpsPorts": [8443]},
            "envVars": {"KEY": "value"}, "volumeMounts": [{"name": "v", "path": "/v"}]
        })
    );
}

#[test]
fn what_the_official_sdks_send_is_read() {
    let python: api::NewSandbox =
        serde_json::from_str(r#"{"templateID":"base","metadata":{},"envVars":{},"mcp":null}"#).unwrap();
    assert_eq!(python.metadata, Some(Default::default()));
    assert_eq!(python.mcp, None);
    let network: api::NetworkUpdate =
        serde_json::from_str(r#"{"egressProxy":null,"allow_internet_access":true}"#).unwrap();
    assert_eq!(network.allow_internet_access, Some(true));
}

#[test]
fn a_fork_holds_a_sandbox_or_an_error() {
    let forks: Vec<api::ForkResult> = serde_json::from_value(json!([
        {"sandbox": {"templateID": "t", "sandboxID": "i2", "clientID": "c", "envdVersion": "0.6.13"}},
        {"error": {"code": 500, "message": "no room"}}
    ]))
    .unwrap();
    assert!(forks[0].sandbox.is_some() && forks[0].error.is_none());
    assert_eq!(forks[1].error.as_ref().unwrap().message.as_deref(), Some("no room"));
}

#[test]
fn a_registry_login_is_told_by_its_type() {
    let login =
        api::ImageRegistry::Registry(api::GeneralRegistry { username: "me".to_owned(), password: "hunter2".into() });
    let written = serde_json::to_value(&login).unwrap();
    assert_eq!(written, json!({"type": "registry", "username": "me", "password": "hunter2"}));
    assert_eq!(serde_json::from_value::<api::ImageRegistry>(written).unwrap(), login);
}

#[test]
fn credentials_are_not_printed() {
    let secret = "s3cr3t";
    let printed = [
        format!("{:?}", api::Sandbox { envd_access_token: Some(secret.into()), ..Default::default() }),
        format!(
            "{:?}",
            api::NewSandbox { env_vars: Some([("K".to_owned(), secret.into())].into()), ..Default::default() }
        ),
        format!("{:?}", api::NewSecret { value: secret.into(), ..Default::default() }),
        format!("{:?}", api::VolumeAndToken { token: secret.into(), ..Default::default() }),
        format!("{:?}", api::EgressProxy { password: Some(secret.into()), ..Default::default() }),
        format!("{:?}", api::Team { api_key: secret.into(), ..Default::default() }),
        format!("{:?}", api::TemplateUpload { url: Some(secret.into()), ..Default::default() }),
    ];
    for text in printed {
        assert!(!text.contains(secret), "{text}");
        assert!(text.contains("SecretString(…)"), "{text}");
    }
}

#[test]
fn the_other_servers_have_types_of_their_own() {
    let entry: volume::Entry = serde_json::from_value(json!({
        "name": "a", "type": "symlink", "path": "/a", "size": 3, "mode": 511, "uid": 0, "gid": 0,
        "atime": "2026-08-21T10:00:00Z", "mtime": "2026-08-21T10:00:00Z", "ctime": "2026-08-21T10:00:00Z", "target": "b"
    }))
    .unwrap();
    assert_eq!(entry.r#type, volume::EntryType::Symlink);
    let written: Vec<envd_rest::WrittenFile> =
        serde_json::from_value(json!([{"name": "a", "path": "/home/user/a", "type": "file"}])).unwrap();
    assert_eq!(written[0].path, "/home/user/a");
    let execute = code_interpreter::ExecuteCode { code: "1".to_owned(), ..Default::default() };
    assert_eq!(serde_json::to_value(execute).unwrap(), json!({"code": "1"}));
}
