//! A repository is made, committed to, cloned and pulled.
//!
//! `cargo run -p oncebox --features local --example git -- --local`

mod support;

use oncebox::{Error, GitScope, Sandbox};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    let sandbox = Sandbox::create(&client).await?;
    let git = sandbox.git();
    git.init("repo", false, Some("main")).await?;
    git.configure_user("Me", "me@example.com", GitScope::Local("repo")).await?;
    sandbox.files().write("repo/README", "hello\n").await?;
    for file in git.status("repo").await?.files {
        println!("{} is new: {}", file.path, file.is_untracked());
    }
    git.add_all("repo").await?;
    git.commit("repo", "first").await?;

    // From elsewhere: `.credentials(user, token)`, which are in no argument, file or variable of the sandbox.
    git.clone("repo").path("copy").await?;
    git.commit("repo", "second").allow_empty(true).await?;
    git.pull("copy").await?;
    let branches = git.branches("copy").await?;
    println!("on {}", branches.current_branch.unwrap_or_default());
    print!("{}", sandbox.commands().run("git -C copy log --format=%s").await?.stdout_text());
    sandbox.kill().await?;
    client.close().await;
    Ok(())
}
