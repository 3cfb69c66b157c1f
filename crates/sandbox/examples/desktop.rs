//! A display is started, worked by mouse and keyboard, looked at, and streamed.
//!
//! `cargo run -p oncebox --features local --example desktop -- --local`; locally it takes Xvfb, xdotool, scrot, x11vnc, noVNC
//! and xmessage on this machine, which E2B's template `desktop` has.

mod support;

use std::time::Duration;

use oncebox::{Command, Error, MouseButton, Sandbox};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    let sandbox = Sandbox::create(&client).template("desktop").env("DISPLAY", ":0").await?;
    let desktop = sandbox.desktop();
    desktop.start(800, 600, 96).await?;
    let question = Command::new("xmessage").args(["-title", "A question", "-print", "Is this a window?"]);
    let question = sandbox.commands().start(question.timeout(Duration::from_secs(60))).await?;
    let window = loop {
        if let Some(window) = desktop.application_windows("xmessage").await?.pop() {
            break window;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    println!("window {:?} of {:?}", desktop.window_title(&window).await?, desktop.screen_size().await?);

    desktop.click(MouseButton::Left, Some((400, 300))).await?;
    println!("the mouse is at {:?}", desktop.cursor_position().await?);
    println!("a picture of {} bytes", desktop.screenshot().await?.len());

    let stream = desktop.stream().require_auth(true).await?;
    println!("seen at {}", stream.url().build());
    stream.stop().await?;
    question.kill().await?;
    sandbox.kill().await?;
    client.close().await;
    Ok(())
}
