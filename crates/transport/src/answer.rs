//! What an answer says that its head does not.

use http::response::Parts;
use oncebox_policy::Reading;

/// Reads what an answer says in its body, before anybody judges it; see
/// [`CallOptions::answer_reader`](crate::CallOptions::answer_reader).
///
/// It is given the answer's head, as much of the body as has come, and whether no more of it comes, since it is over, or is
/// longer than is looked at (64 KiB). It is asked first with the head alone: what it answers then is only waited with if it
/// is [`Reading::More`]. A body that was cut says nothing, and is not asked about.
pub type AnswerReader = fn(&Parts, &[u8], bool) -> Reading;
