-- Version 2 adds to version 1 how far each log is indexed, and the index.

ALTER TABLE log ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0; -- lines from the first on that are in the index, or have no words
ALTER TABLE log ADD COLUMN behind  INTEGER NOT NULL DEFAULT 1; -- 1: there may be more lines than that

CREATE INDEX log_behind ON log (kind, number) WHERE behind = 1;

CREATE TABLE hit (
  id   INTEGER PRIMARY KEY,     -- of the line in table word; goes up with its time
  line INTEGER NOT NULL         -- its id in table line
);

CREATE UNIQUE INDEX hit_line ON hit (line);
