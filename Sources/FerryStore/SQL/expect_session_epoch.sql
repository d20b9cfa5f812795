-- Fails, and so undoes the transaction, when sessions have changed since epoch $1 (state FE001). Until the
-- commit no session can change. Locks: session_epoch, shared.
SELECT expect_session_epoch($1::bigint)
