//! Which connection takes the next stream.

use std::sync::Arc;

use crate::conn::H2Connection;

/// How many connections are looked at for the least loaded. In a small pool that is all of them; in a large one it is
/// at least as good as the better of two random ones.
const LOOKED_AT: usize = 8;

/// Takes a stream of the least loaded connection. `avoid` names a connection to be used only where there is no other.
/// A replay goes where the fewest streams were opened: there a retirement is farthest.
pub(super) fn pick(
    connections: &[Arc<H2Connection>],
    avoid: Option<u64>,
    is_replay: bool,
    worn: bool,
) -> Option<Arc<H2Connection>> {
    if let [only] = connections {
        let is_fit = worn || !only.load().is_worn();
        return (is_fit && only.load().take()).then(|| only.clone());
    }
    let count = connections.len();
    let start = if count > 1 { fastrand::usize(..count) } else { 0 };
    loop {
        let mut best: Option<(&Arc<H2Connection>, (bool, u32))> = None;
        for (seen, index) in (start..count).chain(0..start).enumerate() {
            let connection = &connections[index];
            let load = connection.load();
            let active = load.active();
            if active < load.cap() && (worn || !load.is_worn()) {
                let rank = (Some(connection.id()) == avoid, if is_replay { load.opened() } else { active });
                if best.is_none_or(|(_, least)| rank < least) {
                    best = Some((connection, rank));
                }
            }
            if seen + 1 >= LOOKED_AT && best.is_some_and(|(_, (avoided, _))| !avoided) {
                break;
            }
        }
        let (connection, _) = best?;
        if connection.load().take() {
            return Some(connection.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::pool::load::Load;

    #[test]
    fn a_stream_is_taken_up_to_the_cap_and_counted_over_the_lifetime() {
        let load = Load::new(2, 3);
        assert!(load.take() && load.take() && !load.take());
        assert_eq!((load.active(), load.free(2)), (2, 0));
        assert_eq!(load.give_back(), 1);
        assert_eq!(load.free(2), 1);
        assert!(load.take() && load.is_worn());
        load.give_back();
        assert_eq!(load.free(2), 0);
        load.extend_lifetime();
        assert!(!load.is_worn());
        load.set_cap(0);
        assert!(!load.take());
    }
}
