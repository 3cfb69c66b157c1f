//! Who waits for the thread of I/O hears of it, also where a task there panics. The addon itself needs a JavaScript runtime.
#![allow(clippy::unwrap_used)]

#[path = "../src/told.rs"]
mod told;

use tokio::sync::oneshot;
use told::Told;

/// What is told of a task that has the guard and does this.
fn told_of(work: impl Future<Output = &'static str> + Send + 'static, abort: bool) -> &'static str {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (sender, receiver) = oneshot::channel();
        let told = Told::new(move |event| sender.send(event).unwrap(), || "lost");
        let task = tokio::spawn(async move {
            let event = work.await;
            told.tell(event);
        });
        if abort {
            tokio::task::yield_now().await;
            task.abort();
        }
        receiver.await.unwrap()
    })
}

#[test]
fn what_came_is_told_once() {
    assert_eq!(told_of(async { "came" }, false), "came");
}

#[test]
fn a_panic_is_told() {
    assert_eq!(told_of(async { panic!("on purpose") }, false), "lost");
}

#[test]
fn what_is_given_up_is_told() {
    assert_eq!(told_of(std::future::pending(), true), "lost");
}
