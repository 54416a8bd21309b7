-- Version 2 adds to version 1 how far each log is indexed, and the index.

ALTER TABLE log ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0; -- lines from the first on that are in the index, or have no words
ALTER TABLE log ADD COLUMN behind  INTEGER NOT NULL DEFAULT 1; -- 1: there may be more lines than that

CREATE INDEX log_behind ON log (kind, number) WHERE behind = 1;

CREATE TABLE hit (
  id   INTEGER PRIMARY KEY,     -- of the line in table word; goes up with its time
  line INTEGER NOT NULL         -- its id in table line
);

CREATE UNIQUE INDEX hit_line ON hit (line);

-- The words of the lines. FTS5 keeps for each word the ids in table hit, and nothing else.

CREATE VIRTUAL TABLE word USING fts5 (
  words,
  content = '', contentless_delete = 1, detail = none,
  tokenize = "ascii tokenchars '!#$%&''()*+,-./:;<=>?@[\]^_`{|}~'"
);

-- A transaction's worth of lines in memory makes one segment, not many.
INSERT INTO word (word, rank) VALUES ('hashsize', 16777216);
-- Fewer merges make a quarter more lines a second; a search looks at a few more segments.
INSERT INTO word (word, rank) VALUES ('automerge', 8);
