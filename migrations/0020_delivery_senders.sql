-- Who has a delivery in his hands, so that it comes back when he is gone.

ALTER TABLE deliveries
    -- The node whose sender has it, until it says what came of the try.
    ADD COLUMN node uuid,
    -- Tries of which nothing was heard: they count for nothing in the schedule.
    ADD COLUMN lost_tries integer NOT NULL DEFAULT 0;
