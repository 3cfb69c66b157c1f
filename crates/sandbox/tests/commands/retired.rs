//! Many commands at once on connections that are retired: a smaller `cargo xtask bench commands`.

use std::time::Duration;

use oncebox_faults::Server;

use crate::many;

#[tokio::test]
async fn commands_on_connections_that_are_retired_are_neither_lost_nor_doubled() {
    const COMMANDS: usize = 400;
    let server = Server::builder(many::script(20, Duration::from_secs(2))).start().await.unwrap();
    let tally = many::run(&server.url(""), COMMANDS, || {}).await;
    assert_eq!((tally.whole, tally.wrong, tally.first), (COMMANDS, 0, None));
    let totals = server.log().totals();
    assert_eq!(totals.processed, COMMANDS as u64 + 1, "each start once, and the create");
    assert!(totals.connections >= 20, "{totals:?}");
}
