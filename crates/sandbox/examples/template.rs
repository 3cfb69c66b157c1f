//! A template is built, with its log, and a sandbox is made from it.
//!
//! `cargo run -p oncebox --features local --example template -- --local`

mod support;

use oncebox::{BuildEvent, Error, Ready, Sandbox, Template};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    // Files that are copied are looked for below this folder.
    let context = std::env::temp_dir().join(format!("oncebox-example-{}", std::process::id()));
    let written = std::fs::create_dir(&context).and_then(|()| std::fs::write(context.join("greeting.txt"), "hello\n"));
    if let Err(error) = written {
        println!("{}: {error}", context.display());
        return Ok(());
    }
    let recipe = Template::from_base_image()
        .context(&context)
        .copy("greeting.txt", "/srv/greeting.txt")
        .set_envs([("WHOM", "world")])
        .run("echo \"$(cat /srv/greeting.txt), $WHOM\" > /srv/said")
        .ready(Ready::file("/srv/said"));
    let templates = client.templates();
    let build = templates.build(&recipe, "greeter").on_event(|event| match event {
        BuildEvent::AlreadyThere { from } => println!("{from} is there already"),
        BuildEvent::Uploading { from, sent, of } => println!("{from}: {sent} of {of} bytes"),
        BuildEvent::Log(entry) => println!("{}", entry.message),
        _ => {}
    });
    let built = build.await?;
    println!("{} is ready", built.template_id());

    let sandbox = Sandbox::create(&client).template("greeter").await?;
    print!("{}", sandbox.commands().run("cat /srv/said").await?.stdout_text());
    sandbox.kill().await?;
    templates.delete("greeter").await?;
    let _ = std::fs::remove_dir_all(&context);
    client.close().await;
    Ok(())
}
