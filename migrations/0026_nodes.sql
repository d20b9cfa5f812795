-- What nodes tell each other about the limits that they keep together (RateDemand): a JSON object, how many
-- jobs of a node move bytes under each of them. Null: the node's version does not say it.
ALTER TABLE nodes ADD COLUMN rate_demand text;

-- The only node that can do the job, as another one has found: it has the file that is to be sent. Null: any.
ALTER TABLE jobs ADD COLUMN home uuid;
