//! How many connections to dial.

/// Dials that may be under way at once.
pub(super) const MAX_CONNECTING: usize = 16;

/// The state that the answer rests on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    /// Streams that are wanted: requests that wait, and those that soon will.
    pub(super) wanted: usize,
    /// Streams that open connections can still take.
    pub(super) free: usize,
    /// Dials under way.
    pub(super) connecting: usize,
    /// Streams that a new connection can be counted on for.
    pub(super) per_connection: u32,
    /// Connections open.
    pub(super) open: usize,
    /// Connections draining. They have a bound of their own, of the same size.
    pub(super) draining: usize,
    /// `max_connections`.
    pub(super) max_connections: usize,
}

/// How many connections are missing: to be taken back into use, or to be dialled.
pub(super) fn missing(demand: Demand) -> usize {
    if demand.wanted == 0 {
        return 0;
    }
    // A peer that allows no stream at the moment is waited for on one connection; more would get none either.
    if demand.per_connection == 0 {
        return usize::from(demand.open + demand.connecting == 0);
    }
    let per_connection = demand.per_connection as usize;
    let coming = demand.connecting.saturating_mul(per_connection);
    let short = demand.wanted.saturating_sub(demand.free).saturating_sub(coming);
    short.div_ceil(per_connection)
}

/// How many dials may start now.
pub(super) fn room(demand: Demand) -> usize {
    if demand.draining >= demand.max_connections {
        return 0;
    }
    let room = demand.max_connections.saturating_sub(demand.open + demand.connecting);
    room.min(MAX_CONNECTING.saturating_sub(demand.connecting))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dials(demand: Demand) -> usize {
        missing(demand).min(room(demand))
    }

    const NONE: Demand =
        Demand { wanted: 0, free: 0, connecting: 0, per_connection: 100, open: 0, draining: 0, max_connections: 200 };

    #[test]
    fn as_many_as_the_streams_that_are_short_need() {
        for (wanted, free, connecting, expected) in [
            (0, 0, 0, 0),
            (1, 0, 0, 1),
            (1, 1, 0, 0),
            (100, 0, 0, 1),
            (101, 0, 0, 2),
            (1000, 0, 0, 10),
            (1000, 100, 9, 0),
            (1000, 0, 9, 1),
            (10_000, 0, 0, 16),
            (10_000, 0, 16, 0),
        ] {
            let demand = Demand { wanted, free, connecting, ..NONE };
            assert_eq!(dials(demand), expected, "{demand:?}");
        }
    }

    #[test]
    fn connections_and_those_that_drain_are_bounded_each_by_itself() {
        assert_eq!(dials(Demand { wanted: 1000, open: 197, connecting: 1, ..NONE }), 2);
        assert_eq!(dials(Demand { wanted: 1000, open: 200, ..NONE }), 0);
        assert_eq!(dials(Demand { wanted: 1000, draining: 200, ..NONE }), 0);
        assert_eq!(dials(Demand { wanted: 1, draining: 199, ..NONE }), 1);
    }

    #[test]
    fn a_peer_that_allows_no_streams_is_not_stormed() {
        let zero = Demand { wanted: 50, per_connection: 0, ..NONE };
        assert_eq!(dials(zero), 1);
        assert_eq!(dials(Demand { open: 1, ..zero }), 0);
    }
}
