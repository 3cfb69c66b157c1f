//! What to do after an attempt: a pure function, shared by every Oncebox front.
