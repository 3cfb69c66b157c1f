//! A volume outlives the sandboxes that it is mounted in.
//!
//! `cargo run -p oncebox --features local --example volume -- --local`

mod support;

use oncebox::{Error, Sandbox, Volume};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    let volume = Volume::create(&client, "example-data").await?;
    volume.write_file("/in.txt", "2\n3\n5\n").await?;

    let sandbox = Sandbox::create(&client).volume(volume.name(), "/data").await?;
    sandbox.commands().run("paste -sd+ /data/in.txt | tee /data/out.txt").await?;
    sandbox.kill().await?;

    print!("{}", volume.read_text("/out.txt").await?);
    for entry in volume.list_dir("/", 1).await? {
        println!("{} ({} bytes)", entry.path, entry.size);
    }
    Volume::destroy(&client, volume.id()).await?;
    client.close().await;
    Ok(())
}
